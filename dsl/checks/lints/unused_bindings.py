"""A lint that every binding is used by a loss, a metric, the output or another binding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsl import ir
from dsl.errors.meaning import lint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def unused_bindings(facts: Facts) -> Iterator[Diagnostic]:
    """Report bindings that nothing uses; a model without loss and output is not checked."""
    for block in (facts.model, *(facts.layers or ())):
        if block is None:
            continue
        results = _results(block)
        if not results:
            continue
        used = {
            name for part in (*results, *(each.value for each in block.bindings)) for name in _names(part)
        }
        for binding in block.bindings:
            if binding.name not in used and binding.name_span is not None:
                yield lint.unused_binding(binding.name, binding.name_span)


def _results(block: ir.Model | ir.LayerBlock) -> list[Any]:
    results: list[Any] = [] if block.output is None else [block.output]
    if isinstance(block, ir.Model):
        objectives = [term.objective for term in block.loss] + [metric.objective for metric in block.metrics]
        results += [part for each in objectives for part in (each.target, each.prediction)]
    return results


def _names(part: Any) -> Iterator[str]:
    """Return the names of the bindings that an expression uses."""
    if isinstance(part, ir.Ref):
        yield part.name
    elif isinstance(part, ir.Group):
        for item in part.items:
            yield from _names(item)
    elif isinstance(part, ir.Flow):
        yield from _names(part.source)
        yield from (step.call.name for step in part.steps if step.kind == "shared")
