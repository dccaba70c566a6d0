"""The state that workers with graphs of their own share: variables beside the global step, and ops on them.

The workers do not communicate with each other. Each reads and changes a few numbers on the task of the global
step, in runs that use that task alone, so that a worker may be lost between any two of them. A `generation`
is the time between two openings by the chief. What a worker does for an earlier generation does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import tensorflow as tf
from attrs import evolve, field, frozen

from compiler.compatibility import changing_job
from compiler.graph.fragments import write_traced
from compiler.graph.ledger import Ledger
from compiler.graph.update.apply import take_turn
from compiler.graph.variables.variables import create_variable
from compiler.plan import WorkerPlan
from compiler.reasons import Placed
from compiler.step.record import Run, Tensor
from compiler.step.writer import Spot

SCOPE = "cluster"
CLOSED, OPEN, FINISHED = 0, 1, 2
SINGLE = ("generation", "phase", "lost", "tick", "global_step", "examples", "begun", "limit")
PER_WORKER = ("claimed", "done", "life", "arrived", "left")
NEVER = -1


@frozen
class State:
    """The numbers at one moment."""

    generation: int
    phase: int  # CLOSED, OPEN or FINISHED
    lost: int  # the generation in which a worker has found that variables are lost
    tick: int  # in sync, a number that changes with every step
    global_step: int
    examples: int  # the examples of all steps so far
    begun: int  # in async, the number of updates that have been claimed
    limit: int  # in async, the most updates that may be claimed
    claimed: tuple[int, ...]  # in async, the updates that each worker has claimed
    done: tuple[int, ...]  # in async, the updates that each worker has made
    life: tuple[int, ...]  # in async, a number for each worker that changes when its claims are revoked
    arrived: tuple[int, ...]  # in sync, for each worker, the tick of its newest gradient
    left: tuple[int, ...]  # for each worker, whether it has ended

    @classmethod
    def of(cls, numbers: Sequence[int]) -> State:
        """Return the state from the values of `Coordination.state`."""
        return cls(*parted(numbers, SINGLE, PER_WORKER))


def parted(numbers: Sequence[int], single: Sequence[str], vectors: Sequence[str]) -> Iterator[Any]:
    """Yield what `Table.read_all` has read: the single numbers, and a tuple for each of the vectors."""
    count = len(single)
    size = (len(numbers) - count) // len(vectors)
    yield from map(int, numbers[:count])
    for at in range(len(vectors)):
        yield tuple(map(int, numbers[count + at * size : count + (at + 1) * size]))


@frozen
class Coordination:
    """The ops on the shared state in one worker's graph."""

    placed: Placed
    mine: Any = field(repr=False)  # a placeholder for the generation and the life in which the worker works
    given: Any = field(repr=False)  # a placeholder for the arguments of an op of the chief
    state: Any = field(repr=False)  # a vector that `State.of` reads
    # Claims an update if one may be claimed. The result is 1 or 0, followed by the state.
    claim: Any = field(repr=False)
    # Begins a new life of the worker, and gives back what it claimed in the one before.
    join: Any = field(repr=False)
    leave: Any = field(repr=False)
    lose: Any = field(repr=False)  # sets that variables of the generation are lost
    announce: Any = field(repr=False)  # chief, [generation]: stops all other workers
    open: Any = field(repr=False)  # chief, [generation, step, examples]: lets them continue from a step
    allow: Any = field(repr=False)  # chief, [limit]: lets updates be claimed up to a number
    freeze: Any = field(repr=False)  # chief: lets no further update be claimed
    revoke: Any = field(repr=False)  # chief, [worker]: does for another worker what `join` does
    end: Any = field(repr=False)  # chief: sets that training is over
    table: Table = field(repr=False)

    @classmethod
    def build(cls, global_step: Any, placed: Placed, ledger: Ledger, plan: WorkerPlan) -> Coordination:
        """Make the variables and ops for the worker of a plan."""
        table = Table.create({"global_step": global_step}, placed, ledger, plan)
        mine, given, generation, first, second, third = write_traced(table.at(""), _arguments)
        table = evolve(table, mine=mine)
        return cls(
            placed,
            mine,
            given,
            table.read_all("state"),
            table.claim("claim"),
            Run(table.renew("join", table.worker)),
            Run(table.set_own("left", 1, "leave")),
            Run(table.write("lose", [("lost", generation)])),
            Run(table.write("announce", [("generation", first), ("phase", CLOSED)])),
            Run(table.open(first, second, third)),
            Run(table.write("allow", [("limit", first)])),
            Run(table.freeze()),
            Run(table.renew("revoke", first)),
            Run(table.write("end", [("phase", FINISHED)])),
            table,
        )


