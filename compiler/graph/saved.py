"""What checkpoints hold of a graph, and the ops that give its variables values before the first step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import evolve

from compiler.figures import gathered
from compiler.graph.assembly import Assembly
from compiler.graph.update.apply import updated_part
from compiler.graph.update.local import changing
from compiler.graph.variables.nodes import CutVariable
from compiler.graph.variables.variables import AVERAGE, GraphVariable, checkpoint_copy, copy_name
from compiler.plan import WorkerPlan
from compiler.reasons import Placed
from compiler.shards import Shard
from compiler.step.record import Run
from compiler.step.values import take_piece
from compiler.step.writer import Spot

MOST_AT_STEP = 1024
"""The most ops of its own device that an op beside the global step waits for one by one."""
MOST_ELSEWHERE = 32
"""The same of another device, of which there may be one for each of hundreds of clones."""


def saved_variables(assembly: Assembly) -> dict[str, object]:
    """Return the variables of a checkpoint by their plain names: one copy of each, with slots and average."""
    saved = {"global_step": assembly.global_step}
    saved |= assembly.loss_scale.saved() if assembly.loss_scale is not None else {}
    for weight in dict.fromkeys(each.weight for each in assembly.variables.values()):
        pieces = assembly.pieces_of(weight)
        saved[weight] = _joined(weight, pieces, [each.kept for each in pieces])
        pieces = assembly.updated_of(weight)
        for suffix in pieces[0].slots:
            name = f"{weight}/{suffix}"
            saved[name] = _joined(name, pieces, [each.slots[suffix][0] for each in pieces])
        if pieces[0].average is not None:
            name = f"{weight}/{AVERAGE}"
            saved[name] = _joined(name, pieces, [each.average for each in pieces])
    return saved


def saved_copies(assembly: Assembly) -> dict[str, object]:
    """Return the variables of single clones by their names in checkpoints, if each trains by itself (local).

    What `saved_variables` holds is the mean of the weights and the slots of clone 0, so that slots of clone 0
    are not among them. Copies that training does not change are equal.
    """
    if assembly.plan.update.mode != "local" or len(assembly.plan.towers) == 1:
        return {}
    copies: dict[str, object] = {}
    for weight in dict.fromkeys(each.weight for each in changing(assembly)):
        pieces = assembly.pieces_of(weight)
        for clone in range(len(pieces[0].copies)):
            name = checkpoint_copy(weight, clone)
            copies[name] = _joined(name, pieces, [each.copies[clone] for each in pieces])
            for suffix, slots in pieces[0].slots.items() if clone else ():
                if _is_count(pieces[0], slots[0]):
                    continue  # it is the same for all clones, too
                name = checkpoint_copy(f"{weight}/{suffix}", clone)
                copies[name] = _joined(name, pieces, [each.slots[suffix][clone] for each in pieces])
    return copies


def _joined(name: str, pieces: Sequence[GraphVariable], variables: Sequence[Any]) -> object:
    """Return what checkpoints hold under a name: a variable, or the pieces of one.

    A slot that does not have the shape of its weight, such as a count of steps, is the same for all pieces.
    """
    shards = [each.info.shard for each in pieces if each.info.shard is not None]
    if not shards or not _has_pieces(variables[0], shards[0]):
        return variables[0]
    return CutVariable(tuple(evolve(each, of=name) for each in shards), tuple(variables))


def _has_pieces(variable: Any, shard: Shard) -> bool:
    return tuple(variable.shape.as_list()) == shard.shape


def initialisation(assembly: Assembly) -> tuple[Run, Run, Run | None]:
    """Return the op that initialises every variable, and the ops that make all copies equal again.

    The last one is for what is on several workers, and None if there is nothing.
    """
    scales = assembly.loss_scale.saved().values() if assembly.loss_scale is not None else ()
    made: list[Sequence[Any]] = [[each] for each in (assembly.global_step, *scales)]
    writer, equal, apart = assembly.ledger.writer("init"), list[list[str]](), list[list[str]]()

    def equalize(
        name: str,
        family: Sequence[Any],
        place: Callable[[int], Placed],
        kept: Any,
        done: list[list[str]] = equal,
    ) -> None:
        """Assign one of several variables, of which a checkpoint has restored the value, to the others."""
        others = [copy for copy, each in enumerate(family) if each is not kept]
        if others:
            scope = f"restore/{name.replace('/', '_')}"
            value = writer.read(writer.unique(scope), kept.tensor, place(0))
            names = {copy: writer.unique(f"{scope}_replica_{copy}") for copy in others}
            done.append(
                [writer.assign(own, family[copy].tensor, value, place(copy)) for copy, own in names.items()]
            )

    for name, family, places in _counts(assembly):
        of_all = any(assembly.plan.is_abroad(each.device) for each in places)
        equalize(name, family, places.__getitem__, family[0], apart if of_all else equal)
    for variable in assembly.variables.values():
        made.append(variable.copies)
        made += [[variable.mean]] if variable.mean is not None else []
        equalize(variable.name, variable.copies, variable.beside, variable.kept)
        for updated in _updated_here(assembly, variable):
            made += updated.slots.values()
            made += [[updated.average]] if updated.average is not None else []
            for suffix, family in updated.slots.items():
                if not _is_count(updated, family[0]) or updated is assembly.updated_of(variable.weight)[0]:
                    equalize(f"{updated.name}/{suffix}", family, updated.slot_place, family[0])
    first = [[each.first_assigned for each in family] for family in made]
    first += _parts_of_weights(assembly, "init", first=True)
    equal += _parts_of_weights(assembly, "restore", first=False)
    after_apart = _all_of(assembly, apart, "after_restore_apart") if apart else None
    return _all_of(assembly, first, "init"), _all_of(assembly, equal, "after_restore"), after_apart


def _counts(assembly: Assembly) -> Iterator[tuple[str, list[Any], list[Placed]]]:
    """Yield each slot that is the same for all pieces of a weight: its name, variables, and their places.

    If workers have such pieces, it is for the chief to restore those of all.
    """
    plan = assembly.plan
    is_chief = not isinstance(plan, WorkerPlan) or plan.worker.is_chief
    for weight in dict.fromkeys(each.weight for each in assembly.variables.values()):
        pieces = assembly.updated_of(weight)
        for suffix, slots in pieces[0].slots.items():
            for copy in range(len(slots)) if _is_count(pieces[0], slots[0]) else ():
                family = [slots[0], *(each.slots[suffix][copy] for each in pieces[1:])]
                places = [pieces[0].slot_place(0), *(each.slot_place(copy) for each in pieces[1:])]
                if is_chief or not any(plan.is_abroad(each.device) for each in places):
                    yield copy_name(f"{weight}/{suffix}/shard", copy), family, places


def _updated_here(assembly: Assembly, variable: GraphVariable) -> list[GraphVariable]:
    """Return what is updated of a variable, without the parts of other workers."""
    is_abroad = assembly.plan.is_abroad
    return [each for each in variable.updated if not is_abroad(each.slot_place(0).device)]


def _parts_of_weights(assembly: Assembly, scope: str, *, first: bool) -> Iterator[list[str]]:
    """Write what gives the parts that a worker updates the values that its weights have.

    These are what it sends after an update and, unless it has its first value, their average.

    Args:
        first: Whether the weights get their first values before.
    """
    for variable in assembly.variables.values():
        before = [variable.kept.first_assigned] if first else []
        for part in variable.parts_of_workers:
            if part.copy is None:
                continue
            at = Spot(assembly.ledger.writer("init"), f"{scope}/{part.name}", variable.beside())
            value = take_piece(at, at.waiting(before).read(variable.kept.tensor), part.shard)
            own = evolve(at, placed=part.beside())
            done = [own.assign(updated_part(assembly, own, part), value)]
            if part.average is not None and not first:
                done.append(evolve(at, placed=part.slot_place(0)).assign(part.average.tensor, value))
            yield done


def _all_of(assembly: Assembly, families: Sequence[Sequence[str]], name: str) -> Run:
    """Return an op beside the global step that waits for others.

    TensorFlow takes a time that grows with the square of the ops that one waits for. Those of another device,
    if there are many, are therefore joined there; a few would only make an op more. Families are counted, of
    which there are as many for any number of clones.

    Args:
        families: The names of the ops, those for the copies of one variable together.
    """
    writer, entries, home = assembly.ledger.writer("init"), assembly.ledger.entries, assembly.step_place
    by_device = gathered(
        each
        for family in families
        for each in gathered((entries[op].placed.device.ordinal, op) for op in family).items()
    )
    joined: list[str] = []
    for here in by_device.values():
        placed = entries[here[0][0]].placed
        if len(here) <= (MOST_AT_STEP if placed.device == home.device else MOST_ELSEWHERE):
            joined += (op for ops in here for op in ops)
            continue
        for first in range(0, len(here), MOST_AT_STEP):
            part = f"/{first // MOST_AT_STEP}" if len(here) > MOST_AT_STEP else ""
            waits = [op for ops in here[first : first + MOST_AT_STEP] for op in ops]
            joined.append(writer.after(f"{name}_parts/{placed.device.scope}{part}", waits, placed))
    return Run(writer.after(name, joined, home))


def _is_count(piece: GraphVariable, slot: Any) -> bool:
    """Whether a slot of a piece of a weight is the same for all pieces, such as a count of steps."""
    return piece.info.shard is not None and not _has_pieces(slot, piece.info.shard)
