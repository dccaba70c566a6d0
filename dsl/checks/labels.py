"""A check that losses and metrics of one-hot targets do not get integer labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl import ir
from dsl.errors import references
from dsl.schema import signatures
from dsl.schema.class_labels import takes_one_hot
from dsl.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic

_ONE_PER_EXAMPLE = ((), (1,))


def labels(facts: Facts) -> Iterator[Diagnostic]:
    """Report a target of one integer per example for a loss or metric that compares distributions."""
    if facts.model is None:
        return
    inputs = {each.name: each for each in facts.model.bindings if isinstance(each.value, ir.Input)}
    losses = [("loss", term.objective) for term in facts.model.loss]
    for category, objective in [*losses, *(("metric", each.objective) for each in facts.model.metrics)]:
        name, target = objective.call.name, objective.target
        given = inputs.get(target.name) if isinstance(target, ir.Ref) else None
        wanted = f"Sparse{name}" if takes_one_hot(name) else None
        if given is None or wanted is None or not isinstance(given.value, ir.Input):
            continue
        dtype, shape = given.value.dtype or "float32", given.value.shape
        if shape in _ONE_PER_EXAMPLE and "int" in dtype:
            known = wanted if signatures.find(category, wanted) is not None else None
            span = objective.call.span
            only = Span(span.source, span.start, span.start + len(name)) if span is not None else None
            fits = only is not None and only.text == name
            yield references.labels_as_numbers(
                only if fits else span,
                name=name,
                target=given.name,
                sparse=known,
                fits=fits,
                defined=given.span,
            )
