"""The model of a spec as a flat graph of layer calls: blocks expanded, repeats unrolled, names given."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from dsl import ir
from dsl.source import Span


@frozen
class InputNode:
    """An input of the model.

    Attributes:
        name: Its name in the spec.
        dtype: The type of its numbers.
        shape: Its shape without the batch axis.
        value: Its number among the values of the graph.
        span: Its place in the text of the spec.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    value: int
    span: Span | None = field(default=None, eq=False, repr=False)


@frozen
class LayerNode:
    """One layer with weights of its own.

    Attributes:
        path: Its name inside a tower, after those of the blocks around it (`encoder/attention/query`).
        kind: Whether it is a layer of Keras, a model of `keras.applications`, or made by a user's function.
        call: The call that makes it, with parameters of blocks replaced by their values.
        span: Its place in the text of the spec.
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
    """A call of a layer, which makes a new value.

    Attributes:
        layer: The place of the layer in `ModelGraph.layers`.
        inputs: The numbers of the values on which it is called.
        value: The number of the value that it makes.
        span: Its place in the text of the spec.
    """

    layer: int
    inputs: tuple[int, ...]
    value: int
    span: Span | None = field(default=None, eq=False, repr=False)


@frozen
class ObjectiveNode:
    """A Keras loss or metric that compares two values.

    Attributes:
        name: Its name in the spec.
        call: The call that makes it.
        target: The number of the value that is to be predicted.
        prediction: The number of the value that is compared with it.
        weight: The factor of a loss in the sum of all losses.
        span: Its place in the text of the spec.
    """

    name: str
    call: ir.Call
    target: int
    prediction: int
    weight: float = 1.0
    span: Span | None = field(default=None, eq=False, repr=False)


@frozen
class ModelGraph:
    """A model: its inputs, its layers, and the calls in an order in which they can be computed.

    Attributes:
        name: Its name.
        inputs: Its inputs.
        layers: Its layers, each of which may be called several times.
        calls: The calls of the layers.
        losses: The losses, of which the weighted sum is the loss of the model.
        metrics: The metrics.
        output: The number of the value that the model predicts. Values are numbered from 0.
        regularize: The regularizer of all weights whose layer has none of its own.
        names: For each value, the binding that holds it, or else the path of its layer.
    """

    name: str
    inputs: tuple[InputNode, ...]
    layers: tuple[LayerNode, ...]
    calls: tuple[CallNode, ...]
    losses: tuple[ObjectiveNode, ...]
    metrics: tuple[ObjectiveNode, ...]
    output: int
    regularize: ir.Call | None = None
    names: tuple[str, ...] = ()

    @property
    def prediction_inputs(self) -> tuple[InputNode, ...]:
        """The inputs that the output depends on."""
        needed = self.values_of_output
        return tuple(each for each in self.inputs if each.value in needed)

    @property
    def values_of_output(self) -> set[int]:
        """The values that the output depends on, the output among them."""
        made_by = {call.value: call for call in self.calls}
        needed: set[int] = set()
        pending = [self.output]
        while pending:
            value = pending.pop()
            if value not in needed:
                needed.add(value)
                pending += made_by[value].inputs if value in made_by else ()
        return needed
