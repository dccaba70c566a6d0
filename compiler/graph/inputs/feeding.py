"""From data to towers: the pipes of a graph, their devices, and the part of each tower.

One stream is split among all clones of a host. If the clones are on several hosts, each host reads its own
shard of the data. With `per_clone = shard`, each clone does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.assembly import Assembly
from compiler.graph.inputs.iterators import InputPipe, cut_micro_batches, draw_batches, open_pipe, split_batch
from compiler.graph.inputs.staging import is_staged, stage
from compiler.plan import Plan, Tower, WorkerPlan
from compiler.reasons import Placed
from compiler.topology import Device

Piece = Mapping[str, tf.Tensor]


@frozen
class _Group:
    """Towers that are fed from one pipe; `shard` is (index, of how many) if it reads a part of the data."""

    placed: Placed
    towers: Sequence[Tower]
    shard: tuple[int, int] | None = None


@define
class Feeds:
    """All pipes of a graph.

    Attributes:
        pipes: The pipes.
        pieces: For each tower, its part of a batch.
        waits: For each tower, the seconds that it waited for its batch, or None if they are not measured.
        ahead: The towers whose next batch is copied to their device ahead.
    """

    pipes: list[InputPipe] = field(factory=list)
    pieces: dict[int, Piece] = field(factory=dict)
    waits: dict[int, tf.Tensor | None] = field(factory=dict)
    ahead: list[int] = field(factory=list)


def feed_towers(assembly: Assembly) -> Feeds:
    """Make the pipes of a graph, and split their batches among the towers."""
    plan, feeds = assembly.plan, Feeds()
    for number, group in enumerate(_groups(assembly)):
        sizes = [tower.batch * plan.micro_batches for tower in group.towers]
        size = gcd(*sizes) if plan.clones_update_alone else sum(sizes)
        name = f"input/{number}" if number else "input"
        pipe = open_pipe(plan.model.inputs, size, group.placed, assembly.ledger, name, timed=True)
        pipe.shard, pipe.examples = group.shard, sum(sizes)
        pieces = draw_batches(pipe, sizes) if plan.clones_update_alone else split_batch(pipe, sizes)
        if plan.micro_batches > 1:
            pieces = [
                cut_micro_batches(pipe, at, piece, plan.micro_batches) for at, piece in enumerate(pieces)
            ]
        feeds.pipes.append(pipe)
        for at, (tower, piece) in enumerate(zip(group.towers, pieces, strict=True)):
            feeds.pieces[tower.index] = _ahead(assembly, feeds, pipe, tower, piece)
            feeds.waits[tower.index] = pipe.waits[min(at, len(pipe.waits) - 1)] if pipe.waits else None
    return feeds


def _ahead(assembly: Assembly, feeds: Feeds, pipe: InputPipe, tower: Tower, piece: Piece) -> Piece:
    """Return the batch of a tower: its piece, or what was copied to its device in the step before."""
    if not is_staged(assembly.plan, tower, pipe.placed, piece):
        return piece
    staged = stage(tower, pipe.placed, piece, assembly.ledger)
    pipe.puts.append(staged.put)
    pipe.clears += staged.clears
    feeds.ahead.append(tower.index)
    return staged.piece


def _groups(assembly: Assembly) -> list[_Group]:
    """Return the groups of towers that are fed from one pipe, in the order of their first tower."""
    plan, book = assembly.plan, assembly.rulebook
    if plan.spec.data is not None and plan.spec.data.per_clone == "shard":
        count = len(plan.all_towers)
        return [_Group(book.inputs(tower), [tower], _part(tower.number, count)) for tower in plan.towers]
    if isinstance(plan, WorkerPlan):
        shard = _part(plan.worker.index, plan.worker.count)
        return [_Group(book.inputs(), plan.towers, shard)]
    by_device: dict[Device, list[Tower]] = {}
    for tower in plan.towers:
        by_device.setdefault(book.inputs(tower).device, []).append(tower)
    if not _several_hosts(plan) or not _even(list(by_device.values())):
        return [_Group(book.inputs(), plan.towers)]
    return [
        _Group(book.inputs(towers[0]), towers, _part(number, len(by_device)))
        for number, towers in enumerate(by_device.values())
    ]


def _several_hosts(plan: Plan) -> bool:
    return len({tower.device.host for tower in plan.towers}) > 1


def _even(groups: Sequence[Sequence[Tower]]) -> bool:
    """Whether all groups take equally many examples in a step, so that equal shards last equally long."""
    return len({sum(tower.batch for tower in towers) for towers in groups}) == 1


def _part(index: int, count: int) -> tuple[int, int] | None:
    return (index, count) if count > 1 else None
