"""The shapes of a model's values, followed from its inputs through the layers as far as they are certain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from compiler.model.graph import InputNode, ModelGraph
from compiler.model.latest import kept_for_latest
from compiler.model.layer_shapes import FreeAxisError, Shape, ShapeError, shape_after


@frozen
class Misfit:
    """The shapes that reach a layer that cannot be called on them, and the reason why it cannot.

    Attributes:
        shapes: The shapes of the inputs of the call, without the batch axis.
        reason: What Keras would refuse.
        free: The inputs of the model with an axis without a fixed size that cause it.
    """

    shapes: tuple[Shape, ...]
    reason: str
    free: tuple[InputNode, ...] = ()


@frozen
class KnownShapes:
    """What is known of the values of a model graph without Keras.

    Attributes:
        values: For each value, its shape without the batch axis, or None if it is not certain. A free weight
            has no batch axis.
        misfits: For each value that Keras would refuse to make, the reason.
    """

    values: Mapping[int, Shape | None]
    misfits: Mapping[int, Misfit]


@kept_for_latest
def known_shapes(graph: ModelGraph) -> KnownShapes:
    """Return the shapes of the values of a model."""
    values: dict[int, Shape | None] = {each.value: each.shape for each in graph.inputs}
    misfits: dict[int, Misfit] = {}
    for call in graph.calls:
        layer = graph.layers[call.layer]
        shapes = tuple(shape for each in call.inputs if (shape := values[each]) is not None)
        values.update(dict.fromkeys(call.values))
        if layer.kind == "weight":
            values[call.values[0]] = layer.weight_shape
        plain = layer.kind == "layer" and not call.kwargs and len(call.values) == 1
        if plain and len(shapes) == len(call.inputs):
            try:
                values[call.values[0]] = shape_after(layer.call, shapes)
            except ShapeError as fault:
                free = _free_inputs(graph, call.inputs) if isinstance(fault, FreeAxisError) else ()
                misfits[call.values[0]] = Misfit(shapes, str(fault), free)
    return KnownShapes(values, misfits)


def _free_inputs(graph: ModelGraph, values: Sequence[int]) -> tuple[InputNode, ...]:
    """Return the inputs that have an axis without a fixed size and that some values depend on."""
    needed = graph.needed_for(values)
    return tuple(each for each in graph.inputs if each.free and each.value in needed)
