"""The output shapes of Keras's layers without Keras, for common layers and as far as they are certain.

All shapes are without the batch axis, and a size is None if each batch has its own. A rule raises
`ShapeError` only for a shape that Keras certainly refuses, and returns None if it cannot tell.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

from attrs import frozen

from compiler.model.graph import InputNode, ModelGraph, kept_for_latest
from dsl import ir
from dsl.schema.signatures import find, named_arguments

Size: TypeAlias = "int | None"
Shape: TypeAlias = "tuple[Size, ...]"
Arguments: TypeAlias = "Mapping[str, Any]"
Rule: TypeAlias = "Callable[[Arguments, Sequence[Shape]], Shape | None]"


class ShapeError(Exception):
    """A layer cannot be called on the shapes that reach it; the text gives the reason."""


def shape_after(call: ir.Call, shapes: Sequence[Shape]) -> Shape | None:
    """Return the output shape of a layer, or None if unknown; raises ShapeError if Keras would refuse."""
    signature = find("layer", call.name)
    if signature is None:
        return None
    rule = RULES.get(signature.name)
    if rule is None:
        return None
    arguments: dict[str, Any] = {each.name: each.default for each in signature.arguments}
    arguments |= named_arguments(call)
    if arguments.get("data_format") == "channels_first":
        return None
    try:
        return rule(arguments, shapes)
    except _UnknownError:
        return None


class FreeAxisError(ShapeError):
    """A layer needs the size of an axis that has none."""


class _UnknownError(Exception):
    """The arguments are such that a rule does not know the shape."""


# --- arguments --------------------------------------------------------------------------------------------


def _whole(value: object, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _UnknownError
    return value


def _sizes(value: object, count: int) -> tuple[int, ...]:
    """Return one size for each of `count` axes."""
    if isinstance(value, tuple):
        if len(value) != count:
            raise _UnknownError
        return tuple(_whole(each) for each in value)
    return (_whole(value),) * count


def _sides(value: object, count: int) -> list[tuple[int, int]]:
    """Return the sizes that are added or removed before and after each of `count` axes."""
    if isinstance(value, tuple) and count == 1 and len(value) == 2:  # noqa: PLR2004 before and after
        return [(_whole(value[0], 0), _whole(value[1], 0))]
    items = value if isinstance(value, tuple) else (value,) * count
    if len(items) != count:
        raise _UnknownError
    pairs = [each if isinstance(each, tuple) else (each, each) for each in items]
    if any(len(each) != 2 for each in pairs):  # noqa: PLR2004
        raise _UnknownError
    return [(_whole(before, 0), _whole(after, 0)) for before, after in pairs]


def _one(shapes: Sequence[Shape]) -> Shape:
    if len(shapes) != 1:
        raise _UnknownError
    return shapes[0]


def _axes(count: int) -> str:
    return f"{count} ax{'i' if count == 1 else 'e'}s"


def _ranked(shapes: Sequence[Shape], rank: int) -> Shape:
    """Return the one shape, which must have `rank` axes."""
    shape = _one(shapes)
    if len(shape) != rank:
        advice = " (`Flatten()` makes one of all axes)" if rank == 1 and len(shape) > 1 else ""
        raise ShapeError(
            f"it needs inputs with {_axes(rank)} beside the batch{advice}, not {_axes(len(shape))}"
        )
    return shape


def _at_least(shapes: Sequence[Shape], rank: int) -> Shape:
    shape = _one(shapes)
    if len(shape) < rank:
        here = _axes(len(shape))
        raise ShapeError(
            f"it needs inputs with at least {_axes(rank)} beside the batch, not {here}; `Reshape` adds axes"
        )
    return shape


def _fixed(size: Size, axis: str = "last axis") -> int:
    """Return the size of an axis on which the weights of a layer depend."""
    if size is None:
        raise FreeAxisError(f"its weights depend on the size of the {axis} of its input, which is `none`")
    return size


# --- layers -----------------------------------------------------------------------------------------------


def _rescaling(arguments: Arguments, shapes: Sequence[Shape]) -> Shape:
    if any(isinstance(arguments[each], tuple) for each in ("scale", "offset")):
        raise _UnknownError  # lists may broadcast
    return _one(shapes)


def _dense(arguments: Arguments, shapes: Sequence[Shape]) -> Shape:
    shape = _at_least(shapes, 1)
    _fixed(shape[-1])
    return (*shape[:-1], _whole(arguments["units"]))


# --- layers with a number of axes beside the channels, of which `rank` are given to each rule first -------


def _each_axis(change: Callable[..., Size], shape: Shape, *figures: Sequence[Any]) -> tuple[Size, ...]:
    """Return the sizes of the axes before the last, changed by figures of each; None stays None."""
    return tuple(
        None if size is None else change(size, *of_axis)
        for size, *of_axis in zip(shape[:-1], *figures, strict=True)
    )


def _places(padding: object, size: int, window: int, stride: int) -> int:
    """Return the number of positions of a window along an axis; raises ShapeError if it does not fit."""
    if padding in {"same", "causal"}:
        return (size - 1) // stride + 1
    if padding != "valid":
        raise _UnknownError
    if window > size:
        raise ShapeError(
            f"a window of {window} does not fit into an axis of {size}; `padding = same` pads the axis"
        )
    return (size - window) // stride + 1


def _convolved(rank: int, shapes: Sequence[Shape]) -> Shape:
    """Return the shape that reaches a convolution, whose axes before the last are certain."""
    shape = _at_least(shapes, rank + 1)
    if len(shape) > rank + 1:
        raise _UnknownError
    return shape


def _convolution(
    rank: int, arguments: Arguments, shapes: Sequence[Shape], *, depthwise: bool = False
) -> Shape:
    shape = _convolved(rank, shapes)
    kernel, strides, dilation = (
        _sizes(arguments[each], rank) for each in ("kernel_size", "strides", "dilation_rate")
    )
    groups = _whole(arguments.get("groups", 1))
    if max(strides) > 1 and max(dilation) > 1:
        raise _UnknownError  # which Keras refuses for another reason
    inputs = _fixed(shape[-1], "channels")
    if depthwise:
        channels = inputs * _whole(arguments["depth_multiplier"])
    else:
        channels = _whole(arguments["filters"])
        if channels % groups:
            raise _UnknownError
        if inputs % groups:
            raise ShapeError(
                f"its input has {inputs} channels, which cannot be divided into {groups} equal groups"
            )
    windows = [(width - 1) * apart + 1 for width, apart in zip(kernel, dilation, strict=True)]
    return (*_each_axis(partial(_places, arguments["padding"]), shape, windows, strides), channels)


def _transposed(rank: int, arguments: Arguments, shapes: Sequence[Shape]) -> Shape:
    shape = _convolved(rank, shapes)
    if arguments["output_padding"] is not None or set(_sizes(arguments["dilation_rate"], rank)) != {1}:
        raise _UnknownError
    kernel, strides = _sizes(arguments["kernel_size"], rank), _sizes(arguments["strides"], rank)
    if arguments["padding"] not in {"same", "valid"}:
        raise _UnknownError
    _fixed(shape[-1], "channels")
    wide = arguments["padding"] == "valid"
    places = _each_axis(
        lambda size, width, stride: size * stride + max(width - stride, 0) * wide, shape, kernel, strides
    )
    return (*places, _whole(arguments["filters"]))


def _pooling(rank: int, arguments: Arguments, shapes: Sequence[Shape]) -> Shape:
    shape = _ranked(shapes, rank + 1)
    sizes = _sizes(arguments["pool_size"], rank)
    strides = sizes if arguments["strides"] is None else _sizes(arguments["strides"], rank)
    return (*_each_axis(partial(_places, arguments["padding"]), shape, sizes, strides), shape[-1])


def _global_pooling(rank: int, arguments: Arguments, shapes: Sequence[Shape]) -> Shape:
    shape = _ranked(shapes, rank + 1)
    return (*(1,) * rank, shape[-1]) if arguments["keepdims"] is True else (shape[-1],)


def _padded(rank: int, arguments: Arguments, shapes: Sequence[Shape]) -> Shape:
    shape = _ranked(shapes, rank + 1)
    sides = _sides(arguments["padding"], rank)
    return (*_each_axis(lambda size, side: size + sum(side), shape, sides), shape[-1])


def _cropped(rank: int, arguments: Arguments, shapes: Sequence[Shape]) -> Shape:
    shape = _ranked(shapes, rank + 1)
    left = _each_axis(lambda size, side: size - sum(side), shape, _sides(arguments["cropping"], rank))
    if any(each is not None and each < 1 for each in left):
        raise _UnknownError
    return (*left, shape[-1])


def _repeated(rank: int, arguments: Arguments, shapes: Sequence[Shape]) -> Shape:
    shape = _ranked(shapes, rank + 1)
    return (*_each_axis(operator.mul, shape, _sizes(arguments["size"], rank)), shape[-1])


# --- other layers -----------------------------------------------------------------------------------------


def _product(shape: Shape) -> Size:
    """Return how many numbers a tensor has; None if that is not fixed."""
    sizes = [each for each in shape if each is not None]
    return prod(sizes) if len(sizes) == len(shape) else None


def _reshape(arguments: Arguments, shapes: Sequence[Shape]) -> Shape:
    shape, target = _one(shapes), arguments["target_shape"]
    if isinstance(target, int):
        target = (target,)
    if not isinstance(target, tuple) or target.count(-1) > 1:
        raise _UnknownError
    known = prod(_whole(each) for each in target if each != -1)
    size = _product(shape)
    if size is None:
        return tuple(None if each == -1 else each for each in target)
    if size % known if -1 in target else size != known:
        raise ShapeError(f"{size} numbers do not fill {list(target)}")
    return tuple(size // known if each == -1 else each for each in target)


def _permute(arguments: Arguments, shapes: Sequence[Shape]) -> Shape:
    dims = arguments["dims"]
    if not isinstance(dims, tuple) or sorted(map(_whole, dims)) != list(range(1, len(dims) + 1)):
        raise _UnknownError
    shape = _ranked(shapes, len(dims))
    return tuple(shape[each - 1] for each in dims)


def _recurrent(arguments: Arguments, shapes: Sequence[Shape]) -> Shape:
    shape = _ranked(shapes, 2)
    _fixed(shape[-1])
    if arguments["return_state"] is not False or not isinstance(arguments["return_sequences"], bool):
        raise _UnknownError
    units = (_whole(arguments["units"]),)
    return (shape[0], *units) if arguments["return_sequences"] else units


def _bidirectional(arguments: Arguments, shapes: Sequence[Shape]) -> Shape | None:
    layer = arguments["layer"]
    if not isinstance(layer, ir.Call) or arguments.get("backward_layer") is not None:
        raise _UnknownError
    inner = shape_after(layer, [_ranked(shapes, 2)])
    if inner is None or arguments["merge_mode"] not in {"concat", "sum", "mul", "ave"}:
        return None
    return (*inner[:-1], _fixed(inner[-1]) * 2) if arguments["merge_mode"] == "concat" else inner


def _merged(_arguments: Arguments, shapes: Sequence[Shape]) -> Shape:
    if len(shapes) < 2 or len({len(each) for each in shapes}) > 1:  # noqa: PLR2004 nothing to merge
        raise _UnknownError
    merged: list[Size] = []
    for sizes in zip(*shapes, strict=True):
        wide = {each for each in sizes if each is not None} - {1}
        if len(wide) > 1:
            raise ShapeError(f"sizes {' and '.join(map(str, sorted(wide)))} of an axis differ")
        merged.append(max(wide, default=None if None in sizes else 1))
    return tuple(merged)


def _concatenated(arguments: Arguments, shapes: Sequence[Shape]) -> Shape:
    axis = arguments["axis"]
    ranks = {len(each) for each in shapes}
    if len(shapes) < 2 or not isinstance(axis, int) or axis == 0:  # noqa: PLR2004
        raise _UnknownError
    if len(ranks) > 1:
        raise ShapeError("tensors with different numbers of axes cannot be concatenated")
    at = axis - 1 if axis > 0 else axis + max(ranks)
    if not 0 <= at < max(ranks):
        raise _UnknownError
    joined: list[Size] = []
    for number, sizes in enumerate(zip(*shapes, strict=True)):
        known = [each for each in sizes if each is not None]
        if number != at and len(set(known)) > 1:
            raise ShapeError(
                f"sizes {' and '.join(map(str, sorted(set(known))))} differ in another axis than axis {axis}"
            )
        if number == at:
            joined.append(sum(known) if len(known) == len(sizes) else None)
        else:
            joined.append(known[0] if known else None)
    return tuple(joined)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(
        (
            "Activation",
            "ActivityRegularization",
            "AlphaDropout",
            "BatchNormalization",
            "Dropout",
            "ELU",
            "GaussianDropout",
            "GaussianNoise",
            "Identity",
            "LayerNormalization",
            "LeakyReLU",
            "Masking",
            "ReLU",
            "Softmax",
            "UnitNormalization",
        ),
        lambda _, shapes: _one(shapes),
    ),
    "Rescaling": _rescaling,
    "Dense": _dense,
    "Flatten": lambda _, shapes: (_product(_one(shapes)),),
    "Reshape": _reshape,
    "Permute": _permute,
    "RepeatVector": lambda given, shapes: (_whole(given["n"]), *_ranked(shapes, 1)),
    "Embedding": lambda given, shapes: (*_one(shapes), _whole(given["output_dim"])),
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "SimpleRNN": _recurrent,
    "Bidirectional": _bidirectional,
    "Concatenate": _concatenated,
    **dict.fromkeys(("Add", "Average", "Maximum", "Minimum", "Multiply"), _merged),
    "DepthwiseConv1D": partial(_convolution, 1, depthwise=True),
    "DepthwiseConv2D": partial(_convolution, 2, depthwise=True),
    "SeparableConv1D": partial(_convolution, 1),
    "SeparableConv2D": partial(_convolution, 2),
    **{
        name.format(rank): partial(rule, rank)
        for rank in (1, 2, 3)
        for name, rule in (
            ("Conv{}D", _convolution),
            ("Conv{}DTranspose", _transposed),
            ("MaxPooling{}D", _pooling),
            ("AveragePooling{}D", _pooling),
            ("GlobalMaxPooling{}D", _global_pooling),
            ("GlobalAveragePooling{}D", _global_pooling),
            ("SpatialDropout{}D", lambda rank, _, shapes: _ranked(shapes, rank + 1)),
            ("ZeroPadding{}D", _padded),
            ("Cropping{}D", _cropped),
            ("UpSampling{}D", _repeated),
        )
    },
}
"""The rules by the names of layers in Keras. The shapes of other layers are not known."""


# --- the shapes of the values of a model, as far as they are certain --------------------------------------


@frozen
class Misfit:
    """The shapes that reach a layer that cannot be called on them, and the reason why it cannot."""

    shapes: tuple[Shape, ...]  # the shapes of the inputs of the call, without the batch axis
    reason: str  # what Keras would refuse
    # The inputs of the model with an axis without a fixed size that cause it.
    free: tuple[InputNode, ...] = ()


@frozen
class KnownShapes:
    """What is known of the values of a model graph without Keras."""

    # For each value, its shape without the batch axis, or None if it is not certain. A free weight has no
    # batch axis.
    values: Mapping[int, Shape | None]
    misfits: Mapping[int, Misfit]  # for each value that Keras would refuse to make, the reason


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


# --- the shapes of weights of examples, by Keras's rules --------------------------------------------------


def weights_fit(values: Sequence[int | None], weights: Sequence[int | None]) -> bool:
    """Whether the values of a loss can be multiplied by weights, each number by its own weight.

    Keras drops or adds an axis of one at the end. It would also spread weights that lack an axis over the
    wrong one if the sizes happen to agree.

    Args:
        values: The shape of the values of the loss without the batch axis; None for an unknown size.
        weights: The shape of the weights, likewise.
    """
    if len(weights) == len(values) + 1 and weights[-1] == 1:
        weights = weights[:-1]
    elif len(values) == len(weights) + 1 and values[-1] == 1:
        values = values[:-1]
    if len(values) != len(weights):
        return False
    pairs = zip(values, weights, strict=True)
    return all(weight in (1, value) or None in (weight, value) for value, weight in pairs)
