"""The gallery: notebooks/*.py as pages that are executed here, and an index with their figures.

A notebook stays a script; its page is made from it before Sphinx looks for pages, in
docs/gallery/made/, which git ignores. Cells that only draw are folded. `{gallery}` lists pages, one
`page: sentence` a line, each beside the first figure that its code made.
"""

from copy import deepcopy
from pathlib import Path

import jupytext
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

LOGGER = logging.getLogger(__name__)
FOLDED = "plt.subplots("  # what a cell that draws begins its figure with


def make(app):
    """Write a page for each notebook, if it is new or another."""
    folder = Path(app.srcdir) / "gallery" / "made"
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted((Path(app.srcdir).parent / "notebooks").glob("*.py")):
        notebook = jupytext.read(source)
        for i, cell in enumerate(notebook.cells):
            cell["id"] = f"cell-{i}"  # the same in each build
            if cell.cell_type == "code" and FOLDED in cell.source:
                cell.metadata["tags"] = ["hide-input"]
        text = jupytext.writes(notebook, fmt="ipynb")
        path = folder / f"{source.stem[2:]}.ipynb"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


class Cards(nodes.General, nodes.Element):
    """Where the cards of an index will stand: pages are known when all are read."""


class Gallery(SphinxDirective):
    """`{gallery}`: one page a line, `page: what it shows`."""

    has_content = True

    def run(self):
        """The place of the cards."""
        here = Path(self.env.docname).parent
        cards = Cards()
        cards["pages"] = [
            ((here / page.strip()).as_posix(), text.strip())
            for page, _, text in (line.partition(":") for line in self.content if line.strip())
        ]
        return [cards]


def fill(app, doctree, docname):
    """A card for each page: its first figure, its title, and a sentence."""
    for cards in list(doctree.findall(Cards)):
        grid = nodes.container(classes=["gallery"])
        for page, text in cards["pages"]:
            if page not in app.env.titles:
                LOGGER.warning("the gallery names %s, which is no page", page, location=docname)
                continue
            images = list(app.env.get_doctree(page).findall(nodes.image))
            if not images:
                LOGGER.warning("%s made no figure for its card", page, location=docname)
                continue
            image = deepcopy(images[0])
            image.attributes.update(alt="", width="100%")
            uri = app.builder.get_relative_uri(docname, page)
            title = app.env.titles[page].astext()
            link = nodes.reference("", "", image, internal=True, refuri=uri, classes=["picture"])
            named = nodes.reference("", title, internal=True, refuri=uri)
            card = nodes.container(classes=["card-of-page"])
            card += [
                nodes.paragraph("", "", link),
                nodes.paragraph("", "", nodes.strong("", "", named)),
                nodes.paragraph("", text),
            ]
            grid += card
        cards.replace_self(grid)


def setup(app):
    """Called by Sphinx."""
    app.add_node(Cards)
    app.add_directive("gallery", Gallery)
    app.connect("builder-inited", make)
    app.connect("doctree-resolved", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
