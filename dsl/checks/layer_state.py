"""A check of layers that know more than their weights: that they have it, or can learn it from data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl import ir
from dsl.errors import layers as errors
from dsl.ir.walk import calls_in, steps_in
from dsl.schema.layer_state import STATES, named_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def layer_state(facts: Facts) -> Iterator[Diagnostic]:
    """Report layers without a vocabulary or boundaries, and layers that cannot learn them where they are."""
    for block in (facts.model, *(facts.layers or ())):
        for binding in block.bindings if block is not None else ():
            for step in steps_in(binding.value):
                yield from _step(step, facts)


def _step(step: ir.Step, facts: Facts) -> Iterator[Diagnostic]:
    for call in calls_in(step.call):
        yield from _wrong_state(call)
        if "adapt" in call.kwargs:
            reason = f"it is an argument of `{step.call.name}`"
            yield errors.cannot_adapt_here(
                call.kwarg_spans.get("adapt", call.span), layer=call.name, reason=reason
            )
    if step.kind == "layer":
        yield from _wrong_state(step.call)
        yield from _wrong_split(step.call, facts)


def _wrong_state(call: ir.Call) -> Iterator[Diagnostic]:
    if call.name not in STATES:
        return
    given = {name: value for name, value in named_arguments(call).items() if value is not None}
    learns, names = "adapt" in given, STATES[call.name]
    for name in names:
        if learns and name in given:
            spans = call.kwarg_spans
            yield errors.state_given_twice(
                spans.get(name, call.span), layer=call.name, argument=name, adapt=spans.get("adapt")
            )
    if not learns and call.name != "Normalization" and names[0] not in given:
        yield errors.no_state(call.span, layer=call.name, argument=names[0], words=names[0] == "vocabulary")


def _wrong_split(call: ir.Call, facts: Facts) -> Iterator[Diagnostic]:
    adapt = call.kwargs.get("adapt")
    if not isinstance(adapt, str) or facts.data is None:
        return
    name = adapt.removeprefix("data.")
    if name not in {each.name for each in facts.splits}:
        yield errors.split_to_adapt_missing(
            call.kwarg_spans.get("adapt"), layer=call.name, split=name, data=facts.data.span
        )
