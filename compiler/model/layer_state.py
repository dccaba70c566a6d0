"""What layers know beside their weights: vocabularies, statistics and boundaries.

A layer gets them as arguments, from a file of words, or from a split of the data (`adapt = data.train`). Here
the calls of a model become calls with plain arguments, so that towers, exported models and predictions need
no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from attrs import evolve

from compiler.model.graph import LayerNode, ModelGraph
from dsl import ir
from dsl.diagnostics import SpecError
from dsl.errors import layers as errors
from dsl.files.regular import read_text
from dsl.schema.signatures import ADAPTED_FROM, named_arguments

State: TypeAlias = Mapping[str, ir.Value]
"""What a layer has learnt from the data: arguments by name."""


def with_vocabularies(model: ModelGraph, base: Path) -> ModelGraph:
    """Return the model with the words of vocabulary files in the stead of the names of these files.

    Raises:
        SpecError: A file cannot be read, or has something else than whole numbers for an `IntegerLookup`.
    """
    if not any(isinstance(_vocabulary(each), str) for each in model.layers):
        return model
    return evolve(model, layers=tuple(_with_words(each, base) for each in model.layers))


def _vocabulary(node: LayerNode) -> ir.Value:
    known = node.kind == "layer" and node.call.name in ADAPTED_FROM
    return named_arguments(node.call).get("vocabulary") if known else None


def _with_words(node: LayerNode, base: Path) -> LayerNode:
    path = _vocabulary(node)
    if not isinstance(path, str):
        return node
    span = node.call.kwarg_spans.get("vocabulary", node.call.span)
    try:
        lines = read_text(base / path).split("\n")
    except (OSError, ValueError) as fault:
        reason = (
            "it is not UTF-8" if isinstance(fault, ValueError) else (fault.strerror or str(fault)).lower()
        )
        raise SpecError([errors.unreadable_vocabulary(span, path=str(base / path), reason=reason)]) from fault
    words = [each.removesuffix("\r") for each in (lines[:-1] if lines[-1] == "" else lines)]
    if node.call.name != "IntegerLookup":
        return with_state(node, {"vocabulary": tuple(words)})
    numbers: list[int] = []
    for row, word in enumerate(words, 1):
        try:
            numbers.append(int(word))
        except ValueError as fault:
            reason = f"line {row} is no whole number"
            raise SpecError(
                [errors.unreadable_vocabulary(span, path=str(base / path), reason=reason)]
            ) from fault
    return with_state(node, {"vocabulary": tuple(numbers)})


def adapting_layers(model: ModelGraph) -> list[LayerNode]:
    """Return the layers that learn from a split of the data before training, in the order of their calls."""
    order = dict.fromkeys(call.layer for call in model.calls)
    return [model.layers[each] for each in order if split_of(model.layers[each]) is not None]


def split_of(node: LayerNode) -> str | None:
    """Return the name of the split that a layer learns from before training, or None."""
    found = node.call.kwargs.get("adapt") if node.kind == "layer" else None
    return found.removeprefix("data.") if isinstance(found, str) else None


def with_states(model: ModelGraph, states: Mapping[str, State]) -> ModelGraph:
    """Return the model with the states of layers, by their paths, in the stead of `adapt`."""
    if not states:
        return model
    layers = (with_state(each, states[each.path]) if each.path in states else each for each in model.layers)
    return evolve(model, layers=tuple(layers))


def with_state(node: LayerNode, state: State) -> LayerNode:
    """Return a layer with arguments of a state in the stead of those from which the state was made."""
    made_from = ADAPTED_FROM[node.call.name] if "adapt" in node.call.kwargs else ()
    kept = {
        name: value for name, value in named_arguments(node.call).items() if name not in (*made_from, "adapt")
    }
    return evolve(node, call=evolve(node.call, args=(), arg_spans=(), kwargs={**kept, **state}))
