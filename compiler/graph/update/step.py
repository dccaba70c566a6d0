"""One update from beginning to end, for all towers and variables of a graph or for those of one clone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

from attrs import field, frozen

from compiler.figures import gathered
from compiler.graph.assembly import Assembly
from compiler.graph.gradients.clip import clip_gradients
from compiler.graph.gradients.collect import send_together, sum_gradients
from compiler.graph.gradients.regularize import regularize_gradients
from compiler.graph.gradients.summed import SummedGradient, join_parts
from compiler.graph.gradients.unscale import Gate, gate_of, unscale
from compiler.graph.gradients.weighting import own_inverses
from compiler.graph.loss_scale import LossScale
from compiler.graph.optimizers.groups import StepScalars
from compiler.graph.tower.template import Join
from compiler.graph.update.apply import apply_gradients
from compiler.graph.update.statistics import ALL, update_statistics
from compiler.step.record import Run, Tensor
from compiler.step.values import values_of
from compiler.step.writer import Spot

Decided = TypeVar("Decided")


@frozen
class Updates:
    """What an update mode adds to a graph."""

    train_op: Run | None = None  # does a step; None if nothing is trained
    # The learning rate of each group of weights, by its glob; scalars.
    learning_rates: Mapping[str, Tensor] = field(factory=dict)
    # The ops of clones that update each by itself, in loops of their own. `train_op` then runs each of them
    # once.
    by_clone: tuple[Run, ...] = ()
    # Updates the variables that are evaluated and saved, if these are not the weights themselves.
    publish_op: Run | None = None
    # The gradients that a step applies, by variable; for rows, their elements. With `local` and `async`,
    # those of clone 0.
    gradients: Mapping[str, Tensor] = field(factory=dict)


@frozen
class Update:
    """One update."""

    done: Sequence[str]
    gradients: Mapping[str, Tensor]
    # The names of the ops that give the statistics of batch normalization new values.
    of_statistics: frozenset[str] = frozenset()


def build_update(assembly: Assembly, scalars: StepScalars, statistics: Collection[Join] = ALL) -> Update:
    """Sum, condition and apply the gradients of the towers."""
    gradients = send_together(assembly, sum_gradients(assembly))
    give_statistics = partial(update_statistics, assembly, joins=statistics)
    return apply_sums(assembly, scalars, gradients, own_inverses(assembly), give_statistics)


def apply_sums(
    assembly: Assembly,
    scalars: StepScalars,
    gradients: Sequence[SummedGradient],
    inverses: Sequence[Tensor | None],
    give_statistics: Callable[[Gate | None], list[str]],
) -> Update:
    """Condition and apply gradients that have been summed.

    Args:
        give_statistics: Writes what gives the statistics of batch normalization new values, behind a gate if
            there is one; returns the names of the ops that end this.
    """
    gradients, gate = condition(assembly, gradients, inverses, gate_of)
    return apply_conditioned(assembly, scalars, gradients, gate, give_statistics)


def condition(
    assembly: Assembly,
    gradients: Sequence[SummedGradient],
    inverses: Sequence[Tensor | None],
    decide: Callable[[Assembly, LossScale, Sequence[SummedGradient]], Decided],
) -> tuple[list[SummedGradient], Decided | None]:
    """Return gradients as they are applied, and what decides whether they are, if the loss has a scale.

    Args:
        decide: Returns it for the gradients of the loss itself.
    """
    scale = assembly.loss_scale
    gradients = join_parts(assembly, gradients, inverses)
    if scale is not None:
        gradients = unscale(assembly, scale, gradients)
    gradients = regularize_gradients(assembly, gradients)
    decided = decide(assembly, scale, gradients) if scale is not None else None
    return clip_gradients(assembly, gradients), decided


def apply_conditioned(
    assembly: Assembly,
    scalars: StepScalars,
    gradients: Sequence[SummedGradient],
    gate: Gate | None,
    give_statistics: Callable[[Gate | None], list[str]],
) -> Update:
    """Apply gradients that have been conditioned; the arguments are those of `apply_sums`, and the gate."""
    done = apply_gradients(assembly, gradients, scalars, gate)
    before = len(assembly.ledger.written)
    done += give_statistics(gate)
    made = assembly.ledger.names_since(before)
    if gate is not None:
        assembly.applied = gate.applied
        done = gate.close(done)
    return Update(done, applied_values(gradients), made)


def applied_values(gradients: Sequence[SummedGradient]) -> dict[str, Tensor]:
    """Return the elements of the gradients of the first copies, by variable."""
    return {each.variable.name: values_of(each.copies[0]) for each in gradients}


def count_update(assembly: Assembly, done: Sequence[str], name: str = "train_step") -> Run:
    """Return the op that increments the global step, unless the step was skipped. It is atomic."""
    ends = join_ends(assembly, done)
    at = Spot(assembly.ledger.writer("update"), "", assembly.step_place).waiting(ends)
    if assembly.applied is None:
        one = at.writer.constant(at.name("Const"), 1, "int64", at.placed)
    else:
        one = at.cast(assembly.applied, "int64")
    return Run(at.run("AssignAddVariableOp", name, assembly.global_step.tensor, one))


def join_ends(assembly: Assembly, done: Sequence[str]) -> list[str]:
    """Return the names of ops that run after all of `done`: only one on each task without the global step."""
    entries, home = assembly.ledger.entries, assembly.step_place.device.host
    by_task = gathered((entries[each].device.host, each) for each in done)
    ends, writer = by_task.pop(home, []), assembly.ledger.writer("update")
    for ops in by_task.values():
        if len(ops) == 1:
            ends += ops
            continue
        placed = entries[ops[0]].placed
        ends.append(writer.after(f"{assembly.scope}/ended/{placed.device.scope}", ops, placed))
    return ends
