"""The model of a spec as a flat graph of layer calls: blocks expanded, repeats unrolled, names given."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from dsl import ir
from dsl.source import Span


@frozen
class InputNode:
    """An input of the model; `shape` without the batch axis."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    value: int
    span: Span | None = field(default=None, eq=False, repr=False)


@frozen
class LayerNode:
    """One layer with weights of its own.

    `path` is its name inside a tower, blocks before it (`encoder/attention/query`); `call` holds plain values
    only.
    """

    path: str
    kind: Literal["layer", "application", "python"]
    call: ir.Call
    span: Span | None = field(default=None, eq=False, repr=False)

    @property
    def keras_name(self) -> str:
        """The name given to Keras, which allows no `/`."""
        return self.path.replace("/", "_")


@frozen
class CallNode:
    """`layer` (its place in `ModelGraph.layers`) called on values, which makes a new value."""

    layer: int
    inputs: tuple[int, ...]
    value: int
    span: Span | None = field(default=None, eq=False, repr=False)


@frozen
class ObjectiveNode:
    """A Keras loss or metric between two values; `weight` is the factor of a loss in the sum."""

    name: str
    call: ir.Call
    target: int
    prediction: int
    weight: float = 1.0
    span: Span | None = field(default=None, eq=False, repr=False)


@frozen
class ModelGraph:
    """Inputs, layers and calls in the order in which they can be computed. Values are numbered from 0."""

    name: str
    inputs: tuple[InputNode, ...]
    layers: tuple[LayerNode, ...]
    calls: tuple[CallNode, ...]
    losses: tuple[ObjectiveNode, ...]
    metrics: tuple[ObjectiveNode, ...]
    output: int
    regularize: ir.Call | None = None
    names: tuple[str, ...] = ()  # of values: the binding that holds each, or the path of its layer

    @property
    def prediction_inputs(self) -> tuple[InputNode, ...]:
        """The inputs that the output depends on: what is needed to predict."""
        made_by = {call.value: call for call in self.calls}
        needed: set[int] = set()
        pending = [self.output]
        while pending:
            value = pending.pop()
            if value not in needed:
                needed.add(value)
                pending += made_by[value].inputs if value in made_by else ()
        return tuple(each for each in self.inputs if each.value in needed)
