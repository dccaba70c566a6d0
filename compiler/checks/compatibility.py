"""Check that a spec combines no values that cannot be combined, by the table of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.compatibility import (
    Aspect,
    Conflict,
    Facts,
    conflicts,
    facts_of,
    layout_of,
    slot_rules,
    variable_rules,
)
from compiler.topology import Topology
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import plan as errors
from dsl.source import Span


def choices_are_compatible(spec: ir.Spec, _topology: Topology) -> Iterator[Diagnostic]:
    """Report every conflict that can be found before the model is traced."""
    facts = facts_of(spec)
    for each in conflicts(facts):
        yield _diagnostic(spec, each, facts)


def gradients_can_be_summed(
    spec: ir.Spec, sparse: Sequence[str], given: Sequence[str] = ()
) -> Iterator[Diagnostic]:
    """Report the conflicts that are only known after the model has been traced.

    Args:
        sparse: The weights whose gradients are rows.
        given: The weights with gradients that the model gives other values.
    """
    facts = facts_of(spec, sparse=bool(sparse), given=bool(given))
    for each in conflicts(facts):
        kinds = next((values for aspect, values in each.when if aspect == "gradients"), ())
        if kinds:
            rows = "sparse" in kinds
            note = f"rows are looked up in `{sparse[0]}`" if rows else f"`{given[0]}` is such a weight"
            yield _diagnostic(spec, each, facts, (note,))


def _diagnostic(spec: ir.Spec, found: Conflict, facts: Facts, notes: tuple[str, ...] = ()) -> Diagnostic:
    places = [_place(spec, aspect, values) for aspect, values in found.when]
    written = [each for each in places if each is not None]
    return errors.conflict(
        found.code,
        found.title(facts),
        (found.reason, *notes),
        found.nearest,
        next(iter(written), spec.update.span),
        next(iter(written[1:]), None),
    )


def _place(spec: ir.Spec, aspect: Aspect, values: Sequence[str]) -> Span | None:
    """Return the place in the spec where an aspect is written, or None if it has its default."""
    if aspect == "variables":
        rules = (rule for rule in variable_rules(spec) if layout_of(rule.target) in values)
        return next((rule.target.span or rule.span for rule in rules), None)
    if aspect == "slots":
        return next((rule.target.span or rule.span for rule in slot_rules(spec)), None)
    if aspect == "optimizer":
        return next((each.optimizer.span for each in spec.update.optimizers), None)
    if aspect == "machines":
        return spec.devices.span
    if aspect == "deterministic":
        return spec.train.spans.get(aspect)
    return spec.update.spans.get(aspect)