@frozen
class Table:
    """The variables, and the parts of which the ops are made."""

    variables: dict[str, Any] = field(repr=False)
    placed: Placed
    ledger: Ledger = field(repr=False)
    worker: int
    workers: int
    batch: int  # the examples of an update of the worker
    staleness: int | None = None  # how far a worker may be ahead of the slowest one, or None for any distance
    mine: Any = field(default=None, repr=False)
    # The names of those that are one number, and of those that have a number for each worker.
    names: tuple[tuple[str, ...], tuple[str, ...]] = (SINGLE, PER_WORKER)

    @classmethod
    def create(
        cls,
        known: Mapping[str, Any],
        placed: Placed,
        ledger: Ledger,
        plan: WorkerPlan,
        names: tuple[tuple[str, ...], tuple[str, ...]] = (SINGLE, PER_WORKER),
    ) -> Table:
        """Make the variables, except those that are known."""
        worker, made, job = plan.worker, {**known}, changing_job(plan.spec)
        places = worker.count if job is None else job.tasks
        for name in (*names[0], *names[1]):
            if name not in made:
                shape = () if name in names[0] else (places,)
                made[name] = create_variable(
                    f"{SCOPE}/{name}", partial(tf.zeros, shape, tf.int64), placed, ledger
                )
        own = worker.slots[worker.index]
        found = (made, placed, ledger, own, places, plan.step_batch, plan.update.staleness)
        return cls(*found, names=names)

    @property
    def handles(self) -> dict[str, Tensor]:
        """The handles of the variables by name."""
        return {name: each.tensor for name, each in self.variables.items()}

    def at(self, name: str, after: Sequence[str] = ()) -> Spot:
        """Return where ops are written beside the variables, after other ops.

        Args:
            name: The name scope of the ops inside that of the table; an empty one means that of the table
                itself.
        """
        scope = f"{SCOPE}/{name}" if name else SCOPE
        return Spot(self.ledger.writer("update"), scope, self.placed).waiting(after)

    def call(self, at: Spot, function: Callable[..., Any], *given: Any, **fixed: Any) -> Any:
        """Write the ops of a function of the handles of the variables by name, as `write_traced` does."""
        return write_traced(at, function, self.handles, *given, **fixed)

    def set_own(self, name: str, value: Any, scope: str, after: Sequence[str] = ()) -> str:
        """Write an op that sets the worker's own element of a vector; return its name."""
        return self.call(self.at(scope, after), _set, value, name=name, worker=self.worker)

    def write(self, scope: str, values: Sequence[tuple[str, Any]]) -> str:
        """Write ops that give variables values, one after the other.

        Args:
            values: The names of variables and their values, in the order in which they are written; at least
                one. A value is a scalar, which a vector gets for all workers.

        Returns:
            The name of the op that writes the last one, and so runs after all others.
        """
        last: list[str] = []
        for name, value in values:
            shape = () if name in self.names[0] else (self.workers,)
            last = [self.call(self.at(scope, last), _assign, value, name=name, shape=shape)]
        return last[0]

    def read_all(self, scope: str, after: Sequence[str] = (), first: Sequence[Tensor] = ()) -> Tensor:
        """Write what reads all numbers as one vector, after those of `first`.

        Args:
            after: The names of ops that run before.
            first: Scalars with which the vector begins, of dtype int64.

        Returns:
            An int64 vector: those of `first`, the single numbers, and the vectors with an element for each
            worker.
        """
        return self.call(self.at(scope, after), _all_numbers, first, names=self.names)

    def open(self, generation: Tensor, step: Tensor, examples: Tensor) -> str:
        """Write what begins a generation at a step; return the name of the op that ends it."""
        return self.write(
            "open",
            [
                ("generation", generation),
                ("lost", 0),
                ("global_step", step),
                ("examples", examples),
                ("begun", step),
                ("limit", step),
                ("claimed", 0),
                ("done", 0),
                ("life", 0),
                ("arrived", NEVER),
                ("left", 0),
                ("tick", generation),
                ("phase", OPEN),
            ],
        )

    def claim(self, scope: str, after: Sequence[str] | None = None) -> Tensor:
        """Write [1 or 0, *state]: whether the worker may begin an update. Other claims wait meanwhile.

        Args:
            after: The names of the ops that end an update of the worker, which is then counted as done,
                unless its generation is over; None if no update has been made.
        """
        turn = take_turn(self.at(scope, after or ()), SCOPE, contested=True)
        current = self.call(self.at(scope, turn.taken), _is_current, self.mine, worker=self.worker)
        counted = [] if after is None else self.count(scope, current)
        claiming = self.at(scope, counted or turn.taken)
        told = {"worker": self.worker, "staleness": self.staleness}
        one, *counted = self.call(claiming, _claim, current, **told)
        numbers = self.read_all(scope, counted, [one])
        ended = turn.ended(numbers.op)
        return self.at(scope, [ended]).op("Identity", "claimed", numbers)[0]

    def count(self, scope: str, current: Tensor) -> list[str]:
        """Write what counts an update of the worker as done if its generation is the current one.

        Args:
            current: Whether the generation is the current one, a scalar bool. If it is not, zeros are added.

        Returns:
            The names of the ops that end it.
        """
        one = self.at(scope).cast(current, "int64")
        step = self.step(self.at(scope), one)
        return [self.call(self.at(scope, step), _add, one, name="done", worker=self.worker)]

    def step(self, at: Spot, one: Tensor) -> list[str]:
        """Write what counts a step and its examples if the int64 scalar `one` is 1; return the ops' names."""
        return self.call(at, _count, one, batch=self.batch)

    def renew(self, scope: str, worker: Any) -> str:
        """Write what begins a new life of a worker, and gives back its unused claims; return the last op."""
        turn = take_turn(self.at(scope), SCOPE, contested=True)
        back = self.call(self.at(scope, turn.taken), _give_back, worker)
        return turn.ended(*back, self.at(scope, back).run("NoOp", "NoOp"))

    def bell(self, worker: int) -> Tensor:
        """Write the handle of the queue by which others wake a worker that waits for them."""
        name, kind = f"bell/worker_{worker}", {"component_types": ["int64"], "shapes": [()]}
        return self.at(name).op("FIFOQueueV2", "queue", shared_name=f"{SCOPE}/{name}", **kind)[0]

    def ring(self, worker: int, after: Sequence[str] = (), arrived: int = 0) -> str:
        """Write what wakes a worker, after other ops; return the name of the op that ends it.

        A bell that was rung, and has not been heard, is not rung again.

        Args:
            arrived: Of how many workers the gradients of the present step must have arrived; if they have
                not, nothing is done.
        """
        at = self.at(f"bell/worker_{worker}", after)
        return self.call(at, _ring, self.bell(worker), arrived=arrived)

    def hear(self, scope: str, after: Sequence[str] = ()) -> Tensor:
        """Write what waits until the bell of the worker is rung; its result is zero."""
        bell, at = self.bell(self.worker), self.at(scope, after)
        return at.op("QueueDequeueV2", "heard", bell, component_types=["int64"])[0]

    def forget(self, scope: str, after: Sequence[str]) -> str:
        """Write what hears the bell of the worker if it was rung before; return its name."""
        return self.call(self.at(scope, after), _forget, self.bell(self.worker))

    def require(self, scope: str, arrived: int) -> tuple[Tensor, str]:
        """Write what fails if the gradients of the present step have not come.

        Args:
            arrived: Of how many workers they must have arrived.

        Returns:
            A placeholder, with which nothing is required as long as it is not zero, and the name of what
            fails.
        """
        return self.call(self.at(scope), _require, arrived=arrived)

    def freeze(self) -> str:
        """Write the op after which no update can be claimed; return its name."""
        turn = take_turn(self.at("freeze"), SCOPE, contested=True)
        limit = self.call(self.at("freeze", turn.taken), _freeze)
        return turn.ended(limit)


