"""Makes the steps of a layout in this process, on made-up examples, and measures them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from statistics import median
from typing import Any

from attrs import define, field

from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.one_step import made_up_batch
from compiler.graph.session_options import session_config
from compiler.graph.workers.coordination import State
from tfdeploy.runtime.cluster.worker_group import PATIENT, WorkerGroup
from tfdeploy.runtime.session.engine import Engine

WARM, LONGEST_WARM = 100, 2.0
"""Steps before the first measurement, and the most seconds of them: TensorFlow learns in about so many which
ops are short."""

FEWEST = 3
FOREVER = 1 << 60


@define
class Steps:
    """The steps of a graph that has all clones.

    Attributes:
        compiled: The graph.
        target: The server at which the session is opened, or nothing for a session in this process alone.
        session: The session.
        warm: Whether the steps before the first measurement have been made.

    What runs is prepared once, as in training: TensorFlow learns for each prepared run by itself which ops
    are short.
    """

    compiled: CompiledGraph = field(repr=False)
    target: str = ""
    session: Any = field(init=False, repr=False)
    warm: bool = False
    _prepared: dict[tuple[Any, ...], Callable[..., Any]] = field(factory=dict, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        import tensorflow as tf

        compiled = self.compiled
        config = session_config(compiled.plan, use_per_session_threads=not self.target)
        config.isolate_session_state = compiled.exchange is None
        with compiled.graph.as_default():
            starts = [
                pipe.attach(lambda pipe=pipe: tf.data.Dataset.from_tensors(made_up_batch(pipe)).repeat())
                for pipe in compiled.train_inputs
            ]
        self.session = tf.compat.v1.Session(self.target, graph=compiled.graph, config=config)
        exchange = compiled.exchange
        if exchange is None or exchange.worker.is_chief or exchange.meeting is not None:
            self.session.run(compiled.init_op)
        for start, pipe in zip(starts, compiled.train_inputs, strict=True):
            self.session.run(start)
            self.session.run(pipe.puts)

    def measure(self, seconds: float) -> tuple[float, int]:
        """Make steps for a while.

        Returns:
            The median seconds of one, or of one update in async training, and how many there were.
        """
        if self.compiled.train_loops:
            return self._loops(seconds)
        return self.repeat(self.prepared(self.compiled.data_loss, self.compiled.train_op), seconds)

    def prepared(self, *fetches: Any, fed: Any = None) -> Callable[..., Any]:
        """Return what runs some parts of the graph.

        Args:
            fetches: The ops and tensors.
            fed: The tensor whose value it takes, or None if it takes none.
        """
        key = (*(each.name for each in fetches), None if fed is None else fed.name)
        if key not in self._prepared:
            self._prepared[key] = (
                self.session.make_callable(list(fetches))
                if fed is None
                else self.engine().fed_callable(list(fetches), [fed])
            )
        return self._prepared[key]

    def engine(self) -> Engine:
        """Return the session as training has it, without checkpoints."""
        return Engine(self.compiled, self.session, saving=None)  # type: ignore[arg-type]

    def repeat(self, step: Callable[[], Any], seconds: float) -> tuple[float, int]:
        """Make some steps for warming up, then steps for a while.

        Returns:
            The median seconds of a step, and the number of steps.
        """
        warming, times = 0, list[float]()
        if not self.warm:
            self.warm, end = True, time.perf_counter() + LONGEST_WARM
            while warming < WARM and (warming < FEWEST or time.perf_counter() < end):
                step()
                warming += 1
        end = time.perf_counter() + seconds
        step()
        while len(times) < FEWEST or time.perf_counter() < end:
            began = time.perf_counter()
            step()
            times.append(time.perf_counter() - began)
        return median(times), warming + 1 + len(times)

    def _loops(self, seconds: float) -> tuple[float, int]:
        """Let every clone repeat its own step; return the seconds for each update of any of them."""
        steps = [self.prepared(each.train_op) for each in self.compiled.train_loops]
        counts, ended = [0] * len(steps), threading.Event()

        def repeat(at: int) -> None:
            while not ended.is_set():
                steps[at]()
                counts[at] += 1

        threads = [threading.Thread(target=repeat, args=(at,), daemon=True) for at in range(len(steps))]
        for each in threads:
            each.start()
        time.sleep(seconds if self.warm else 3 * seconds)
        self.warm, before, began = True, sum(counts), time.perf_counter()
        time.sleep(seconds)
        made, passed = sum(counts) - before, time.perf_counter() - began
        ended.set()
        for each in threads:
            each.join()
        return passed / max(1, made), max(1, sum(counts))


@define
class WorkerSteps:
    """The steps of a worker that has a graph of its own, as training makes them.

    Attributes:
        steps: The session of the worker.
        group: The worker's view of all workers.
        ended: Whether the worker is to take part in no more steps.
    """

    steps: Steps = field(repr=False)
    group: WorkerGroup = field(init=False, repr=False)
    ended: bool = False

    def __attrs_post_init__(self) -> None:
        self.group = WorkerGroup(self.steps.engine(), _NeverStopped())  # type: ignore[arg-type]

    # --- the worker that is not the chief -----------------------------------------------------------------

    def follow(self) -> None:
        """Take part in the steps of the chief until `ended` is set."""
        while not self.ended:
            with suppress(self._errors()):
                state = self.group.join()
                if state is None:
                    return
                (self._updates if self.group.exchange.step is not None else self._gradients)()

    def _errors(self) -> Any:
        import tensorflow as tf

        return tf.errors.FailedPreconditionError  # the chief has not initialized the variables yet

    def _gradients(self) -> None:
        group = self.group
        state: State | None = group.state()
        with group.waking():
            while not self.ended and state is not None and group.is_current(state):
                posted = state.tick
                state = group.until_rung(
                    lambda each: not group.is_current(each) or each.tick != posted,  # noqa: B023
                    group.post(posted),
                )

    def _updates(self) -> None:
        group = self.group
        update = self.steps.prepared(group.exchange.step, fed=group.ops.mine)
        claimed, state = group.claim()
        while not self.ended and group.is_current(state):
            if claimed:
                claimed, state = group.claimed(update(group.mine)[0])
            else:
                time.sleep(PATIENT / 50)
                claimed, state = group.claim()

    # --- the chief ----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin the training of all workers."""
        self.group.announce()
        self.group.open(0, 0)
        if self.group.exchange.step is not None:
            self.group.run(self.group.ops.allow, FOREVER)

    def measure(self, seconds: float) -> tuple[float, int]:
        """Make steps for a while.

        Returns:
            The median seconds of one, or of one update in async training, and how many there were.
        """
        self.open()
        if self.group.exchange.step is not None:
            return self._measure_updates(seconds)
        step = self._sync_step()
        found = self.steps.repeat(step, seconds)
        self.group.announce()
        return found

    def _sync_step(self) -> Callable[[], Any]:
        group, exchange = self.group, self.group.exchange
        heard, came = exchange.at_once
        fetches = [exchange.apply, self.steps.compiled.data_loss]
        step_of = self.steps.engine().fed_callable(fetches, [exchange.tick], {came: heard})
        tick = [group.generation]

        def step() -> None:
            step_of(tick[0])
            tick[0] += 1

        return step

    def _measure_updates(self, seconds: float) -> tuple[float, int]:
        group = self.group
        update = self.steps.prepared(group.exchange.step, self.steps.compiled.data_loss, fed=group.ops.mine)
        _, state = group.claim()
        before, began = state.global_step, time.perf_counter()
        pause = seconds if self.steps.warm else 3 * seconds
        counted = False
        while not counted or time.perf_counter() < began + seconds:
            _, state = group.claimed(update(group.mine)[0])
            if not counted and time.perf_counter() > began + pause:
                counted, before, began = True, state.global_step, time.perf_counter()
        self.steps.warm = True
        passed = time.perf_counter() - began
        self.group.announce()
        return passed / max(1, state.global_step - before), max(1, state.global_step)


@define
class ReplicaSteps:
    """The steps of a worker that has all weights, as training makes them while nothing is amiss.

    Attributes:
        steps: The session of the worker.
        ended: Whether the worker is to take part in no more steps.
    """

    steps: Steps = field(repr=False)
    ended: bool = False

    def __attrs_post_init__(self) -> None:
        meeting = self.steps.compiled.exchange.meeting  # type: ignore[union-attr]
        self.steps.session.run(meeting.set_own, {meeting.given: (0, 0, 0, 0)})

    def follow(self) -> None:
        """Take part in the steps of the chief, for whose parts of sums it waits, until `ended` is set."""
        step = self._step()
        while not self.ended:
            step()

    def measure(self, seconds: float) -> tuple[float, int]:
        """Make steps for a while.

        Returns:
            The median seconds of one, and how many there were.
        """
        return self.steps.repeat(self._step(), seconds)

    def _step(self) -> Callable[[], Any]:
        exchange = self.steps.compiled.exchange
        assert exchange is not None
        collect = self.steps.prepared(exchange.post, *exchange.sends)
        apply = self.steps.prepared(exchange.apply, self.steps.compiled.data_loss)

        def step() -> None:
            collect()
            apply()

        return step


class _NeverStopped:
    received = None
