"""Formulas as MathML, made when the site is built: nothing is fetched, and no script runs."""

import re
from html import escape

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

THIN = '<mspace width="0.17em"></mspace>'


def formula(text, display):
    """MathML of a formula; a thin space between a function and an argument without brackets."""
    made = convert(text, display=display)
    return re.sub(r"(<mi>(?:log|exp|max|min)</mi>)(?=<m(?:i|row|sub|frac)\b)", rf"\1{THIN}", made)


def inline(translator, node):
    """A formula within a sentence."""
    translator.body.append(formula(node.astext(), "inline"))
    raise SkipNode


def display(translator, node):
    """A formula on a line of its own; it scrolls where it is wider than the screen."""
    label = f' id="{escape(node["ids"][0])}"' if node["ids"] else ""
    translator.body.append(f'<div class="math-display"{label}>')
    translator.body.append(formula(node.astext(), "block"))
    translator.body.append("</div>")
    raise SkipNode


def setup(app):
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
