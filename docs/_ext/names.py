"""Code in prose that names something public, `sm.Taylor(fit)`, links to its page."""

import re

from docutils import nodes
from reference import ALIASES
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

import subsample_mcmc as sm

PUBLIC = re.compile(r"(sm\.\w+(?:\.\w+)*)\b")


def page_of(name):
    """Under which name it has its page: sm.rules.Normal is sm.Normal, by its room."""
    _, room, *rest = name.split(".")
    by_room = room in ALIASES and rest and rest[0] in sm.__all__
    return ".".join(["sm", *rest]) if by_room else name


class LinkNames(SphinxTransform):
    """A reference around each such piece of code; one that has no page stays as it is."""

    default_priority = 400

    def apply(self, **kwargs):
        """Called for every page."""
        for node in list(self.document.findall(nodes.literal)):
            found = PUBLIC.match(node.astext())
            if not found or isinstance(node.parent, nodes.reference | addnodes.pending_xref):
                continue
            if any(isinstance(n, nodes.title) for n in (node.parent, node.parent.parent)):
                continue
            reference = addnodes.pending_xref(
                "", refdomain="py", reftype="obj", reftarget=page_of(found[1]),
                refexplicit=True, refdoc=self.env.docname, refwarn=False,
            )  # fmt: skip
            node.replace_self(reference)
            reference += node


def setup(app):
    """Called by Sphinx."""
    app.add_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
