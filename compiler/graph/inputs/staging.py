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

import tensorflow as tf
from attrs import frozen

from compiler.graph.adapters.tensorflow_private import add_control_input
from compiler.graph.ledger import Ledger
from compiler.plan import Plan, Tower, WorkerPlan
from compiler.reasons import Placed

HOST = frozenset({tf.int32, tf.int64, tf.uint32, tf.uint64, tf.string})


@frozen
class Staged:
    """The staged batch of a tower.

    Attributes:
        piece: The tensors that the tower uses instead of its piece.
        put: The op that puts the next batch in.
        clears: The ops that empty the areas.
    """

    piece: Mapping[str, tf.Tensor]
    put: tf.Operation
    clears: tuple[tf.Operation, ...]


@frozen
class _Area:
    """A staging area for tensors of given types and shapes; TensorFlow finds it by `name` on its device."""

    name: str
    tensors: Mapping[str, tf.Tensor]

    @property
    def dtypes(self) -> list[tf.DType]:
        return [each.dtype for each in self.tensors.values()]

    def put(self) -> tf.Operation:
        return tf.raw_ops.Stage(values=list(self.tensors.values()), shared_name=self.name, name="put")

    def take(self) -> dict[str, tf.Tensor]:
        taken = tf.raw_ops.Unstage(dtypes=self.dtypes, shared_name=self.name, name="take")
        for given, wanted in zip(taken, self.tensors.values(), strict=True):
            given.set_shape(wanted.shape)
        return dict(zip(self.tensors, taken, strict=True))

    def clear(self) -> tf.Operation:
        return tf.raw_ops.StageClear(dtypes=self.dtypes, shared_name=self.name, name="clear")

    def is_filled(self) -> tf.Tensor:
        return tf.raw_ops.StageSize(dtypes=self.dtypes, shared_name=self.name, name="size") > 0


def is_staged(plan: Plan, tower: Tower, source: Placed, piece: Mapping[str, tf.Tensor]) -> bool:
    """Whether a tower gains by a batch ahead: it is on a GPU, and there is something to copy.

    Workers with graphs of their own do their steps in several runs, and have no batch ahead.

    Args:
        plan: The plan.
        tower: The tower.
        source: The place of the piece.
        piece: The tensors of the inputs by name.
    """
    away = tower.device.kind == "gpu" and source.device != tower.device
    alone = not isinstance(plan, WorkerPlan)
    return away and alone and any(each.dtype not in HOST for each in piece.values())


def stage(tower: Tower, source: Placed, piece: Mapping[str, tf.Tensor], ledger: Ledger) -> Staged:
    """Put staging areas between a tower and its piece.

    Args:
        tower: The tower.
        source: The place of the piece.
        piece: The tensors of the inputs by name.
        ledger: The ledger of the graph.
    """
    scope, name = tower.op_name("input"), f"tfdeploy/clone_{tower.number}"
    beside, ticket = Placed(tower.device, tower.reason), "ticket"
    with ledger.place(source, "input"), tf.name_scope(f"{scope}/tickets/"):
        host = {key: each for key, each in piece.items() if each.dtype in HOST}
        tickets = _Area(f"{name}/tickets", {**host, ticket: tf.constant(True, name=ticket)})
    ahead = _Area(f"{name}/ahead", {key: each for key, each in piece.items() if each.dtype not in HOST})
    with ledger.place(beside, "input", tower.index), tf.name_scope(f"{scope}/ahead/"):
        filling = ahead.put()
    with ledger.place(source, "input"), tf.name_scope(f"{scope}/tickets/"):
        with tf.control_dependencies([filling]):
            put = tickets.put()
        with tf.control_dependencies([_ready(tickets, put)]):
            taken = tickets.take()
        clears = [tickets.clear()]
    with ledger.place(beside, "input", tower.index), tf.name_scope(f"{scope}/ahead/"):
        with tf.control_dependencies([taken[ticket]]):
            taken |= ahead.take()
        clears.append(ahead.clear())
    return Staged({key: taken[key] for key in piece}, put, tuple(clears))


def _ready(tickets: _Area, put: tf.Operation) -> tf.Tensor:
    """Return a tensor that exists at once if there is a ticket, and else after `put`."""
    filled = tickets.is_filled()
    empty, full = tf.raw_ops.Switch(data=filled, pred=filled, name="has_one")
    with tf.control_dependencies([put]):
        refilled = tf.identity(empty, name="refilled")
    return tf.raw_ops.Merge(inputs=[full, refilled], name="ready")[0]


def time_after(waits: Mapping[int, tf.Tensor | None], updates: Sequence[tf.Operation]) -> None:
    """Let the measured waiting begin when the update of a clone is done: no time is lost before that.

    Args:
        waits: The seconds that each clone waits, or None if they are not measured.
        updates: The updates of the clones, or one for all.
    """
    for clone, waited in waits.items():
        if waited is not None:
            asked, done = waited.op.inputs[1].op, updates[min(clone, len(updates) - 1)]
            if done not in asked.control_inputs:
                add_control_input(asked, done)
