"""A check that no two layers of a model, or of one `layer` block, have the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl import ir
from dsl.errors import names
from dsl.ir.walk import steps_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic
    from dsl.source import Span


def layer_names(facts: Facts) -> Iterator[Diagnostic]:
    """Report the second layer with the same name, because Keras would refuse it."""
    for block in (facts.model, *(facts.layers or ())):
        if block is None:
            continue
        first: dict[str, Span] = {}
        inputs = _inputs(block) if isinstance(block, ir.Model) else {}
        for name, span in _named(block):
            if name in inputs:
                yield names.name_of_input(span, name=name, first=inputs[name])
            elif name in first:
                yield names.duplicate("layer name", name, span, first[name])
            else:
                first[name] = span


def _inputs(model: ir.Model) -> dict[str, Span | None]:
    return {each.name: each.span for each in model.bindings if isinstance(each.value, ir.Input)}


def _named(block: ir.Model | ir.LayerBlock) -> Iterator[tuple[str, Span]]:
    for binding in block.bindings:
        for step in steps_in(binding.value):
            name = step.call.kwargs.get("name")
            if step.kind in {"layer", "application"} and isinstance(name, str):
                yield name, step.call.kwarg_spans["name"]
