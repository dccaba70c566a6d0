"""Checks of layers: their names, their files, and what they know beside their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl import ir
from dsl.errors import layers as errors
from dsl.errors import names, types
from dsl.files.paths import scheme_of
from dsl.ir.model import calls_in, steps_in
from dsl.schema.signatures import STATES, named_arguments

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


def addresses(facts: Facts) -> Iterator[Diagnostic]:
    """Report files of layers that are no paths; those of attributes are reported when they are read."""
    for block in (facts.model, *(facts.layers or ())):
        values = [each.value for each in block.bindings] if block is not None else []
        for step in steps_in((*values, getattr(block, "output", None))):
            for call in (step.call, *calls_in(step.call)):
                yield from _files(call)


def _files(call: ir.Call) -> Iterator[Diagnostic]:
    files = ("weights", "vocabulary") if call.name in STATES else ("weights",)
    for name, value in named_arguments(call).items():
        if name in files and isinstance(value, str) and scheme_of(value) is not None:
            yield types.address(f"`{name}`", value, call.kwarg_spans.get(name, call.span))
