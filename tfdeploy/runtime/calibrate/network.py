"""Measures what it costs when two processes work on a step: TensorFlow's servers, and tensors between them.

A server of this process, which receives, and one of a process that it starts, which sends, stand for those
of two tasks on this machine. All servers of a process would share its threads. Both listen at the loopback
address alone, and run one op at a time, so that what they do besides is seen in the time of their ops.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from math import ceil
from statistics import median
from typing import IO, Any

from attrs import define, field, frozen

from compiler.time.profile import LinkCost
from dsl.diagnostics import RunError
from dsl.errors.plan import link_not_measured
from tfdeploy.runtime.calibrate.rounds import quartile, timed
from tfdeploy.runtime.cluster.binding import BindingError, listening_at
from tfdeploy.runtime.session.faults import reason_of
from tfdeploy.runtime.start_tensorflow import LOOPBACK

FREE = f"{LOOPBACK}:0"
"""An address whose port the operating system chooses when a server listens there."""

SMALL = 1 << 10
"""The bytes of a small tensor."""

LEAST, MOST = 1 << 20, 1 << 24
"""The bytes of a large tensor at least and at most. Within these it is as large as the largest of the spec,
because a byte takes longer in a tensor for which new memory has to be had from the system each time."""

SEVERAL, FEW = 32, 4
"""How many small tensors, and how many large ones, are sent in a step."""

ROWS = 192
"""The rows and columns of the products that the tasks compute while they send: a tenth of a millisecond."""

WARM = 10
STEPS, LEAST_STEPS = 96, 5
"""How many steps are made of each kind in all turns together, and at least in each of them."""


@contextmanager
def link_measured(large: int, turns: int) -> Iterator[LinkMeasurement]:
    """Start the servers of two tasks; yield what measures the link between them, in turns.

    Raises:
        RunError: If the other process does not start or ends too early, or if one cannot reach the other.
    """
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        steps = _steps(tf, large)
        start = tf.compat.v1.global_variables_initializer()
    with ExitStack() as stack:
        with _told():
            sender, used = stack.enter_context(_other())
            server = _start(tf, "receiver", sender)
            session = stack.enter_context(tf.compat.v1.Session(server.target, graph=graph))
            session.run(start)
            made = {name: session.make_callable(ends) for name, ends in steps.items()}
            for step in made.values():
                for _ in range(WARM):
                    step()
        yield LinkMeasurement(large, max(LEAST_STEPS, ceil(STEPS / turns)), made, used)


@define
class LinkMeasurement:
    """What measures the costs of a step of two tasks, and of a tensor that one sends to the other.

    The latency is the time of a small tensor beyond that of a step without one. The time of a message is that
    of several small ones beyond one, and the speed is that of a few large ones, without the time of as many
    messages. The processor time of both processes says how many cores they use meanwhile.

    What a tensor takes from the ops of a task is measured while the tasks compute: the receiver asks for
    several tensors, the sender hands over each of its products, or both at once.
    """

    large: int
    number: int
    steps: Mapping[str, Callable[[], Any]] = field(repr=False)
    # Returns the processor time of both processes so far, in seconds.
    used: Callable[[], float] = field(repr=False)
    _found: dict[str, list[StepTime]] = field(factory=dict, repr=False)

    def take_turn(self) -> None:
        """Make some steps of each kind."""
        with _told():
            for name, step in self.steps.items():
                self._found.setdefault(name, []).append(self._turn(step))

    def costs(self) -> dict[str, Any]:
        """Return fields of a profile by the lower quartile of the turns so far, in which others do least."""
        times = {
            name: StepTime(
                quartile(each.seconds for each in turns), quartile(each.processor for each in turns)
            )
            for name, turns in self._found.items()
        }
        return costs_of(times, self.large)

    def _turn(self, step: Callable[[], Any]) -> StepTime:
        """Return the median time of some steps, and the mean of that of the processors."""
        before = self.used()
        seconds = median(timed(step) for _ in range(self.number))
        return StepTime(seconds, (self.used() - before) / self.number)


@contextmanager
def _told() -> Iterator[None]:
    """Say that the link cannot be measured, and why, if TensorFlow or the system fails within."""
    import tensorflow as tf

    try:
        yield
    except (tf.errors.OpError, BindingError, OSError) as fault:
        raise RunError(link_not_measured(reason=reason_of(fault))) from fault


@frozen
class StepTime:
    """The time of a step."""

    seconds: float
    processor: float  # the processor time of both tasks, in seconds

    def beyond(self, other: StepTime) -> StepTime:
        """Return what this step takes more than another one."""
        return StepTime(self.seconds - other.seconds, self.processor - other.processor)


def large_of(sizes: Iterable[int]) -> int:
    """Return the bytes of a large tensor for a spec whose tensors between tasks have these sizes."""
    return min(MOST, max(LEAST, *sizes, 0))


def costs_of(found: Mapping[str, StepTime], large: int) -> dict[str, Any]:
    """Return the fields of a profile that follow from the times of the steps."""
    nothing, one = found["nothing"], found["one"]
    more, few = found["several"].beyond(one), found["much"].beyond(one)
    message = max(0.0, more.seconds) / (SEVERAL - 1)
    carrying = max(few.seconds - (FEW - 1) * message, 1e-9)
    used = few.processor - (FEW - 1) * more.processor / (SEVERAL - 1)
    latency = max(0.0, one.seconds - nothing.seconds - message)
    asking = max(0.0, found["asking"].beyond(found["receiver"]).seconds - latency) / SEVERAL
    giving = max(0.0, found["giving"].beyond(found["sender"]).seconds - latency) / SEVERAL
    work = found["exchanging"].beyond(found["both"]).processor / SEVERAL
    link = LinkCost(
        "network",
        latency=latency,
        bytes_per_second=(FEW * large - SMALL) / carrying,
        message=message,
        processors=max(0.0, used) / carrying,
        work=max(0.0, work),
        asking=asking,
        giving=giving,
    )
    used_by_nothing = nothing.processor / nothing.seconds
    return {"cluster_start": nothing.seconds, "cluster_processors": used_by_nothing, "links": (link,)}


def _steps(tf: Any, large: int) -> dict[str, list[Any]]:
    """Return what is fetched in steps of both tasks, by the names of the steps.

    The ops are not grouped: a group is an op of one of the tasks, to which the other would send a message.
    One of them computes a number that is fetched, as the loss of a step is.
    """
    sent = []
    with tf.device("/job:sender/task:0/cpu:0"):
        for size in (*(SMALL for _ in range(SEVERAL)), *(large for _ in range(FEW))):
            initial = tf.zeros([size // 4])
            sent.append(tf.compat.v1.Variable(initial, use_resource=True, trainable=False).read_value())
        alone = tf.identity(sent[0]).op
        made = [each[0] for each in _products(tf)]
        makes = [tf.identity(each).op for each in made]
    with tf.device("/job:receiver/task:0/cpu:0"):
        number = tf.identity(tf.constant(0.0))
        received = [tf.identity(each).op for each in sent]
        given = [tf.identity(each).op for each in made]
        computes = _products(tf)[-1].op
    several, much = received[:SEVERAL], received[SEVERAL:]
    return {
        "nothing": [number, alone],
        "one": [number, received[0]],
        "several": [number, *several],
        "much": [number, *much],
        "receiver": [number, computes, alone],
        "asking": [number, computes, *several],
        "sender": [number, *makes],
        "giving": [number, *given],
        "both": [number, computes, *makes],
        "exchanging": [number, computes, *given],
    }


def _products(tf: Any) -> list[Any]:
    """Return products of matrices, each of the one before."""
    first = tf.compat.v1.Variable(tf.fill([ROWS, ROWS], 1 / ROWS), use_resource=True).read_value()
    found = [first]
    for _ in range(SEVERAL):
        found.append(tf.matmul(found[-1], first))
    return found[1:]


@contextmanager
def _other() -> Iterator[tuple[str, Callable[[], float]]]:
    """Start the process that sends; yield its address, and what returns the processor time of both."""
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(
            [sys.executable, "-m", __name__],
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            bufsize=0,
        ) as process,
    ):
        asked, answers = process.stdin, process.stdout
        assert asked is not None
        assert answers is not None

        def answer() -> bytes:
            found = answers.readline()
            if not found:
                raise RunError(link_not_measured(reason=_last_words(process, said)))
            return found

        def used() -> float:
            with suppress(BrokenPipeError):
                asked.write(b"\n")
            return float(answer()) + time.process_time()

        try:
            yield answer().decode().strip(), used
        finally:
            process.kill()


def _last_words(process: subprocess.Popen[bytes], said: IO[str]) -> str:
    """Return how a process has ended, and the last line that it wrote to its standard error."""
    status = process.wait()
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    said.seek(0)
    lines = said.read().strip().splitlines()
    return f"the second process ended {how}" + (f": {lines[-1]}" if lines else "")


def main() -> None:
    """Be the process that sends: tell its address, and its processor time for each line that is read."""
    import tensorflow as tf

    server = _start(tf, "sender", FREE)
    sys.stdout.write(f"{server.target.removeprefix('grpc://')}\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        sys.stdout.write(f"{time.process_time()}\n")
        sys.stdout.flush()
    del server


def _start(tf: Any, job: str, sender: str) -> Any:
    """Start the server of a task; the sender is not told where the receiver is, because it never asks it."""
    one = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
    one.graph_options.rewrite_options.disable_meta_optimizer = True
    definition = tf.train.ServerDef(
        cluster=tf.train.ClusterSpec({"sender": [sender], "receiver": [FREE]}).as_cluster_def(),
        job_name=job,
        task_index=0,
        protocol="grpc",
        default_session_config=one,
    )
    with listening_at(LOOPBACK, 0):
        return tf.distribute.Server(definition)


if __name__ == "__main__":
    main()