# --- functions of TensorFlow, of the handles of the variables by name -------------------------------------

_Handles = Mapping[str, tf.Tensor]


def _arguments() -> tuple[tf.Tensor, ...]:
    mine = tf.compat.v1.placeholder_with_default(tf.constant([0, 0], tf.int64), (2,), name="mine")
    given = tf.compat.v1.placeholder_with_default(tf.constant([0, 0, 0], tf.int64), (3,), name="given")
    arguments = tf.unstack(given)
    generation, _ = tf.unstack(mine)
    return mine, given, generation, *arguments


def _read(handles: _Handles, name: str) -> tf.Tensor:
    return tf.raw_ops.ReadVariableOp(resource=handles[name], dtype=tf.int64)


def _have_come(handles: _Handles, arrived: int) -> tf.Tensor:
    """Return whether the gradients of at least `arrived` workers for the present step have come."""
    present = tf.equal(_read(handles, "arrived"), _read(handles, "tick"))
    return tf.reduce_sum(tf.cast(present, tf.int32)) >= arrived


def _forget(_: _Handles, bell: tf.Tensor) -> tf.Operation:
    rung = tf.raw_ops.QueueSizeV2(handle=bell)
    return tf.raw_ops.QueueDequeueManyV2(handle=bell, n=rung, component_types=[tf.int64])[0].op


