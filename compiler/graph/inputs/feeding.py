"""From data to towers: the pipes of a graph, their devices, and the part of each tower."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from attrs import define, field

from compiler.graph.assembly import Assembly
from compiler.graph.inputs.iterators import InputPipe, cut_micro_batches, draw_batches, open_pipe, split_batch
from compiler.graph.inputs.staging import is_staged, stage
from compiler.plan import Tower
from compiler.step.record import Tensor
from compiler.towers import name_of, readers_of

Piece = Mapping[str, Tensor]


@define
class Feeds:
    """All pipes of a graph.

    Attributes:
        pipes: The pipes.
        pieces: For each tower, its part of a batch.
        waits: For each tower, the seconds that it waited for its batch, or None if they are not measured.
        ahead: For each tower whose next batch is copied to its device ahead, when it asks for a batch; None
            if that is not measured.
    """

    pipes: list[InputPipe] = field(factory=list)
    pieces: dict[int, Piece] = field(factory=dict)
    waits: dict[int, Tensor | None] = field(factory=dict)
    ahead: dict[int, Tensor | None] = field(factory=dict)


def feed_towers(assembly: Assembly) -> Feeds:
    """Make the pipes of a graph, and split their batches among the towers."""
    plan, feeds = assembly.plan, Feeds()
    for number, group in enumerate(readers_of(plan)):
        sizes = [tower.batch * plan.micro_batches for tower in group.towers]
        size = gcd(*sizes) if plan.clones_update_alone else sum(sizes)
        name = f"input/{number}" if number else "input"
        pipe = open_pipe(plan.model.inputs, size, group.placed, assembly.ledger, name, timed=True)
        pipe.shard, pipe.reader, pipe.examples = group.shard, name_of(group, plan), sum(sizes)
        pieces = draw_batches(pipe, sizes) if plan.clones_update_alone else split_batch(pipe, sizes)
        if plan.micro_batches > 1:
            pieces = [
                cut_micro_batches(pipe, at, piece, plan.micro_batches) for at, piece in enumerate(pieces)
            ]
        feeds.pipes.append(pipe)
        for at, (tower, piece) in enumerate(zip(group.towers, pieces, strict=True)):
            asked, waited = pipe.asks[min(at, len(pipe.asks) - 1)] if pipe.asks else (None, None)
            feeds.pieces[tower.index] = _ahead(assembly, feeds, pipe, tower, piece, asked)
            feeds.waits[tower.index] = waited
    return feeds


def _ahead(
    assembly: Assembly, feeds: Feeds, pipe: InputPipe, tower: Tower, piece: Piece, asked: Tensor | None
) -> Piece:
    """Return the batch of a tower: its piece, or what was copied to its device in the step before."""
    if not is_staged(assembly.plan, tower, pipe.placed, piece):
        return piece
    staged = stage(tower, pipe.placed, piece, assembly.ledger)
    pipe.puts.append(staged.put)
    pipe.clears += staged.clears
    feeds.ahead[tower.index] = asked
    return staged.piece
