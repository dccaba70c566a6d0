"""A check of layers that are given an address in place of a file of weights or words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl import ir
from dsl.errors import types
from dsl.files.paths import scheme_of
from dsl.ir.walk import calls_in, steps_in
from dsl.schema.layer_state import STATES, named_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def addresses(facts: Facts) -> Iterator[Diagnostic]:
    """Report files of layers that are no paths; those of attributes are reported when they are read."""
    for block in (facts.model, *(facts.layers or ())):
        values = [each.value for each in block.bindings] if block is not None else []
        for step in steps_in((*values, getattr(block, "output", None))):
            for call in (step.call, *calls_in(step.call)):
                yield from _files(call)


def _files(call: ir.Call) -> Iterator[Diagnostic]:
    names = ("weights", "vocabulary") if call.name in STATES else ("weights",)
    for name, value in named_arguments(call).items():
        if name in names and isinstance(value, str) and scheme_of(value) is not None:
            yield types.address(f"`{name}`", value, call.kwarg_spans.get(name, call.span))
