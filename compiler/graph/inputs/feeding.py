"""From data to towers: the pipes of a graph, their devices, and the part of each tower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Any

from attrs import define, field, frozen

from compiler.graph.assembly import Assembly
from compiler.graph.inputs.iterators import InputPipe, cut_micro_batches, draw_batches, open_pipe, split_batch
from compiler.graph.ledger import Ledger
from compiler.plan import Plan, Tower, WorkerPlan
from compiler.reasons import Placed
from compiler.step.record import Run, Tensor
from compiler.step.writer import Spot
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


# --- batches that are copied to GPUs one step ahead -------------------------------------------------------
#
# Beside each tower there is a staging area. A step takes from it what the step before has put there, and puts
# in the next batch. The first `put` is made when the data is attached.
#
# No op ever waits until an area is filled, because that would hold a thread that the filling may need. With
# the examples, a ticket is put last into an area on the host, and is taken first. If there is no ticket,
# the step takes after its own putting, otherwise at the same time. Whatever is fetched of a tower therefore
# also puts the next batch in. Whole numbers, as labels and indices are, and strings stay on the host with
# the tickets: they are small, and look-ups of embeddings need indices beside the table.


HOST = frozenset({"int32", "int64", "uint32", "uint64", "string"})


@frozen
class Staged:
    """The staged batch of a tower.

    Attributes:
        piece: The tensors that the tower uses instead of its piece.
        put: The op that puts the next batch in.
        clears: The ops that empty the areas.
    """

    piece: Mapping[str, Tensor]
    put: Run
    clears: tuple[Run, ...]


@frozen
class _Area:
    """A staging area for tensors of given types and shapes; TensorFlow finds it by `name` on its device."""

    name: str
    tensors: Mapping[str, Tensor]
    at: Spot

    @property
    def dtypes(self) -> list[str]:
        return [each.dtype for each in self.tensors.values()]

    def put(self, after: Sequence[str] = ()) -> str:
        at, own = self.at.waiting(after), self.at.name("put")
        at.writer.write("Stage", own, self.tensors.values(), at.placed, self._told)
        return own

    def take(self, after: str) -> dict[str, Tensor]:
        at, made = self.at.waiting([after]), [(each.dtype, each.shape) for each in self.tensors.values()]
        taken = at.writer.write("Unstage", at.name("take"), (), at.placed, self._told, made=made)
        return dict(zip(self.tensors, taken, strict=True))

    def clear(self) -> Run:
        return Run(self.at.run("StageClear", "clear", **self._told))

    def is_filled(self) -> Tensor:
        return self.at.op("Greater", "Greater", *self.at.op("StageSize", "size", **self._told), 0)[0]

    @property
    def _told(self) -> Mapping[str, Any]:
        return {"dtypes": self.dtypes, "shared_name": self.name}


def is_staged(plan: Plan, tower: Tower, source: Placed, piece: Mapping[str, Tensor]) -> bool:
    """Whether a tower gains by a batch ahead: it is on a GPU, and there is something to copy.

    Workers with graphs of their own do their steps in several runs, and have no batch ahead.
    """
    away = tower.device.kind == "gpu" and source.device != tower.device
    alone = not isinstance(plan, WorkerPlan)
    return away and alone and any(each.dtype not in HOST for each in piece.values())


def stage(tower: Tower, source: Placed, piece: Mapping[str, Tensor], ledger: Ledger) -> Staged:
    """Put staging areas between a tower and its piece."""
    scope, name = tower.op_name("input"), f"tfdeploy/clone_{tower.number}"
    writer, ticket = ledger.writer("input"), "ticket"
    on_host = Spot(writer, f"{scope}/tickets", source)
    beside = Spot(writer.on("input", tower.index), f"{scope}/ahead", Placed(tower.device, tower.reason))
    host = {key: each for key, each in piece.items() if each.dtype in HOST}
    host[ticket] = writer.constant(on_host.name(ticket), True, "bool", source)
    tickets = _Area(f"{name}/tickets", host, on_host)
    away = {key: each for key, each in piece.items() if each.dtype not in HOST}
    ahead = _Area(f"{name}/ahead", away, beside)
    put = tickets.put([ahead.put()])
    taken = tickets.take(_ready(tickets, put).op)
    clears = [tickets.clear()]
    taken |= ahead.take(taken[ticket].op)
    clears.append(ahead.clear())
    return Staged({key: taken[key] for key in piece}, Run(put), tuple(clears))


def _ready(tickets: _Area, put: str) -> Tensor:
    """Return a tensor that exists at once if there is a ticket, and else after `put`."""
    at, filled = tickets.at, tickets.is_filled()
    empty, full = at.op("Switch", "has_one", filled, filled)
    (refilled,) = at.waiting([put]).op("Identity", "refilled", empty)
    return at.op("Merge", "ready", full, refilled)[0]


def time_after(ledger: Ledger, starts: Mapping[int, Tensor | None], updates: Sequence[Run]) -> None:
    """Let the measured waiting begin when the update of a clone is done: no time is lost before that.

    Args:
        ledger: The ledger of the graph.
        starts: When each clone asks for its batch, or None if that is not measured.
        updates: The updates of the clones, or one for all.
    """
    ends = {clone: updates[min(clone, len(updates) - 1)].name for clone in starts}
    ledger.let_wait({asked.op: ends[clone] for clone, asked in starts.items() if asked is not None})
