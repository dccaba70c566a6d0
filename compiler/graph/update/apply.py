"""Apply summed gradients to a variable: the rule of its optimizer, its constraint and its moving average.

A rule is traced once for all variables that are alike. It is written in one of three ways: beside the
variable; on the device of its slots if that is another one; or, if slots are spread over clones, in parts, of
which each clone updates its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import tensorflow as tf
from attrs import evolve, frozen

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.summed import SummedGradient
from compiler.graph.gradients.unscale import Gate
from compiler.graph.optimizers.base import Optimizer, Scalars
from compiler.graph.optimizers.groups import StepScalars
from compiler.graph.variables.variables import GraphVariable, VariablePart, copy_name
from compiler.step.record import Rows, Tensor, Value
from compiler.step.values import take_piece, tensors_of
from compiler.step.writer import Spot


def step_scalars(assembly: Assembly) -> StepScalars:
    """Return the learning rates and the other scalars of this step, made once for all variables."""
    rules, averaging = assembly.rules, assembly.plan.update.averaging
    assert rules is not None
    at = Spot(assembly.ledger.writer("update"), f"{assembly.scope}/scalars", assembly.rulebook.optimizer())
    step = evolve(at, placed=assembly.step_place).read(assembly.global_step.tensor)

    def numbers(step: tf.Tensor) -> tuple[Mapping[str, Scalars], tf.Tensor | None]:
        groups, rate = rules.scalars(step), None
        if averaging is not None and averaging.warm_up:
            rate = average_rate(averaging.decay, step)
        return groups, rate

    groups, rate = write_traced(at, numbers, step)
    return StepScalars(groups, rate, at.placed.device)


def apply_gradients(
    assembly: Assembly, gradients: Sequence[SummedGradient], scalars: StepScalars, gate: Gate | None = None
) -> list[str]:
    """Apply each gradient to every copy of its variable, on its device; return the names of the last ops."""
    done: list[str] = []
    fused: list[Callable[[], str]] = []
    parts: dict[str, list[tuple[VariablePart, Value]]] = {}
    for each in gradients:
        variable = each.variable
        if isinstance(variable, VariablePart):
            parts.setdefault(variable.weight, []).append((variable, each.copies[0]))
            continue
        for copy, value in enumerate(each.copies[: len(variable.copies)]):
            scope = f"{assembly.scope}/{copy_name(variable.name, copy)}"
            at = Spot(assembly.ledger.writer("update"), scope, variable.beside(copy))
            if gate is None and _is_one_op(assembly, variable, copy, value):
                rule = assembly.rule_of(variable.name)
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
    alone = isinstance(gradient, Tensor) and assembly.rule_of(variable.name).is_one_op(gradient)
    averaged = copy == 0 and variable.average is not None
    given = assembly.given_value(variable) is not None
    return alone and not (variable.slots_are_remote(copy) or variable.info.constraint or averaged or given)


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
    rule, handle = assembly.rule_of(variable.name), variable.copies[copy].tensor
    at = _begun(assembly, at, gate)
    contested = _is_contested(assembly, variable, copy, gradient)
    turn = take_turn(at, variable.name, contested=contested, after=tensors_of(gradient))
    inside, given = (
        at.waiting([*turn.taken, *reads_of(assembly, variable, copy)]),
        assembly.given_value(variable),
    )
    if given is not None:
        inside = inside.waiting([inside.assign(handle, given, "given")])
    if variable.slots_are_remote(copy):
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
    alone = assembly.rule_of(variable.name).is_one_op(gradient) and not variable.slots_are_remote(copy)
    followed = variable.info.constraint is not None or variable.average is not None
    followed |= assembly.given_value(variable) is not None
    return assembly.plan.update.mode == "async" and (followed or not alone)


def write_rule(
    assembly: Assembly,
    at: Spot,
    rule: Optimizer,
    variable: Tensor,
    slots: Sequence[Any],
    gradient: Value,
    scalars: Scalars,
    ended_after: Sequence[str] = (),
) -> str:
    """Write the update of a variable; return the name of the op that ends it."""
    if isinstance(gradient, Rows) and assembly.ledger.entries[gradient.values.op].device != at.placed.device:
        gradient = evolve(gradient, merged=None)  # more rows would be sent
    given = (variable, [each.tensor for each in slots], gradient, scalars)
    return write_traced(at, rule.apply, *given, owner=rule.settings, kind=rule.kind, ended_after=ended_after)


def update_apart(
    assembly: Assembly,
    at: Spot,
    rule: Optimizer,
    own: Tensor,
    value: Tensor,
    slots: Sequence[Any],
    gradient: Value,
    scalars: Scalars,
) -> Tensor:
    """Update a value in a variable of its own, which is not used between steps.

    Optimizers apply gradients to variables.
    """
    taken = at.assign(own, value, "taken")
    applied = write_rule(assembly, at.waiting([taken]), rule, own, slots, gradient, scalars)
    return at.waiting([applied]).read(own, "updated")


def apply_parts(
    assembly: Assembly,
    gradients: Sequence[tuple[VariablePart, Value]],
    scalars: StepScalars,
    gate: Gate | None = None,
) -> list[str]:
    """Update the parts of a weight, each on the device of its clone, and give all copies the new weight.

    Args:
        gradients: All parts of the weight in their order, each with its gradient.

    Returns:
        The names of the ops that end the updates. If other workers have parts of the weight, those of this
        one are left in variables of their own, because the copies get the new weight when all have theirs.
    """
    parts = [part for part, _ in gradients]
    whole = parts[0].whole
    updated = [_update(assembly, each, gradient, scalars, gate) for each, gradient in gradients]
    done: list[str] = []
    copies = []
    if whole.parts_of_workers:
        for part, new in zip(parts, updated, strict=True):
            done.append(new.op)
            if part.average is not None:
                at = _beside(assembly, part, part.name, gate)
                done.append(move_average(assembly, at, part, new, scalars))
        return done
    for copy in range(len(whole.copies)):
        at = _beside(assembly, whole, copy_name(whole.name, copy), gate, copy)
        if len(updated) > 1:
            gathered = at.writer.concat(f"{at.scope}/gathered", updated, 0, at.placed)
        else:  # the variable has fewer elements than there are clones
            (gathered,) = at.op("Identity", "gathered", *updated)
        joined = at.writer.reshape(f"{at.scope}/Reshape", gathered, whole.info.shape, at.placed)
        if whole.info.constraint is not None:
            joined = write_traced(at, whole.info.constraint, joined)
        copies.append(joined)
        after = at.waiting(reads_of(assembly, whole, copy))
        done.append(after.assign(whole.copies[copy].tensor, joined))
    for number, part in enumerate(parts):
        if part.average is not None:
            at, new = _beside(assembly, part, part.name, gate), updated[number]
            if whole.info.constraint is not None:
                assert part.copy is not None
                new = take_piece(at, copies[part.copy], part.shard)
            done.append(move_average(assembly, at, part, new, scalars))
    return done


def _beside(assembly: Assembly, variable: GraphVariable, name: str, gate: Gate | None, copy: int = 0) -> Spot:
    """Return where the ops of an update are written on the device of a copy, under `name`."""
    at = Spot(assembly.ledger.writer("update"), f"{assembly.scope}/{name}", variable.beside(copy))
    return _begun(assembly, at, gate)


def _begun(assembly: Assembly, at: Spot, gate: Gate | None) -> Spot:
    """Let ops wait until updates may begin, and run in good steps only."""
    return at.waiting([*assembly.before_updates, *(() if gate is None else gate.at(at.placed))])


def _update(
    assembly: Assembly, part: VariablePart, gradient: Value, scalars: StepScalars, gate: Gate | None
) -> Tensor:
    """Return the new elements of a part, which is updated in a variable of its own."""
    rule, at = assembly.rule_of(part.name), _beside(assembly, part, part.name, gate)
    assert part.copy is not None  # it is not another worker's
    own = updated_part(assembly, at, part)
    given = assembly.given_value(part.whole)
    value = at.read(part.whole.copies[part.copy].tensor) if given is None else given
    value = take_piece(at, value, part.shard)
    slots = [part.slots[each][0] for each in rule.slots]
    return update_apart(assembly, at, rule, own, value, slots, gradient, scalars.of(rule))


def updated_part(assembly: Assembly, at: Spot, part: VariablePart) -> Tensor:
    """Write the handle of the variable in which a part is updated."""
    return assembly.ledger.writer("variable").variable(
        at.name("part"), part.info.dtype, part.info.shape, f"{part.name}/updated", at.placed
    )


def apply_at_slots(
    assembly: Assembly, at: Spot, variable: GraphVariable, copy: int, gradient: Value, scalars: StepScalars
) -> str:
    """Apply a gradient to a copy of a variable, on the device of its slots; return the last op's name."""
    rule, home = assembly.rule_of(variable.name), variable.copies[copy].tensor
    weight, there = at.read(home, "sent"), evolve(at, placed=variable.slot_place(copy))
    # clones that take turns at a variable share the one in which the update is made
    shared = f"{variable.copies[copy].name}/at_slots"
    own = assembly.ledger.writer("variable").variable(
        at.name("weight"), variable.info.dtype, variable.info.shape, shared, there.placed
    )
    slots = [variable.slots[each][copy] for each in rule.slots]
    new = update_apart(assembly, there, rule, own, weight, slots, gradient, scalars.of(rule))
    return at.assign(home, new, "returned")


