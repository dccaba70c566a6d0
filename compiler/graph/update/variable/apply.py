"""Apply summed gradients: the optimizer's fused op, then constraints, moving averages and new statistics."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.gradients.collect import copy_name
from compiler.graph.gradients.copies import Gradient
from compiler.graph.gradients.summed import SummedGradient
from compiler.graph.gradients.unscale import Gate
from compiler.graph.optimizers.groups import StepScalars
from compiler.graph.update.variable.averages import average_rate, move_average
from compiler.graph.update.variable.fused import FusedUpdate, write_fused
from compiler.graph.update.variable.mutex import take_turn
from compiler.graph.update.variable.parts import apply_parts
from compiler.graph.update.variable.reads import reads_of
from compiler.graph.update.variable.remote_slots import apply_at_slots, slots_are_remote
from compiler.graph.variables.variables import GraphVariable, VariablePart
from compiler.step.record import Tensor, Value


def step_scalars(assembly: Assembly) -> StepScalars:
    """Return the learning rates and the other scalars of this step, made once for all variables."""
    assert assembly.rules is not None
    with tf.name_scope(f"{assembly.scope}/scalars/"):
        with assembly.ledger.place(assembly.step_place, "update"):
            step = assembly.read_step()
        home = assembly.rulebook.optimizer()
        with assembly.ledger.place(home, "update"):
            groups, rate = assembly.rules.scalars(step), None
            averaging = assembly.plan.update.averaging
            if averaging is not None and averaging.warm_up:
                rate = average_rate(averaging.decay, step)
            return StepScalars(groups, rate, home.device)


def apply_gradients(
    assembly: Assembly, gradients: Sequence[SummedGradient], scalars: StepScalars, gate: Gate | None = None
) -> list[str]:
    """Apply each gradient to every copy of its variable, on the device of the copy.

    Args:
        assembly: The graph under construction.
        gradients: The gradients.
        scalars: The scalars of the step.
        gate: Runs the ops in good steps only, or None if every step is good.

    Returns:
        The names of the ops that end the updates.
    """
    done: list[str] = []
    fused: list[FusedUpdate] = []
    parts: dict[str, list[tuple[VariablePart, Value]]] = {}
    for each in gradients:
        if isinstance(each.variable, VariablePart):
            parts.setdefault(each.variable.weight, []).append((each.variable, each.copies[0]))
        else:
            for copy in range(len(each.variable.copies)):
                if gate is None and _is_one_op(assembly, each, copy):
                    fused.append(_fused(assembly, each, copy, scalars))
                else:
                    done.append(_apply(assembly, each, copy, scalars, gate).name)
    done += write_fused(fused, assembly.ledger)
    for family in parts.values():
        done += apply_parts(assembly, family, scalars, gate)
    return done


def _is_one_op(assembly: Assembly, gradient: SummedGradient, copy: int) -> bool:
    """Whether the update of a copy by a tensor is one op, with nothing before and after it."""
    assert assembly.rules is not None
    variable, value = gradient.variable, gradient.copies[copy]
    alone = isinstance(value, Tensor) and assembly.rules.of(variable.name).is_one_op(value)
    averaged = copy == 0 and variable.average is not None
    return alone and not (slots_are_remote(variable, copy) or variable.info.constraint or averaged)


def _fused(assembly: Assembly, gradient: SummedGradient, copy: int, scalars: StepScalars) -> FusedUpdate:
    """Return an update that is one op. Such an op holds the lock of its variable, and needs no turn."""
    assert assembly.rules is not None
    variable, placed = gradient.variable, gradient.variable.beside(copy)
    rule, value = assembly.rules.of(variable.name), gradient.copies[copy]
    assert isinstance(value, Tensor)
    scope = f"{assembly.scope}/{copy_name(variable, copy)}"
    numbers = scalars.known(rule, placed.device)
    if numbers is None:
        with assembly.ledger.place(placed, "update"), tf.name_scope(f"{scope}/"):
            numbers = scalars.of(rule, placed.device)
    return FusedUpdate(
        rule,
        scope,
        placed,
        [variable.copies[copy], *(variable.slots[each][copy] for each in rule.slots)],
        value,
        numbers,
        reads_of(assembly, variable, copy),
    )


def _apply(
    assembly: Assembly, gradient: SummedGradient, copy: int, scalars: StepScalars, gate: Gate | None
) -> tf.Operation:
    assert assembly.rules is not None
    variable, value = gradient.variable, assembly.made(gradient.copies[copy])
    rule = assembly.rules.of(variable.name)
    handle = variable.copies[copy].handle
    slots = [variable.slots[each][copy].handle for each in rule.slots]
    place = assembly.ledger.place(variable.beside(copy), "update")
    open_ = gate.at(variable.beside(copy)) if gate is not None else nullcontext()
    with place, tf.name_scope(f"{assembly.scope}/{copy_name(variable, copy)}/"), open_:
        turn = take_turn(variable.name, contested=_is_contested(assembly, variable, copy, value), after=value)
        reads = assembly.ops(reads_of(assembly, variable, copy))
        with tf.control_dependencies([*turn.taken, *reads]):
            if slots_are_remote(variable, copy):
                applied = apply_at_slots(assembly, variable, copy, value, scalars)
            else:
                applied = rule.apply(handle, slots, value, scalars.of(rule, variable.beside(copy).device))
        if variable.info.constraint is not None:
            applied = _constrain(variable, copy, applied)
        if copy == 0 and variable.average is not None:
            with tf.control_dependencies([applied]):
                new = tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.info.dtype)
                applied = move_average(assembly, variable, new, scalars)
        return turn.ended(applied)


def _is_contested(assembly: Assembly, variable: GraphVariable, copy: int, gradient: Gradient) -> bool:
    """Whether another update could run between the ops of this one, because it is more than one op."""
    assert assembly.rules is not None
    alone = assembly.rules.of(variable.name).is_one_op(gradient) and not slots_are_remote(variable, copy)
    followed = variable.info.constraint is not None or variable.average is not None
    return assembly.plan.updates_meet and (followed or not alone)


def _constrain(variable: GraphVariable, copy: int, applied: tf.Operation) -> tf.Operation:
    """Apply a weight's Keras constraint after the update."""
    handle = variable.copies[copy].handle
    with tf.control_dependencies([applied]):
        new = tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.info.dtype)
        return tf.raw_ops.AssignVariableOp(resource=handle, value=variable.info.constraint(new))
