"""Formulas as MathML, which browsers draw by themselves: no script, no font to load."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)
ACCENTED = re.compile(r"(\{?\\(?:tilde|hat|bar)\{\w\}\}?)_")  # with an index, which docutils would put below the letter


def draw(writer: Any, node: nodes.Element, *, as_block: bool) -> None:
    try:
        formula = tex2mathml(ACCENTED.sub(r"{\1{}}_", node.astext()), as_block=as_block)
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        formula = node.astext()
    writer.body.append(f'<div class="formula">{formula}</div>' if as_block else formula)
    raise nodes.SkipNode


def inline(writer: Any, node: nodes.math) -> None:
    draw(writer, node, as_block=False)


def block(writer: Any, node: nodes.math_block) -> None:
    draw(writer, node, as_block=True)


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
