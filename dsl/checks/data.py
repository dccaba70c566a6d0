"""Checks of data: tensors that the model reads, labels, and examples that are changed or mixed at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl import ir
from dsl.errors import references, tensors
from dsl.ir.model import steps_in
from dsl.schema import signatures
from dsl.schema.data_functions import RANDOM_TRANSFORMS, tensors_of_split
from dsl.schema.signatures import takes_one_hot
from dsl.source import Span
from dsl.suggest import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


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
                near = nearest(binding.name, known)
                yield references.input_without_data(
                    at,
                    name=binding.name,
                    split=split.name,
                    reader=binding.name_span,
                    near=near,
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
                yield tensors.random_in_evaluation(
                    call.span, transform=call.name, split=split.name, crops=call.name == "random_crop"
                )
            elif caches and at < caches[-1]:
                yield tensors.random_before_cache(
                    call.span, transform=call.name, cache=split.transforms[caches[-1]].span
                )


MIXING = ("MixUp", "CutMix")


def mixed_examples(facts: Facts) -> Iterator[Diagnostic]:
    """Report each layer that mixes images with other images of their batch."""
    models = () if facts.model is None else (facts.model,)
    for block in (*models, *(facts.layers or ())):
        for binding in block.bindings:
            for step in steps_in(binding.value):
                if step.call.name.rpartition(".")[2] in MIXING:
                    yield tensors.mixing_layer(step.call.name_span or step.call.span, layer=step.call.name)
