"""A lint that every binding is used by a loss, a metric, the output or another binding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsl import ir
from dsl.errors import lint
from dsl.ir.walk import names_in

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
        values = (each.value for each in block.bindings)
        used = {"_", *(name for part in (*results, *values) for name in names_in(part))}
        for binding in block.bindings:
            if used.isdisjoint(binding.names) and binding.name_span is not None:
                yield lint.unused_binding(binding.name_span, name=binding.name)
                continue
            for name, span in zip(binding.others, binding.other_spans, strict=False):
                if name not in used:
                    yield lint.unused_output(span, name=name)
            if binding.others and binding.name not in used and binding.name_span is not None:
                yield lint.unused_output(binding.name_span, name=binding.name)


def _results(block: ir.Model | ir.LayerBlock) -> list[Any]:
    results: list[Any] = [] if block.output is None else [block.output]
    results += [each.value for each in block.outputs] if isinstance(block, ir.Model) else []
    if isinstance(block, ir.Model):
        objectives = [term.objective for term in block.loss] + [metric.objective for metric in block.metrics]
        results += [term.tensor for term in block.tensor_terms]
        for each in objectives:
            results += [each.target, each.prediction, each.example_weights]
    return results
