"""A batch ahead for each tower on a GPU: while a step computes, the examples of the next are copied there.

Beside each tower there is a staging area. A step takes from it what the step before has put there, and puts
in the next batch. The first `put` is made when the data is attached.

No op ever waits until an area is filled, because that would hold a thread that the filling may need. With the
examples, a ticket is put last into an area on the host, and is taken first. If there is no ticket, the step
takes after its own putting, otherwise at the same time. Whatever is fetched of a tower therefore also puts
the next batch in. Whole numbers, as labels and indices are, and strings stay on the host with the tickets:
they are small, and look-ups of embeddings need indices beside the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from compiler.graph.ledger import Ledger
from compiler.plan import Plan, Tower, WorkerPlan
from compiler.reasons import Placed
from compiler.step.record import Run, Tensor
from compiler.step.writer import Spot

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
    ledger.let_wait(
        {
            asked.op: updates[min(clone, len(updates) - 1)].name
            for clone, asked in starts.items()
            if asked is not None
        }
    )