AVERAGE_RATE = "average_rate"
"""The name of the scalar by which averages move, if that changes from step to step."""


def average_rate(decay: float, step: tf.Tensor) -> tf.Tensor:
    """Return one minus the decay of an average that warms up, for the update after `step`.

    The decay is min(decay, (1 + n) / (10 + n)). `n` counts that update, as `num_updates` in TensorFlow's
    tutorials does.
    """
    n = tf.cast(step + 1, tf.float32)
    return tf.subtract(1.0, tf.minimum(decay, (1.0 + n) / (10.0 + n)), name=AVERAGE_RATE)


def move_average(
    assembly: Assembly, at: Spot, variable: GraphVariable, new: Tensor, scalars: StepScalars
) -> str:
    """Move the average of a weight, or of a part of one, by (1 - decay) towards its new value.

    Returns:
        The name of the op that does it, on the device of the average.
    """
    averaging, at = assembly.plan.update.averaging, evolve(at, placed=variable.slot_place(0))
    assert averaging is not None
    old, rate = at.read(variable.average.tensor), scalars.average_rate
    if rate is not None:
        rate = at.cast(rate, variable.info.dtype)
    (away,) = at.op("Sub", "sub", old, new)
    (change,) = at.op("Mul", "mul", away, 1.0 - averaging.decay if rate is None else rate)
    return at.run("AssignSubVariableOp", "AssignSubVariableOp", variable.average.tensor, change)


