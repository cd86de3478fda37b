"""Formulas as MathML, made when the site is built: nothing is fetched, and no script runs."""

from html import escape

from docutils.nodes import SkipNode
from latex2mathml.converter import convert


def inline(translator, node):
    """A formula within a sentence."""
    translator.body.append(convert(node.astext(), display="inline"))
    raise SkipNode


def display(translator, node):
    """A formula on a line of its own; it scrolls where it is wider than the screen."""
    label = f' id="{escape(node["ids"][0])}"' if node["ids"] else ""
    translator.body.append(f'<div class="math-display"{label}>')
    translator.body.append(convert(node.astext(), display="block"))
    translator.body.append("</div>")
    raise SkipNode


def setup(app):
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
