"""Writes the IR as text: a spec with includes, constants, overrides and defaults filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.source import Source
from grammar.format import format_text
from grammar.unparse.blocks import blocks

if TYPE_CHECKING:
    from dsl.ir import Spec


def unparse(spec: Spec) -> str:
    """Return a spec as text in the uniform style. Reading the text gives an equal IR."""
    return format_text(Source(spec.path or "<spec>", "\n\n".join(blocks(spec)) + "\n"))
