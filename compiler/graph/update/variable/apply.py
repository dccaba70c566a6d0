"""Apply summed gradients: the optimizer's fused op, then constraints, moving averages and new statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import tensorflow as tf
from attrs import evolve

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.collect import copy_name
from compiler.graph.gradients.copies import tensors_of
from compiler.graph.gradients.summed import SummedGradient
from compiler.graph.gradients.unscale import Gate
from compiler.graph.optimizers.base import Scalars
from compiler.graph.optimizers.groups import StepScalars
from compiler.graph.update.variable.averages import average_rate, move_average
from compiler.graph.update.variable.mutex import take_turn
from compiler.graph.update.variable.parts import apply_parts
from compiler.graph.update.variable.reads import reads_of
from compiler.graph.update.variable.remote_slots import apply_at_slots, slots_are_remote
from compiler.graph.update.variable.rules import write_rule
from compiler.graph.variables.variables import GraphVariable, VariablePart
from compiler.step.record import Tensor, Value
from compiler.step.writer import Spot


def step_scalars(assembly: Assembly) -> StepScalars:
    """Return the learning rates and the other scalars of this step, made once for all variables."""
    rules, averaging = assembly.rules, assembly.plan.update.averaging
    assert rules is not None
    at = Spot(assembly.ledger.writer("update"), f"{assembly.scope}/scalars", assembly.rulebook.optimizer())
    step = evolve(at, placed=assembly.step_place).read(assembly.global_step.tensor)

    def numbers(step: tf.Tensor) -> tuple[dict[str, Scalars], tf.Tensor | None]:
        groups, rate = rules.scalars(step), None
        if averaging is not None and averaging.warm_up:
            rate = average_rate(averaging.decay, step)
        return groups, rate

    groups, rate = write_traced(at, numbers, step)
    return StepScalars(groups, rate, at.placed.device)


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
    assert assembly.rules is not None
    done: list[str] = []
    fused: list[Callable[[], str]] = []
    parts: dict[str, list[tuple[VariablePart, Value]]] = {}
    for each in gradients:
        variable = each.variable
        if isinstance(variable, VariablePart):
            parts.setdefault(variable.weight, []).append((variable, each.copies[0]))
            continue
        for copy, value in enumerate(each.copies[: len(variable.copies)]):
            scope = f"{assembly.scope}/{copy_name(variable, copy)}"
            at = Spot(assembly.ledger.writer("update"), scope, variable.beside(copy))
            if gate is None and _is_one_op(assembly, variable, copy, value):
                rule = assembly.rules.of(variable.name)
                slots = [variable.slots[each][copy] for each in rule.slots]
                given = (variable.copies[copy].tensor, slots, value, scalars.of(rule, at))
                reads = reads_of(assembly, variable, copy)
                fused.append(partial(write_rule, assembly, at, rule, *given, reads))
            else:
                done.append(_apply(assembly, at, variable, copy, value, scalars, gate))
    done += [write() for write in fused]
    for family in parts.values():
        done += apply_parts(assembly, family, scalars, gate)
    return done


def _is_one_op(assembly: Assembly, variable: GraphVariable, copy: int, gradient: Value) -> bool:
    """Whether the update of a copy by a tensor is one op, with nothing before and after it.

    Such an op holds the lock of its variable, and needs no turn.
    """
    assert assembly.rules is not None
    alone = isinstance(gradient, Tensor) and assembly.rules.of(variable.name).is_one_op(gradient)
    averaged = copy == 0 and variable.average is not None
    return alone and not (slots_are_remote(variable, copy) or variable.info.constraint or averaged)


def _apply(
    assembly: Assembly,
    at: Spot,
    variable: GraphVariable,
    copy: int,
    gradient: Value,
    scalars: StepScalars,
    gate: Gate | None,
) -> str:
    """Write an update that is more than one op; return the name of the op that ends it."""
    assert assembly.rules is not None
    rule, handle = assembly.rules.of(variable.name), variable.copies[copy].tensor
    at = at if gate is None else at.waiting(gate.at(at.placed))
    contested = _is_contested(assembly, variable, copy, gradient)
    turn = take_turn(at, variable.name, contested=contested, after=tensors_of(gradient))
    inside = at.waiting([*turn.taken, *reads_of(assembly, variable, copy)])
    if slots_are_remote(variable, copy):
        applied = apply_at_slots(assembly, inside, variable, copy, gradient, scalars)
    else:
        slots, numbers = [variable.slots[each][copy] for each in rule.slots], scalars.of(rule, inside)
        applied = write_rule(assembly, inside, rule, handle, slots, gradient, numbers)
    if variable.info.constraint is not None:
        after = at.waiting([applied])
        applied = after.assign(handle, write_traced(after, variable.info.constraint, after.read(handle)))
    if copy == 0 and variable.average is not None:
        after = at.waiting([applied])
        applied = move_average(assembly, after, variable, after.read(handle), scalars)
    return turn.ended(applied)


def _is_contested(assembly: Assembly, variable: GraphVariable, copy: int, gradient: Value) -> bool:
    """Whether another update could run between the ops of this one, because it is more than one op."""
    assert assembly.rules is not None
    alone = assembly.rules.of(variable.name).is_one_op(gradient) and not slots_are_remote(variable, copy)
    followed = variable.info.constraint is not None or variable.average is not None
    return assembly.plan.updates_meet and (followed or not alone)
