"""The state of workers that each have all weights: where they stand, and how they agree on how to go on.

The numbers of a worker are on its own device, and change with each of its steps. Whenever a step has broken,
the chief begins a new generation: all workers say where they stand, those that are behind take the weights
of one that has finished the most steps, and all go on from there. The table for this is on the device of the
chief, and tells nothing that the workers do not know: if the chief is lost, it is filled again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import field, frozen

from compiler.graph.fragments import write_traced
from compiler.graph.ledger import Ledger
from compiler.graph.variables.variables import create_variable
from compiler.graph.workers.coordination import Table, parted
from compiler.plan import WorkerPlan
from compiler.reasons import Placed
from compiler.step.record import Run, Tensor
from compiler.step.writer import Spot

SINGLE = ("generation", "phase", "lost", "source")
PER_WORKER = ("met", "made", "step", "examples", "ready", "left")
OWN = ("made", "examples", "number")
"""What a worker counts beside the global step: its steps, also those that were skipped, their examples, and
the number of the next step's messages."""

MEETING, TAKING, OPEN, FINISHED = range(4)
BEFORE = {"phase": MEETING, "lost": 0, "source": 0, **dict.fromkeys(PER_WORKER, 0)}
"""The numbers of the table when a generation begins."""

SCOPE = "worker"


@frozen
class MeetingState:
    """The numbers of the table at one moment."""

    generation: int
    # MEETING while workers say where they stand, TAKING while those that are behind take the weights, OPEN
    # while steps are made, and FINISHED.
    phase: int
    lost: int  # the generation in which a worker has found that a step has broken
    source: int  # the number of the worker whose weights are taken
    met: tuple[int, ...]  # for each worker, the generation in which it has said where it stands
    made: tuple[int, ...]  # the steps that each worker has made, -1 if it has no weights
    step: tuple[int, ...]
    examples: tuple[int, ...]  # the examples of the steps of each
    ready: tuple[int, ...]  # for each worker, the generation for which it has the weights
    left: tuple[int, ...]

    @classmethod
    def of(cls, numbers: Sequence[int]) -> MeetingState:
        """Return the state from the values of `Meeting.state`."""
        return cls(*parted(numbers, SINGLE, PER_WORKER))


@frozen
class Meeting:
    """The ops on the state of the workers in one worker's graph."""

    placed: Placed
    # A placeholder for the arguments of an op, of which there are four at most.
    given: Any = field(repr=False)
    state: Any = field(repr=False)  # a vector that `MeetingState.of` reads
    announce: Any = field(repr=False)  # chief, [generation]: begins a generation
    meet: Any = field(repr=False)  # [generation, made, step, examples]: says where the worker stands
    take: Any = field(repr=False)  # chief, [worker]: lets the others take the weights of a worker
    ready: Any = field(repr=False)  # [generation]: says that the worker has them
    open: Any = field(repr=False)  # chief: lets steps be made
    lose: Any = field(repr=False)  # [generation]: says that a step has broken
    end: Any = field(repr=False)  # chief: says that training is over
    leave: Any = field(repr=False)
    # The worker's own numbers as a vector: [made, examples, number, global step].
    own: Any = field(repr=False)
    set_own: Any = field(repr=False)  # [made, examples, number, global step]: changes them

    @classmethod
    def build(cls, own: Counts, placed: Placed, ledger: Ledger, plan: WorkerPlan) -> Meeting:
        """Make the table, and the ops for the worker of a plan."""
        table = Table.create({}, placed, ledger, plan, (SINGLE, PER_WORKER))
        given, first, *_ = write_traced(table.at(""), _arguments)
        return cls(
            placed,
            given,
            table.read_all("state"),
            Run(table.write("announce", [*BEFORE.items(), ("generation", first)])),
            Run(table.call(table.at("meet"), _meet, given, worker=table.worker)),
            Run(table.write("take", [("source", first), ("phase", TAKING)])),
            Run(table.set_own("ready", first, "ready")),
            Run(table.write("open", [("phase", OPEN)])),
            Run(table.write("lose", [("lost", first)])),
            Run(table.write("end", [("phase", FINISHED)])),
            Run(table.set_own("left", first, "leave")),
            *own.ops(given),
        )


@frozen
class Counts:
    """What a worker counts, in variables on its own device."""

    variables: Mapping[str, Any] = field(repr=False)
    placed: Placed
    ledger: Ledger = field(repr=False)

    @classmethod
    def create(cls, global_step: Any, placed: Placed, ledger: Ledger) -> Counts:
        """Make the variables, except the global step."""
        made = {
            name: create_variable(f"{SCOPE}/{name}", lambda: tf.constant(0, tf.int64), placed, ledger)
            for name in OWN
        }
        return cls({**made, "global_step": global_step}, placed, ledger)

    def at(self, name: str, after: Sequence[str] = ()) -> Spot:
        """Return where ops on the variables are written, after other ops."""
        return Spot(self.ledger.writer("update"), f"{SCOPE}/{name}", self.placed).waiting(after)

    def read(self, name: str, scope: str) -> Tensor:
        """Write what is in a variable."""
        return self.at(scope).read(self.variables[name].tensor)

    def count(self, after: Sequence[str], batch: int) -> str:
        """Write what counts a step after other ops; return the name of the op that ends it."""
        for name, by in (("examples", batch), ("number", 1), ("made", 1)):
            after = [self.add("counted", name, by, after)]
        return after[0]

    def add(self, scope: str, name: str, by: int, after: Sequence[str] = ()) -> str:
        """Write what adds to a variable after other ops; return the name of the op."""
        at = self.at(scope, after)
        one = at.writer.constant(at.name("Const"), by, "int64", at.placed)
        return at.run("AssignAddVariableOp", name, self.variables[name].tensor, one)

    def ops(self, given: Tensor) -> tuple[Tensor, Run]:
        """Write what reads all variables as one vector, and what changes them."""
        handles = {name: each.tensor for name, each in self.variables.items()}
        own = write_traced(self.at("own"), _own, handles)
        return own, Run(write_traced(self.at("set_own"), _set_own, handles, given))


# --- functions of TensorFlow ------------------------------------------------------------------------------


def _arguments() -> list[tf.Tensor]:
    given = tf.compat.v1.placeholder_with_default(tf.zeros((4,), tf.int64), (4,), name="given")
    return [given, *tf.unstack(given)]


def _meet(handles: Mapping[str, tf.Tensor], given: tf.Tensor, worker: int) -> tf.Operation:
    generation, *numbers = tf.unstack(given)
    told = [
        tf.raw_ops.ResourceScatterUpdate(resource=handles[name], indices=[worker], updates=[value])
        for name, value in zip(("made", "step", "examples"), numbers, strict=True)
    ]
    with tf.control_dependencies(told):
        return tf.raw_ops.ResourceScatterUpdate(
            resource=handles["met"], indices=[worker], updates=[generation]
        )


def _own(handles: Mapping[str, tf.Tensor]) -> tf.Tensor:
    read = [tf.raw_ops.ReadVariableOp(resource=each, dtype=tf.int64) for each in handles.values()]
    return tf.stack(read, name="numbers")


def _set_own(handles: Mapping[str, tf.Tensor], given: tf.Tensor) -> tf.Operation:
    new = zip(handles.values(), tf.unstack(given), strict=True)
    return tf.group([tf.raw_ops.AssignVariableOp(resource=each, value=value) for each, value in new])
