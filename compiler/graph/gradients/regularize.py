"""Regularization: once for each step whatever the number of clones, on the device of the variable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import unwrap
from typing import Any
from weakref import WeakKeyDictionary

import keras
import tensorflow as tf
from attrs import evolve, frozen

from compiler.graph.fragments import fragment_of, write_traced
from compiler.graph.gradients.summed import add_rows
from compiler.graph.ledger import Ledger
from compiler.graph.tower.network.network import make
from compiler.graph.tower.network.precision import in_float32
from compiler.graph.tower.template import WeightInfo
from compiler.graph.user_code import UserCode
from compiler.graph.variables.variables import GraphVariable, VariablePart
from compiler.model.graph import label_of
from compiler.placement.rules import following
from compiler.reasons import Placed
from compiler.step.pieces import take_piece
from compiler.step.record import Fragment, Rows, Tensor, Value
from compiler.step.writer import Spot, StepWriter
from dsl import ir


def with_regularizers(
    weights: Mapping[str, WeightInfo], regularize: ir.Call | None, base: str
) -> dict[str, WeightInfo]:
    """Return the weights, with the model's regularizer for every kernel that has none of its own.

    Args:
        weights: The weights by name.
        regularize: The call that makes the regularizer, or None.
        base: The folder in which `python(...)` looks for modules first.
    """
    if regularize is None:
        return dict(weights)
    user = UserCode(label_of(regularize), regularize.span)
    shared = user.guarded(make(regularize, "regularizer", base=base))
    return {
        name: evolve(info, regularizer=shared) if info.regularizer is None and _is_kernel(info) else info
        for name, info in weights.items()
    }


def _is_kernel(info: WeightInfo) -> bool:
    return info.trainable and info.name.rpartition("/")[2].endswith("kernel")


@frozen
class Unregularized:
    """A gradient to which that of a regularizer is to be added.

    Attributes:
        variable: The variable, or a piece of a weight.
        copy: The number of the copy of the variable that the gradient is for.
        scope: The scope of what is added, without a slash at the end.
        gradient: The gradient: a tensor of the shape of the variable, or rows of it.
    """

    variable: GraphVariable
    copy: int
    scope: str
    gradient: Value

    @property
    def placed(self) -> Placed:
        """The place of what is added."""
        return self.variable.beside(self.copy)

    @property
    def whole(self) -> tuple[GraphVariable, int]:
        """The variable that is regularized, and the number of its copy."""
        if isinstance(self.variable, VariablePart):
            return self.variable.whole, self.variable.copy
        return self.variable, self.copy

    @property
    def is_plain(self) -> bool:
        """Whether the gradient is a tensor of the shape of the variable that is regularized."""
        return not isinstance(self.variable, VariablePart) and isinstance(self.gradient, Tensor)

    def plus(self, slope: Tensor, writer: StepWriter) -> Value:
        """Return the gradient with that of the regularizer.

        Args:
            slope: The gradient of the regularizer, of the shape of the whole variable.
            writer: Writes the ops.
        """
        at, variable = Spot(writer, self.scope, self.placed), self.variable
        own = take_piece(at, slope, variable.shard) if isinstance(variable, VariablePart) else slope
        if isinstance(self.gradient, Rows):
            return add_rows(at, own, [self.gradient])
        return at.op("AddV2", "add", self.gradient, own)[0]


def add_regularization(gradients: Sequence[Unregularized], ledger: Ledger) -> list[Value]:
    """Return gradients with those of the regularizers of their variables added.

    Returns:
        A tensor of the shape of the variable for each that has a regularizer, even if there were rows. The
        gradients of the others are as they were.
    """
    writer = ledger.writer("update")
    written = [_written(writer, each, _waits(each, ledger)) for each in gradients]
    found: list[Value] = []
    for each, value in zip(gradients, written, strict=True):
        if value is None:
            found.append(each.gradient)
        else:
            found.append(value if each.is_plain else each.plus(value, writer))
    return found


def _waits(wanted: Unregularized, ledger: Ledger) -> tuple[str, ...]:
    """Return what the gradient of a regularizer waits for: that which it is added to, if memory counts.

    Else those of all weights would be there as soon as a step begins.
    """
    value = wanted.gradient.values if isinstance(wanted.gradient, Rows) else wanted.gradient
    if ledger.plan.update.recompute is None:
        return ()
    device = ledger.entries[value.op].placed.device
    return (value.op,) if device == wanted.placed.device else ()


def _written(writer: StepWriter, wanted: Unregularized, waits: tuple[str, ...]) -> Tensor | None:
    """Write the gradient of a regularizer, or the sum of it and a plain gradient.

    Returns:
        The tensor; None if there is no gradient of a regularizer.
    """
    variable, copy = wanted.whole
    if variable.info.regularizer is None:
        return None
    placed = wanted.placed
    scope = writer.unique(f"{wanted.scope}/regularizer")
    weight = writer.read(f"{scope}/ReadVariableOp", variable.copies[copy].tensor, placed)
    slope = write_slope(writer, scope, variable.info, weight, placed, waits)
    if slope is None or not wanted.is_plain:
        return slope
    assert isinstance(wanted.gradient, Tensor)
    name = writer.unique(f"{wanted.scope}/add")
    return writer.write("AddV2", name, (wanted.gradient, slope), placed)[0]


def regularization_loss(
    at: Spot, variables: Iterable[GraphVariable], shares: Sequence[float], reads: dict[str, list[str]]
) -> list[Tensor]:
    """Write the terms that regularizers add to the loss of a step, each beside its variable.

    Args:
        at: The scope of the ops.
        variables: The variables.
        shares: The shares of the clones in the batch. Copies that are trained separately count by them, as
            the losses of their clones do. Other copies are all equal.
        reads: By the name of a copy, the names of the reads of it. Those made here are added.
    """
    terms = []
    for variable in variables:
        if not _is_regularized(variable):
            continue
        separate = variable.mean is not None
        for copy, share in enumerate(shares if separate else (1.0,)):
            # the names of the ops of a copy say whose they are
            scope = f"{at.scope}/copy_{copy}" if separate else at.scope
            beside = Spot(at.writer, scope, variable.beside(copy))
            weight = beside.read(variable.copies[copy].tensor)
            reads.setdefault(variable.copies[copy].name, []).append(weight.op)
            penalty = _penalty(beside, variable, weight)
            terms.append(beside.op("Mul", "mul", penalty, share)[0] if separate else penalty)
    return terms


def evaluated_regularization(at: Spot, variables: Iterable[GraphVariable]) -> list[Tensor]:
    """Write the terms of the weights that are evaluated, each beside the variable that is read.

    Args:
        at: The scope of the ops.
        variables: The variables of the model. Those without a regularizer are left out.
    """
    terms = []
    for variable in variables:
        if _is_regularized(variable):
            source = variable.evaluated
            beside = _beside(at, variable, source.placed)
            terms.append(_penalty(beside, variable, _evaluated(beside, variable)))
    return terms


def _beside(at: Spot, variable: GraphVariable, placed: Placed) -> Spot:
    return Spot(at.writer, at.scope, Placed(placed.device, following(variable.name, placed)))


def _evaluated(at: Spot, variable: GraphVariable) -> Tensor:
    """Write what is evaluated of a variable; averages of its parts are joined."""
    parts = variable.averaged_parts
    if not parts:
        return at.read(variable.evaluated.variable.tensor)
    sources = [each.evaluated for each in parts]
    values = [_beside(at, variable, each.placed).read(each.variable.tensor) for each in sources]
    shard = parts[0].info.shard
    assert shard is not None
    whole = values[0]
    if len(values) > 1:
        whole = at.writer.concat(at.name("joined"), values, shard.axis, at.placed)
    return at.writer.reshape(at.name("whole"), whole, variable.info.shape, at.placed)


def _is_regularized(variable: GraphVariable) -> bool:
    return variable.info.regularizer is not None and variable.info.trainable


def _penalty(at: Spot, variable: GraphVariable, weight: Tensor) -> Tensor:
    """Write the penalty of a variable."""
    regularizer = variable.info.regularizer

    def penalty(weight: tf.Tensor) -> tf.Tensor:
        return tf.cast(regularizer(in_float32(weight)), tf.float32)

    found: Tensor = write_traced(at, penalty, weight, owner=regularizer)
    return found


_WEIGHT = "weight"


_known: WeakKeyDictionary[Any, dict[tuple[tuple[int, ...], str], Fragment]] = WeakKeyDictionary()
"""Gradients by their regularizers."""


def write_slope(
    writer: StepWriter,
    scope: str,
    info: WeightInfo,
    weight: Tensor,
    placed: Placed,
    waits: tuple[str, ...] = (),
) -> Tensor | None:
    """Write the gradient of the regularizer of a weight, which waits for some ops.

    Returns:
        The gradient, of the shape of the weight; None if there is none.
    """
    slopes, key = _known.setdefault(info.regularizer, {}), (tuple(info.shape), info.dtype)
    if key not in slopes:
        slopes[key] = _traced(info)
    slope = slopes[key]
    use = writer.use(slope, scope, {_WEIGHT: weight}, placed, waits)
    return None if slope.result is None else use.result


def _traced(info: WeightInfo) -> Fragment:
    """Return the gradient of the regularizer of a weight."""
    with tf.Graph().as_default() as graph:
        weight = tf.compat.v1.placeholder(info.dtype, info.shape, name=_WEIGHT)
        found = _slope_of(info.regularizer, weight)
        if found is None:
            return Fragment(tf.compat.v1.GraphDef())
        return fragment_of(graph, found)


def _slope_of(regularizer: Callable[[tf.Tensor], tf.Tensor], weight: tf.Tensor) -> tf.Tensor | None:
    """Return the gradient of a regularizer.

    Those of sums of absolute values and of squares are written out, because TensorFlow's gradient of a sum
    first makes a tensor of equal numbers, as large as the weight. They are the same bit for bit.
    """
    own = unwrap(regularizer)
    terms = _TERMS.get(type(own), ())
    factors = [(tf.get_static_value(getattr(own, name)), slope) for name, slope in terms]
    if not terms or any(factor is None for factor, _ in factors):
        return tf.gradients(regularizer(weight), weight)[0]
    found = [slope(weight, float(factor)) for factor, slope in factors]
    return found[0] if len(found) == 1 else tf.add(*found, name="slope")


def _of_absolute_values(weight: tf.Tensor, factor: float) -> tf.Tensor:
    return tf.multiply(tf.sign(weight), tf.constant(factor, weight.dtype, name="l1"), name="slope")


def _of_squares(weight: tf.Tensor, factor: float) -> tf.Tensor:
    return tf.multiply(weight, tf.constant(2 * factor, weight.dtype, name="twice_l2"), name="slope")


_Terms = tuple[tuple[str, Callable[[tf.Tensor, float], tf.Tensor]], ...]
_L1, _L2 = ("l1", _of_absolute_values), ("l2", _of_squares)
_TERMS: dict[type, _Terms] = {
    keras.regularizers.L1: (_L1,),
    keras.regularizers.L2: (_L2,),
    keras.regularizers.L1L2: (_L1, _L2),
}
"""Regularizers of Keras that are sums, with the attributes that are the factors of these sums."""
