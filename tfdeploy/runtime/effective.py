"""The spec as it ran, as a spec that can be run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grammar.unparse import unparse

if TYPE_CHECKING:
    from dsl import ir


def effective_text(spec: ir.Spec) -> str:
    """Return the spec with includes, constants, overrides and defaults filled in."""
    return unparse(spec)