@frozen
class Turn:
    """The turn of an update at a variable."""

    # The names of the ops that take the mutex. Ops that must exclude other updates run after these.
    taken: tuple[str, ...] = ()
    _at: Spot | None = None
    _lock: Tensor | None = None

    def ended(self, *last: str) -> str:
        """Return the name of the op that ends the turn when all of `last` are done, or the only one."""
        if self._at is None or self._lock is None:
            return last[0]
        return self._at.waiting(last).run("ConsumeMutexLock", "leave", self._lock)


def take_turn(at: Spot, key: str, *, contested: bool, after: Sequence[Tensor] = ()) -> Turn:
    """Wait until no other update holds the mutex.

    Args:
        contested: Whether other updates are possible. If not, there is no waiting.
        after: Tensors that must exist before the turn begins, so that no update waits for one that is not
            ready.
    """
    if not contested:
        return Turn()
    (mutex,) = at.op("MutexV2", "mutex", shared_name=f"tfdeploy/{key}")
    (lock,) = at.waiting([each.op for each in after]).op("MutexLock", "enter", mutex)
    return Turn((lock.op,), at, lock)


def reads_of(assembly: Assembly, variable: GraphVariable, copy: int) -> list[str]:
    """Return the names of the reads of a copy which must end before it changes."""
    readers = assembly.towers[copy : copy + 1] if variable.replicated else assembly.towers
    scores = assembly.score_reads.get(variable.copies[copy].name, [])
    shard = variable.info.shard
    number = None if shard is None else shard.number
    reads = (read for each in readers for read in each.reads(variable.weight, number))
    return [*dict.fromkeys(reads), *scores]  # of a piece, several towers have the same
