"""The state that workers with graphs of their own share: variables beside the global step, and ops on them.

The workers do not communicate with each other. Each reads and changes a few numbers on the task of the global
step, in runs that use that task alone, so that a worker may be lost between any two of them. A `generation`
is the time between two openings by the chief. What a worker does for an earlier generation does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from attrs import evolve, field, frozen

from compiler.graph.ledger import Ledger
from compiler.graph.update.variable.mutex import take_turn
from compiler.graph.variables.variables import create_variable
from compiler.plan import WorkerPlan
from compiler.reasons import Placed

SCOPE = "cluster"
CLOSED, OPEN, FINISHED = 0, 1, 2
SINGLE = ("generation", "phase", "lost", "tick", "global_step", "examples", "begun", "limit")
PER_WORKER = ("claimed", "done", "life", "arrived", "left")
NEVER = -1


@frozen
class State:
    """The numbers at one moment.

    Attributes:
        generation: The number of the generation.
        phase: CLOSED, OPEN or FINISHED.
        lost: The generation in which a worker has found that variables are lost.
        tick: In sync, a number that changes with every step.
        global_step: The global step.
        examples: The examples of all steps so far.
        begun: In async, the number of updates that have been claimed.
        limit: In async, the most updates that may be claimed.
        claimed: In async, the updates that each worker has claimed.
        done: In async, the updates that each worker has made.
        life: In async, a number for each worker that changes when its claims are revoked.
        arrived: In sync, for each worker, the tick of its newest gradient.
        left: For each worker, whether it has ended.
    """

    generation: int
    phase: int
    lost: int
    tick: int
    global_step: int
    examples: int
    begun: int
    limit: int
    claimed: tuple[int, ...]
    done: tuple[int, ...]
    life: tuple[int, ...]
    arrived: tuple[int, ...]
    left: tuple[int, ...]

    @classmethod
    def of(cls, numbers: Sequence[int]) -> State:
        """Return the state from the values of `Coordination.state`."""
        values = [int(each) for each in numbers]
        generation, phase, lost, tick, global_step, examples, begun, limit, *rest = values
        size = len(rest) // len(PER_WORKER)
        vectors = [tuple(rest[at * size : (at + 1) * size]) for at in range(len(PER_WORKER))]
        return cls(generation, phase, lost, tick, global_step, examples, begun, limit, *vectors)


@frozen
class Coordination:
    """The ops on the shared state in one worker's graph.

    Attributes:
        placed: The place of the variables.
        mine: A placeholder for the generation and the life in which the worker works.
        given: A placeholder for the arguments of an op of the chief.
        state: A vector that `State.of` reads.
        claim: Claims an update if one may be claimed. The result is 1 or 0, followed by the state.
        join: Begins a new life of the worker, and gives back what it claimed in the one before.
        leave: Sets that the worker has ended.
        lose: Sets that variables of the generation are lost.
        announce: Chief, [generation]: stops all other workers.
        open: Chief, [generation, step, examples]: lets them continue from a step.
        allow: Chief, [limit]: lets updates be claimed up to a number.
        freeze: Chief: lets no further update be claimed.
        revoke: Chief, [worker]: does for another worker what `join` does.
        end: Chief: sets that training is over.
        table: The variables.
    """

    placed: Placed
    mine: tf.Tensor = field(repr=False)
    given: tf.Tensor = field(repr=False)
    state: tf.Tensor = field(repr=False)
    claim: tf.Tensor = field(repr=False)
    join: tf.Operation = field(repr=False)
    leave: tf.Operation = field(repr=False)
    lose: tf.Operation = field(repr=False)
    announce: tf.Operation = field(repr=False)
    open: tf.Operation = field(repr=False)
    allow: tf.Operation = field(repr=False)
    freeze: tf.Operation = field(repr=False)
    revoke: tf.Operation = field(repr=False)
    end: tf.Operation = field(repr=False)
    table: Table = field(repr=False)

    @classmethod
    def build(cls, global_step: Any, placed: Placed, ledger: Ledger, plan: WorkerPlan) -> Coordination:
        """Make the variables and ops for the worker of a plan.

        Args:
            global_step: The variable of the global step.
            placed: The place of the variables, that of the global step.
            ledger: The ledger of the graph.
            plan: The plan of the worker.
        """
        table = Table.create(global_step, placed, ledger, plan)
        with table.at(""):
            mine = tf.compat.v1.placeholder_with_default(tf.constant([0, 0], tf.int64), (2,), name="mine")
            given = tf.compat.v1.placeholder_with_default(
                tf.constant([0, 0, 0], tf.int64), (3,), name="given"
            )
            first, second, third = tf.unstack(given)
            generation, _ = tf.unstack(mine)
        table = evolve(table, mine=mine)
        return cls(
            placed,
            mine,
            given,
            table.read_all("state"),
            table.claim("claim"),
            table.renew("join", table.worker),
            table.set_own("left", 1, "leave"),
            table.write("lose", [("lost", generation)]),
            table.write("announce", [("generation", first), ("phase", CLOSED)]),
            table.open(first, second, third),
            table.write("allow", [("limit", first)]),
            table.freeze(),
            table.renew("revoke", first),
            table.write("end", [("phase", FINISHED)]),
            table,
        )


@frozen
class Table:
    """The variables, and the parts of which the ops are made.

    Attributes:
        variables: The variables by name.
        placed: Their place.
        ledger: The ledger of the graph.
        worker: The number of the worker.
        workers: The number of workers.
        batch: The examples of an update of the worker.
        staleness: How far a worker may be ahead of the slowest one, or None for any distance.
        mine: The placeholder for the generation and the life of the worker.
    """

    variables: dict[str, Any] = field(repr=False)
    placed: Placed
    ledger: Ledger = field(repr=False)
    worker: int
    workers: int
    batch: int
    staleness: int | None = None
    mine: Any = field(default=None, repr=False)

    @classmethod
    def create(cls, global_step: Any, placed: Placed, ledger: Ledger, plan: WorkerPlan) -> Table:
        """Make the variables, except the global step.

        Args:
            global_step: The variable of the global step.
            placed: The place of the variables.
            ledger: The ledger of the graph.
            plan: The plan of the worker.
        """
        worker = plan.worker
        made: dict[str, Any] = {"global_step": global_step}
        for name in (*SINGLE, *PER_WORKER):
            if name not in made:
                shape = () if name in SINGLE else (worker.count,)
                made[name] = create_variable(
                    f"{SCOPE}/{name}", lambda shape=shape: tf.zeros(shape, tf.int64), placed, ledger
                )
        return cls(made, placed, ledger, worker.index, worker.count, plan.step_batch, plan.update.staleness)

    @contextmanager
    def at(self, name: str, after: Sequence[Any] = ()) -> Iterator[None]:
        """Create ops beside the variables, after other ops.

        Args:
            name: The name scope of the ops inside that of the table; an empty one means that of the table
                itself.
            after: Ops and tensors for which the ops wait.
        """
        scope = f"{SCOPE}/{name}/" if name else f"{SCOPE}/"
        with (
            self.ledger.place(self.placed, "update"),
            tf.name_scope(scope),
            tf.control_dependencies(list(after)),
        ):
            yield

    def read(self, name: str) -> tf.Tensor:
        """Read a variable. Call it inside `at`."""
        return tf.raw_ops.ReadVariableOp(resource=self.variables[name].handle, dtype=tf.int64)

    def assign(self, name: str, value: Any) -> tf.Operation:
        """Give a variable a value. Call it inside `at`.

        Args:
            name: The name of the variable.
            value: The new value, a scalar, or of a vector also a vector of all workers. A scalar is given to
                all workers.
        """
        shape = () if name in SINGLE else (self.workers,)
        value = tf.broadcast_to(tf.cast(value, tf.int64), shape)
        return tf.raw_ops.AssignVariableOp(resource=self.variables[name].handle, value=value)

    def add_own(self, name: str, value: tf.Tensor) -> tf.Operation:
        """Add to the worker's own element of a vector. Call it inside `at`.

        Args:
            name: The name of the vector, which has an element for each worker.
            value: What is added, an int64 scalar.
        """
        return self.add(name, value, self.worker)

    def add(self, name: str, value: tf.Tensor, worker: Any) -> tf.Operation:
        """Add to a worker's element of a vector. Call it inside `at`.

        Args:
            name: The name of the vector, which has an element for each worker.
            value: What is added, an int64 scalar.
            worker: The number of the worker, an integer or a scalar tensor.
        """
        return tf.raw_ops.ResourceScatterAdd(
            resource=self.variables[name].handle, indices=[worker], updates=[value]
        )

    def set_own(self, name: str, value: Any, scope: str, after: Sequence[Any] = ()) -> tf.Operation:
        """Return an op that sets the worker's own element of a vector.

        Args:
            name: The name of the vector, which has an element for each worker.
            value: The new value, a scalar.
            scope: The name scope of the op.
            after: Ops that run before.
        """
        with self.at(scope, after):
            return tf.raw_ops.ResourceScatterUpdate(
                resource=self.variables[name].handle,
                indices=[self.worker],
                updates=[tf.cast(value, tf.int64)],
            )

    def write(self, scope: str, values: Sequence[tuple[str, Any]]) -> tf.Operation:
        """Return an op that gives variables values, one after the other.

        Args:
            scope: The name scope of the ops.
            values: The names of variables and their values, in the order in which they are written; at least
                one.

        Returns:
            The op that writes the last one, and so runs after all others.
        """
        last: list[tf.Operation] = []
        for name, value in values:
            with self.at(scope, last):
                last = [self.assign(name, value)]
        return last[0]

    def read_all(self, scope: str, after: Sequence[Any] = (), first: Sequence[tf.Tensor] = ()) -> tf.Tensor:
        """Return all numbers as one vector, after those of `first`.

        Args:
            scope: The name scope of the ops.
            after: Ops that run before.
            first: Scalars with which the vector begins, of dtype int64.

        Returns:
            An int64 vector: those of `first`, the single numbers, and the vectors with an element for each
            worker.
        """
        with self.at(scope, after):
            single = tf.stack([*first, *map(self.read, SINGLE)])
            return tf.concat([single, *map(self.read, PER_WORKER)], 0, name="numbers")

    def open(self, generation: tf.Tensor, step: tf.Tensor, examples: tf.Tensor) -> tf.Operation:
        """Return the op that begins a generation at a step.

        Args:
            generation: The number of the generation.
            step: The global step at which it begins.
            examples: The number of examples that were consumed until then.
        """
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

    def is_current(self) -> tf.Tensor:
        """Return whether the worker's generation and life are the current ones. Call it inside `at`."""
        same = tf.equal(self.read("generation"), self.mine[0])
        return same & tf.equal(self.read("life")[self.worker], self.mine[1])

    def claim(self, scope: str, after: Sequence[Any] | None = None) -> tf.Tensor:
        """Return [1 or 0, *state]: whether the worker may begin an update. Other claims wait meanwhile.

        Args:
            scope: The scope of the ops.
            after: The ops that end an update of the worker, which is then counted as done, unless its
                generation is over; None if no update has been made.
        """
        with self.at(scope, after or ()):
            turn = take_turn(SCOPE, contested=True)
        with self.at(scope, turn.taken):
            current = self.is_current()
        counted = [] if after is None else self.count(scope, current)
        with self.at(scope, counted or turn.taken):
            fine = current & tf.equal(self.read("phase"), OPEN)
            fine &= self.read("begun") < self.read("limit")
            if self.staleness is not None:
                done = self.read("done")
                fine &= done[self.worker] + 1 - tf.reduce_min(done) <= self.staleness
            one = tf.cast(fine, tf.int64)
            counted = [
                tf.raw_ops.AssignAddVariableOp(resource=self.variables["begun"].handle, value=one),
                self.add_own("claimed", one),
            ]
        numbers = self.read_all(scope, counted, [one])
        with self.at(scope, [numbers]):
            ended = turn.ended(numbers.op)
        with self.at(scope, [ended]):
            return tf.identity(numbers, name="claimed")

    def count(self, scope: str, current: tf.Tensor) -> list[tf.Operation]:
        """Return the ops that count an update of the worker as done if its generation is the current one.

        Args:
            scope: The name scope of the ops.
            current: Whether the generation is the current one, a scalar bool. If it is not, zeros are added.
        """
        with self.at(scope):
            one = tf.cast(current, tf.int64)
            step = self.step(one)
        with self.at(scope, step):
            return [self.add_own("done", one)]

    def step(self, one: Any) -> list[tf.Operation]:
        """Return ops that count a step and its examples if `one` is 1. Call it inside `at`."""
        return [
            tf.raw_ops.AssignAddVariableOp(
                resource=self.variables["global_step"].handle, value=one, name="train_step"
            ),
            tf.raw_ops.AssignAddVariableOp(
                resource=self.variables["examples"].handle, value=one * self.batch
            ),
        ]

    def renew(self, scope: str, worker: Any) -> tf.Operation:
        """Return the op that begins a new life of a worker, and gives back its unused claims.

        Args:
            scope: The name scope of the ops.
            worker: The number of the worker, an integer or a scalar tensor.
        """
        with self.at(scope):
            turn = take_turn(SCOPE, contested=True)
        with self.at(scope, turn.taken):
            lost = self.read("claimed")[worker] - self.read("done")[worker]
            back = [
                tf.raw_ops.AssignSubVariableOp(resource=self.variables["begun"].handle, value=lost),
                self.add("claimed", -lost, worker),
                self.add("life", tf.constant(1, tf.int64), worker),
            ]
        with self.at(scope, back):
            return turn.ended(tf.no_op())

    def freeze(self) -> tf.Operation:
        """Return the op after which no update can be claimed."""
        with self.at("freeze"):
            turn = take_turn(SCOPE, contested=True)
        with self.at("freeze", turn.taken):
            limit = self.assign("limit", tf.minimum(self.read("limit"), self.read("begun")))
        with self.at("freeze", [limit]):
            return turn.ended(limit)
