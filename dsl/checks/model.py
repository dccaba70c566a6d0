"""Checks of the model, of the data that it reads, and of its training."""

from __future__ import annotations

from collections.abc import Iterator

from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import layers, names, references, types
from dsl.files.regular import scheme_of
from dsl.ir.model import calls_in, steps_in
from dsl.ir.spec import Facts
from dsl.schema import signatures
from dsl.schema.data_functions import RANDOM_TRANSFORMS, tensors_of_split
from dsl.schema.signatures import STATES, named_arguments, takes_one_hot
from dsl.source import Span

# --- layers: their names, their files, and what they know beside their weights ----------------------------


def layer_names(facts: Facts) -> Iterator[Diagnostic]:
    """Report the second layer with the same name, because Keras would refuse it."""
    for block in facts.blocks:
        first: dict[str, Span] = {}
        bound = block.bindings if isinstance(block, ir.Model) else ()
        inputs = {each.name: each.span for each in bound if isinstance(each.value, ir.Input)}
        for name, span in _named(block):
            if name in inputs:
                yield names.name_of_input(span, name=name, first=inputs[name])
            elif name in first:
                yield names.duplicate("layer name", name, span, first[name])
            else:
                first[name] = span


def _steps(block: ir.Model | ir.LayerBlock) -> Iterator[ir.Step]:
    return steps_in(tuple(each.value for each in block.bindings))


def _named(block: ir.Model | ir.LayerBlock) -> Iterator[tuple[str, Span]]:
    for step in _steps(block):
        name = step.call.kwargs.get("name")
        if step.kind in {"layer", "application"} and isinstance(name, str):
            yield name, step.call.kwarg_spans["name"]


def layer_state(facts: Facts) -> Iterator[Diagnostic]:
    """Report layers without a vocabulary or boundaries, and layers that cannot learn them where they are."""
    for block in facts.blocks:
        for step in _steps(block):
            yield from _step(step, facts)


def _step(step: ir.Step, facts: Facts) -> Iterator[Diagnostic]:
    for call in calls_in(step.call):
        yield from _wrong_state(call)
        if "adapt" in call.kwargs:
            reason = f"it is an argument of `{step.call.name}`"
            yield layers.cannot_adapt_here(
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
            yield layers.state_given_twice(
                spans.get(name, call.span), layer=call.name, argument=name, adapt=spans.get("adapt")
            )
    if not learns and call.name != "Normalization" and names[0] not in given:
        yield layers.no_state(call.span, layer=call.name, argument=names[0], words=names[0] == "vocabulary")


def _wrong_split(call: ir.Call, facts: Facts) -> Iterator[Diagnostic]:
    adapt = call.kwargs.get("adapt")
    if not isinstance(adapt, str) or facts.data is None:
        return
    name = adapt.removeprefix("data.")
    if name not in {each.name for each in facts.splits}:
        yield layers.split_to_adapt_missing(
            call.kwarg_spans.get("adapt"), layer=call.name, split=name, data=facts.data.span
        )


def addresses(facts: Facts) -> Iterator[Diagnostic]:
    """Report files of layers that are no paths; those of attributes are reported when they are read."""
    for block in facts.blocks:
        for step in (*_steps(block), *steps_in(block.output)):
            for call in (step.call, *calls_in(step.call)):
                yield from _files(call)


def _files(call: ir.Call) -> Iterator[Diagnostic]:
    files = ("weights", "vocabulary") if call.name in STATES else ("weights",)
    for name, value in named_arguments(call).items():
        if name in files and isinstance(value, str) and scheme_of(value) is not None:
            yield types.address(f"`{name}`", value, call.kwarg_spans.get(name, call.span))


# --- tensors that the model reads, labels, and examples that are changed or mixed at random ---------------


def data_tensors(facts: Facts) -> Iterator[Diagnostic]:
    """Report each input that a split has no tensor for, unless the model or the split has other errors."""
    if facts.model is None or facts.data is None:
        return
    for split in facts.splits:
        known = tensors_of_split(split)
        at = split.source.name_span
        if known is None or at is None:
            continue
        for binding in facts.inputs:
            if binding.name not in known and binding.name_span is not None:
                yield references.input_without_data(
                    at,
                    name=binding.name,
                    split=split.name,
                    reader=binding.name_span,
                    known=sorted(known),
                )


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


def random_examples(facts: Facts) -> Iterator[Diagnostic]:
    """Report random transforms in `validation` and `test`, and those before a `cache` in `train`."""
    for split in facts.splits:
        caches = [at for at, call in enumerate(split.transforms) if call.name == "cache"]
        for at, call in enumerate(split.transforms):
            if call.name not in RANDOM_TRANSFORMS:
                continue
            if split.name != "train":
                yield layers.random_in_evaluation(
                    call.span, transform=call.name, split=split.name, crops=call.name == "random_crop"
                )
            elif caches and at < caches[-1]:
                yield layers.random_before_cache(
                    call.span, transform=call.name, cache=split.transforms[caches[-1]].span
                )


MIXING = ("MixUp", "CutMix")


def mixed_examples(facts: Facts) -> Iterator[Diagnostic]:
    """Report each layer that mixes images with other images of their batch."""
    for block in facts.blocks:
        for step in _steps(block):
            if step.call.name.rpartition(".")[2] in MIXING:
                yield layers.mixing_layer(step.call.name_span or step.call.span, layer=step.call.name)


# --- averages of copies, rules of `optimizer`, and the score of `best` ------------------------------------


def averaging(facts: Facts) -> Iterator[Diagnostic]:
    """Report `mode = local` without `average_every`."""
    update = facts.update
    if update is not None and update.mode == "local" and update.average_every is None:
        yield names.missing_average(update.spans["mode"])


def optimizer_groups(facts: Facts) -> Iterator[Diagnostic]:
    """Report every rule that comes after one with the same glob or with the glob of all weights."""
    taken: set[str] = set()
    for group in facts.update.groups if facts.update is not None else ():
        if taken & {"*", group.pattern}:
            yield layers.group_without_weights(group.name_span or group.span, pattern=group.pattern)
        taken.add(group.pattern)


LOSS = "loss"


def best_score(facts: Facts) -> Iterator[Diagnostic]:
    """Report `best` of an unknown score or without evaluations, and `patience` without `best`."""
    train = facts.train
    if train is None:
        return
    if train.best is None:
        if train.patience is not None:
            doc = "`patience` counts evaluations that are no better than the best"
            yield names.missing_attribute(train.spans["patience"], name="best", place="`train`", doc=doc)
        return
    if facts.model is not None:
        yield from _known(train.best, [LOSS, *(metric.name for metric in facts.model.metrics)])
    if train.evaluate_every is None:
        doc = "the best is found among the evaluations in the course of training"
        yield names.missing_attribute(train.spans["best"], name="evaluate_every", place="`train`", doc=doc)
    if not {"validation", "test"} & {each.name for each in facts.splits}:
        doc = "the best is found by evaluating `validation`, or `test` if there is no other"
        yield names.missing_attribute(train.spans["best"], name="validation", place="`data`", doc=doc)


def _known(goal: ir.Call, scores: list[str]) -> Iterator[Diagnostic]:
    given = goal.args[0] if goal.args else goal.kwargs["score"]
    span = goal.arg_spans[0] if goal.arg_spans else goal.kwarg_spans["score"]
    if given not in scores:
        name = str(given)
        yield references.unknown_name(span, name=name, kind="score", known=scores)
