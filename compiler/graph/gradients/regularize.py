"""Regularization: once for each step whatever the number of clones, on the device of the variable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import unwrap

import keras
import tensorflow as tf
from attrs import evolve

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.summed import SummedGradient, add_rows
from compiler.graph.tower.network.network import make
from compiler.graph.tower.network.precision import in_float32
from compiler.graph.tower.template import WeightInfo
from compiler.graph.user_code import UserCode
from compiler.graph.variables.variables import GraphVariable, VariablePart, copy_name
from compiler.model.graph import label_of
from compiler.placement.rules import following
from compiler.reasons import Placed
from compiler.step.record import Rows, Tensor, Value
from compiler.step.values import take_piece, values_of
from compiler.step.writer import Spot
from dsl import ir


def with_regularizers(
    weights: Mapping[str, WeightInfo], regularize: ir.Call | None, base: str
) -> dict[str, WeightInfo]:
    """Return the weights, with the model's regularizer for every kernel that has none of its own."""
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


def regularize_gradients(assembly: Assembly, gradients: Sequence[SummedGradient]) -> list[SummedGradient]:
    """Add the gradients of regularizers, once for each step whatever the number of clones."""
    found = []
    for each in gradients:
        copies = [_regularized(assembly, each.variable, *own) for own in enumerate(each.copies)]
        found.append(evolve(each, copies=tuple(copies)))
    return found


def _regularized(assembly: Assembly, variable: GraphVariable, copy: int, gradient: Value) -> Value:
    """Return the gradient of a copy of a variable, or of a part of one, with that of the regularizer.

    TensorFlow runs whatever is ready. If memory counts, the gradient of the regularizer, which is as large as
    the weight, waits for that to which it is added.
    """
    whole = variable.whole if isinstance(variable, VariablePart) else variable
    regularizer, values, placed = whole.info.regularizer, values_of(gradient), variable.beside(copy)
    if regularizer is None:
        return gradient
    scope = f"{assembly.scope}/{copy_name(variable.name, copy)}"
    at = Spot(assembly.ledger.writer("update"), scope, placed)
    own = evolve(at, scope=at.name("regularizer"))
    read = variable.copy if isinstance(variable, VariablePart) else copy
    assert read is not None  # it is not a part of another worker's
    given = assembly.given_value(whole)
    weight = own.read(whole.copies[read].tensor) if given is None else given
    late = assembly.plan.update.recompute is not None
    waits = (values.op,) if late and assembly.ledger.entries[values.op].device == placed.device else ()
    slope = _slope(own, regularizer, weight, waits)
    if slope is None:
        return gradient
    if isinstance(variable, VariablePart):
        slope = take_piece(at, slope, variable.shard)
    if isinstance(gradient, Rows):
        return add_rows(at, slope, [gradient])
    return at.op("AddV2", "add", gradient, slope)[0]


def regularization_loss(at: Spot, assembly: Assembly, shares: Sequence[float]) -> list[Tensor]:
    """Write the terms that regularizers add to the loss of a step, each beside its variable.

    Args:
        shares: The shares of the clones in the batch. Copies that are trained separately count by them, as
            the losses of their clones do. Other copies are all equal.
    """
    terms, reads = [], assembly.score_reads
    for variable in assembly.variables.values():
        if not _is_regularized(variable):
            continue
        separate = variable.mean is not None
        for copy, share in enumerate(shares if separate else (1.0,)):
            # the names of the ops of a copy say whose they are
            scope = f"{at.scope}/copy_{copy}" if separate else at.scope
            beside = Spot(at.writer, scope, variable.beside(copy))
            weight = assembly.given_value(variable, copy)
            if weight is None:
                weight = beside.read(variable.copies[copy].tensor)
                reads.setdefault(variable.copies[copy].name, []).append(weight.op)
            penalty = _penalty(beside, variable, weight)
            terms.append(beside.op("Mul", "mul", penalty, share)[0] if separate else penalty)
    return terms


def evaluated_regularization(at: Spot, variables: Iterable[GraphVariable]) -> list[Tensor]:
    """Write the terms of the evaluated weights with a regularizer, each beside the variable that is read."""
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
    regularizer = variable.info.regularizer

    def penalty(weight: tf.Tensor) -> tf.Tensor:
        return tf.cast(regularizer(in_float32(weight)), tf.float32)

    return write_traced(at, penalty, weight, owner=regularizer)


def _slope(
    at: Spot, regularizer: Callable[[tf.Tensor], tf.Tensor], weight: Tensor, waits: Sequence[str]
) -> Tensor | None:
    """Write the gradient of a regularizer, whose last op waits for others; None if there is no gradient.

    Those of sums of absolute values and of squares are written out, because TensorFlow's gradient of a sum
    first makes a tensor of equal numbers, as large as the weight. They are the same bit for bit.
    """
    own, end = unwrap(regularizer), at.waiting(waits) if waits else at
    names = _TERMS.get(type(own), ())
    factors = {name: tf.get_static_value(getattr(own, name)) for name in names}
    if not names or None in factors.values():
        found: Tensor | None = write_traced(
            at,
            lambda value: tf.gradients(regularizer(value), value)[0],
            weight,
            owner=regularizer,
            kind="slope",
            ended_after=waits,
            needed_only=True,
        )
        return found
    terms = list[tuple[Tensor, Tensor]]()
    for name, factor in factors.items():
        base, times = (weight, 2) if name == "l2" else (at.op("Sign", "sign", weight)[0], 1)
        number = times * float(factor)
        terms.append((base, at.writer.constant(f"{at.scope}/{name}", number, weight.dtype, at.placed)))
    if len(terms) == 1:
        return end.op("Mul", "slope", *terms[0])[0]
    return end.op("AddV2", "slope", *(at.op("Mul", "mul", *each)[0] for each in terms))[0]


_TERMS: Mapping[type, Sequence[str]] = {
    keras.regularizers.L1: ("l1",),
    keras.regularizers.L2: ("l2",),
    keras.regularizers.L1L2: ("l1", "l2"),
}
"""Regularizers of Keras that are sums, with the attributes that are the factors of these sums."""