def _require(handles: _Handles, arrived: int) -> tuple[tf.Tensor, tf.Operation]:
    came = tf.compat.v1.placeholder_with_default(tf.constant(1, tf.int64), (), name="came")
    known = tf.not_equal(came, 0)
    with tf.control_dependencies([known]):
        return came, tf.raw_ops.Assert(condition=known | _have_come(handles, arrived), data=[came])


def _ring(handles: _Handles, bell: tf.Tensor, arrived: int) -> tf.Operation:
    rings = tf.equal(tf.raw_ops.QueueSizeV2(handle=bell), 0)
    if arrived:
        rings &= _have_come(handles, arrived)
    once = tf.zeros([tf.cast(rings, tf.int32)], tf.int64)
    return tf.raw_ops.QueueEnqueueManyV2(handle=bell, components=[once])


def _assign(handles: _Handles, value: Any, name: str, shape: tuple[int, ...] = ()) -> tf.Operation:
    value = tf.broadcast_to(tf.cast(value, tf.int64), shape)
    return tf.raw_ops.AssignVariableOp(resource=handles[name], value=value)


def _set(handles: _Handles, value: Any, name: str, worker: int) -> tf.Operation:
    return tf.raw_ops.ResourceScatterUpdate(
        resource=handles[name], indices=[worker], updates=[tf.cast(value, tf.int64)]
    )


def _add(handles: _Handles, value: tf.Tensor, name: str, worker: Any) -> tf.Operation:
    """Add to a worker's element of a vector."""
    return tf.raw_ops.ResourceScatterAdd(resource=handles[name], indices=[worker], updates=[value])


def _all_numbers(
    handles: _Handles, first: Sequence[tf.Tensor], names: tuple[tuple[str, ...], tuple[str, ...]]
) -> tf.Tensor:
    single = tf.stack([*first, *(_read(handles, each) for each in names[0])])
    return tf.concat([single, *(_read(handles, each) for each in names[1])], 0, name="numbers")


def _is_current(handles: _Handles, mine: tf.Tensor, worker: int) -> tf.Tensor:
    """Return whether the worker's generation and life are the current ones."""
    same = tf.equal(_read(handles, "generation"), mine[0])
    return same & tf.equal(_read(handles, "life")[worker], mine[1])


def _claim(
    handles: _Handles, current: tf.Tensor, worker: int, staleness: int | None
) -> tuple[tf.Tensor, tf.Operation, tf.Operation]:
    """Return one if an update may begin, else zero, and the ops that count it."""
    fine = current & tf.equal(_read(handles, "phase"), OPEN)
    fine &= _read(handles, "begun") < _read(handles, "limit")
    if staleness is not None:
        done = _read(handles, "done")
        fine &= done[worker] + 1 - tf.reduce_min(done) <= staleness
    one = tf.cast(fine, tf.int64)
    begun = tf.raw_ops.AssignAddVariableOp(resource=handles["begun"], value=one)
    return one, begun, _add(handles, one, "claimed", worker)


def _count(handles: _Handles, one: tf.Tensor, batch: int) -> list[tf.Operation]:
    step, examples = handles["global_step"], handles["examples"]
    return [
        tf.raw_ops.AssignAddVariableOp(resource=step, value=one, name="train_step"),
        tf.raw_ops.AssignAddVariableOp(resource=examples, value=one * batch),
    ]


def _give_back(handles: _Handles, worker: Any) -> list[tf.Operation]:
    lost = _read(handles, "claimed")[worker] - _read(handles, "done")[worker]
    return [
        tf.raw_ops.AssignSubVariableOp(resource=handles["begun"], value=lost),
        _add(handles, -lost, "claimed", worker),
        _add(handles, tf.constant(1, tf.int64), "life", worker),
    ]


def _freeze(handles: _Handles) -> tf.Operation:
    limit = tf.minimum(_read(handles, "limit"), _read(handles, "begun"))
    return _assign(handles, limit, "limit")
