"""Turn what Keras and TensorFlow refuse into diagnostics at the step of the model that causes it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from compiler.graph.tower.network.network import Network, filled, first_sentence, flattened
from compiler.graph.user_code import comparing_elements, diagnosed, raised_at
from compiler.model.graph import CallNode, ModelGraph
from dsl.diagnostics import Diagnostic, RunError, SpecError
from dsl.errors import layers as tensor_errors
from dsl.errors import plan as errors
from dsl.errors.wording import listed
from dsl.source import Span

_REFUSALS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
    tf.errors.OpError,
)
_OURS = str(Path(__file__).parents[1])
_RANK = re.compile(r"expected (min_)?ndim=(\d+), found ndim=(\d+)")
_OF_AN_AXIS = (
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    keras.layers.RMSNormalization,
    keras.layers.Softmax,
    keras.layers.UnitNormalization,
)
"""Layers that would take the examples of a batch for the features of one if an example is a single number."""

_ENCODERS = (
    keras.layers.CategoryEncoding,
    keras.layers.Discretization,
    keras.layers.Hashing,
    keras.layers.IntegerLookup,
    keras.layers.StringLookup,
)
_OF_SETS = ("multi_hot", "count", "tf_idf")
"""The modes in which these layers make one vector of several values, which would be those of the batch."""

_OF_LISTS = re.compile(r"'(?:list|tuple)' object has no attribute")


@contextmanager
def refusal(
    step: str, values: Sequence[Any], span: Span | None, alone: Collection[int] = ()
) -> Iterator[None]:
    """Turn errors of Keras and TensorFlow about shapes and types into a diagnostic at the step.

    An exception that passes through code of the user's is one of this code. An error that a file of the
    compiler raises is a fault of this package and not of the spec, and is not changed.

    Raises:
        SpecError: Keras, TensorFlow or code of the user's raised an error inside.
    """
    try:
        with comparing_elements():
            yield
    except (SpecError, RunError, MemoryError):
        raise
    except Exception as fault:
        if raised_at(fault) is not None:
            raise SpecError([diagnosed(fault, step, span)]) from fault
        if not isinstance(fault, _REFUSALS):
            raise
        if isinstance(fault, AttributeError | LookupError | NotImplementedError) and _fails_in_compiler(
            fault
        ):
            raise
        raise SpecError([_diagnosed(step, values, fault, span, alone)]) from fault


def check_call(layer: Any, step: str, values: Sequence[Any], span: Span | None) -> None:
    """Raise SpecError if a layer cannot be called on a tensor of the rank that reaches it.

    Keras itself checks this when the layer is called, which is after its weights are made.

    Args:
        layer: The layer, which may not have been built.
        values: The tensors that reach it, with their batch axis.
    """
    if len(values) != 1:
        return
    rank, wanted = values[0].shape.rank, layer.input_spec
    exact, least = getattr(wanted, "ndim", None), getattr(wanted, "min_ndim", None)
    of_sets = isinstance(layer, _ENCODERS) and layer.output_mode in _OF_SETS
    if rank == 1 and (of_sets or isinstance(layer, _OF_AN_AXIS)):
        exact, least = None, 2
    if exact is not None and rank != exact:
        raise SpecError([_wrong_rank(step, values[0], exact, span, at_least=False)])
    if least is not None and rank < least:
        raise SpecError([_wrong_rank(step, values[0], least, span, at_least=True)])


def outputs_of(made: Any, step: str, call: CallNode) -> Sequence[Any]:
    """Return the outputs of a step; raises SpecError if they are not as many as its call has values."""
    found = flattened(made)
    if len(found) != len(call.values):
        raise SpecError([tensor_errors.several_outputs(step, len(found), call.span, len(call.values))])
    return found


def check_output(made: Any, step: str, values: Sequence[Any], span: Span | None) -> None:
    """Raise SpecError if the output of a layer is not one tensor with examples along its first axis.

    A layer for one tensor that is called on a list of tensors stacks them along a new first axis.
    """
    if len(values) > 1 and made.shape.rank == values[0].shape.rank + 1 and made.shape[0] == len(values):
        raise SpecError([_mismatch(step, values, span)])


def check_operation(
    network: Network, call: CallNode, made: Sequence[Any], values: Sequence[Any], repeated: Collection[int]
) -> None:
    """Raise SpecError if an operation mixes the examples of a batch, as far as axes and shapes show it.

    The operation is tried on symbolic tensors with an unknown number of examples: each result must have that
    unknown number along its first axis and along no other, and as many examples as went in.
    """
    model = network.model
    if model.without_examples.issuperset(call.values):
        return
    alone = [
        at for at, each in enumerate(call.inputs) if each in model.without_examples and at not in repeated
    ]
    of_examples = [each for at, each in enumerate(values) if at not in alone]
    _check_positions(model, call, values)
    function, sizes = model.layers[call.layer].call.name, [each.shape[0] for each in of_examples]
    examples = sizes[0], next((each for each in sizes if each is not None), None)  # words may lose the size
    free = any(None in each.shape[1:] for each in of_examples)
    mixes = _takes_batch_axis(network, call, made[0], values, of_examples)
    for each, shape in zip(made, _symbolic_shapes(network, call, made, values, alone), strict=True):
        keeps = shape[:1] == [None] and (each.shape.rank is None or each.shape[0] in examples)
        if not keeps or mixes or (None in shape[1:] and not free):
            sizes = [
                "batch" if size is None and now in (None, *examples) else now
                for size, now in zip(shape, shape if each.shape.rank is None else each.shape, strict=True)
            ]
            meets = _with_batch(values, alone) if model.of_weights.intersection(call.inputs) else ()
            raise SpecError([tensor_errors.joins_examples(function, _written(sizes), call.span, meets)])


def _symbolic_shapes(
    network: Network, call: CallNode, made: Sequence[Any], values: Sequence[Any], alone: Collection[int]
) -> list[list[int | None]]:
    """Return the shapes of the results of an operation for an unknown number of examples.

    Keras knows more of them than TensorFlow, but gives a few functions the shape of their first tensor.
    """
    shapes = [list(each.shape) if at in alone else [None, *each.shape[1:]] for at, each in enumerate(values)]
    known = [tf.get_static_value(each) if at in alone else None for at, each in enumerate(values)]
    symbols = [
        keras.KerasTensor(shape, each.dtype) if constant is None else constant
        for each, shape, constant in zip(values, shapes, known, strict=True)
    ]
    found = [list(each.shape) for each in flattened(network.apply(call, symbols))]
    if all(one.shape.rank in (None, len(each)) for each, one in zip(found, made, strict=True)):
        return found
    with tf.Graph().as_default():
        twins = [
            tf.compat.v1.placeholder(each.dtype, shape) for each, shape in zip(values, shapes, strict=True)
        ]
        return [each.shape.as_list() for each in flattened(network.apply(call, twins))]


def _check_positions(model: ModelGraph, call: CallNode, values: Sequence[Any]) -> None:
    """Raise SpecError if what is made of weights has a fixed size where an axis of examples has none.

    TensorFlow would assume that the sizes are equal, and fail at the first batch for which they are not. An
    index before the operation may make them equal, and is trusted.
    """
    function = model.layers[call.layer].call.name
    if function not in _ELEMENTWISE:
        return
    made_by = {value: model.layers[each.layer] for each in model.calls for value in each.values}
    labels = [made_by[each].call.name if each in made_by else "" for each in call.inputs]
    of_weights = [at for at, each in enumerate(call.inputs) if each in model.of_weights]
    fixed_sizes = [at for at in of_weights if labels[at] != "getitem"]
    if not fixed_sizes:
        return
    weight = values[fixed_sizes[0]].shape
    for number, value, label in zip(call.inputs, values, labels, strict=True):
        sizes = [*zip(reversed(value.shape.as_list()[1:]), reversed(weight.as_list()), strict=False)]
        if label != "getitem" and any(size is None and fixed not in (None, 1) for size, fixed in sizes):
            needed = model.needed_for([number])
            free = [each for each in model.inputs if each.free and each.value in needed]
            axes = [(f"axis {axis.axis} of `{each.name}`", each.span) for each in free for axis in each.free]
            shapes = _shapes(values, of_weights)
            reason = f"the weight has a fixed size, `{_written(weight.as_list())}`, and each batch its own"
            raise SpecError([errors.free_axis(function, shapes, reason, axes, call.span)])


_ELEMENTWISE = {
    "add",
    "subtract",
    "multiply",
    "divide",
    "true_divide",
    "maximum",
    "minimum",
    "power",
    "where",
}
"""Operations of two tensors whose sizes must agree."""


def _takes_batch_axis(
    network: Network,
    call: CallNode,
    made: Any,
    values: Sequence[Any],
    of_examples: Sequence[Any],
) -> bool:
    """Whether a function that keeps the axes works along the first, as `softmax(x, axis = 0)` does.

    The axis is one of the function's first tensor, or of the tensors in its first list, but for a few.

    Args:
        values: The tensors that it was called on.
        of_examples: Those of them that have a batch axis.
    """
    function = network.layers[call.layer].target
    given = (
        [filled(each, values) for each in call.args],
        {key: filled(each, values) for key, each in call.kwargs.items()},
    )
    try:
        bound = inspect.signature(function).bind(*given[0], **given[1])
    except (TypeError, ValueError):
        return False
    bound.apply_defaults()
    tensors = (each for each in flattened([*bound.arguments.values()]) if hasattr(each, "shape"))
    name = function.__name__
    first = bound.arguments.get(_AXIS_OF.get(name, ""), next(tensors, values[0]))
    if not any(first is each for each in of_examples):
        return False
    axis, rank = bound.arguments.get("axis"), first.shape.rank
    if axis is None:
        return name in _OF_ALL_AXES or (name in _OF_ROWS and rank == _MATRIX)
    axes = axis if isinstance(axis, list | tuple) else [axis]
    keeps = made.shape.rank == rank or name == "take"
    return keeps and any(isinstance(each, int) and each in {0, -rank} for each in axes)


_AXIS_OF = {"sparse_categorical_crossentropy": "output"}
"""Functions whose axis is not one of their first tensor, with the argument whose axis it is."""

_OF_ALL_AXES = frozenset(
    {
        "cumprod",
        "cumsum",
        "flip",
        "flipud",
        "log_softmax",
        "nancumprod",
        "nancumsum",
        "roll",
        "softmax",
        "take",
        "take_along_axis",
    }
)
"""Functions that work along the first axis, or on a line of all numbers, if they are given no axis."""

_OF_ROWS = frozenset({"tril", "triu"})
"""Functions for which it matters in which row of a matrix a number is."""

_MATRIX = 2


def _fails_in_compiler(fault: BaseException) -> bool:
    trace = fault.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS)


def _diagnosed(
    step: str, values: Sequence[Any], fault: Exception, span: Span | None, alone: Collection[int] = ()
) -> Diagnostic:
    rank = _RANK.search(str(fault))
    if rank is not None and len(values) == 1:
        return _wrong_rank(step, values[0], int(rank[2]), span, at_least=rank[1] is not None)
    if _OF_LISTS.search(str(fault)) and len(values) > 1:
        return _mismatch(step, values, span, alone=alone)
    return _mismatch(step, values, span, first_sentence(fault), alone)


def _wrong_rank(step: str, value: Any, rank: int, span: Span | None, *, at_least: bool) -> Diagnostic:
    dtype = tf.as_dtype(value.dtype).name
    return errors.wrong_rank(step, _shape(value), dtype, rank - 1, span, at_least=at_least)


def _mismatch(
    step: str,
    values: Sequence[Any],
    span: Span | None,
    reason: str | None = None,
    alone: Collection[int] = (),
) -> Diagnostic:
    """Return what is said of tensors that a step does not take; by default, because they are several."""
    types = [tf.as_dtype(each.dtype).name for each in values]
    shapes = [" ".join(each) for each in zip(types, _shapes(values, alone), strict=True)]
    advice = None
    if reason is None:
        advice = "make one tensor of them by a merging layer, such as `Add()` or `Concatenate()`"
        reason = f"its input must be one tensor, not {len(values)}"
    elif 0 < len(alone) < len(values):
        shown = listed(_with_batch(values, alone))
        advice = f"the first axis of examples is that of the batch, and a weight has none: here are {shown}"
    return errors.shape_mismatch(span, step=step, shapes=shapes, reason=reason, advice=advice)


def _shape(value: Any) -> list[int | None]:
    """Return the shape of one example."""
    shape = value.shape
    return list(shape)[1:] if shape.rank is not None else []


def _with_batch(values: Sequence[Any], alone: Collection[int]) -> list[str]:
    """Return the shapes of tensors with the axis of the batch, which those at some places have not."""
    return [
        _written(each.shape if at in alone else ["batch", *each.shape[1:]]) for at, each in enumerate(values)
    ]


def _shapes(values: Sequence[Any], alone: Collection[int]) -> list[str]:
    """Return the shapes of tensors as the spec has them; those at some places have no batch axis."""
    return [
        _written(each.shape.as_list() if at in alone and each.shape.rank is not None else _shape(each))
        for at, each in enumerate(values)
    ]


def _written(shape: Sequence[int | str | None]) -> str:
    return f"[{', '.join('?' if each is None else str(each) for each in shape)}]"
