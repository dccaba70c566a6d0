"""Measures the ops of a spec in this process.

A process measures with one number of threads that work on one op; calibration starts one for each number.

1. The time of starting an op is that of an op in a long chain of additions of two numbers.
2. On one thread, ops run one after the other, and traced steps give the time of each. Tracing itself takes
   time. All times are therefore multiplied by the same factor, so that with the starts of the ops they add up
   to a step without a trace.
3. While as many threads as there are cores work on several steps at once, traced steps give the times of ops
   beside others.
4. Steps without a trace, with a thread for each core, show how long it takes until a thread that has nothing
   to do takes an op, and how far the traces slow ops beside others (`rounds.py`).
5. Ops on rows of a table are also measured with other numbers of rows.
6. If as many threads as there are cores may work on an op, and on as many ops at once, the processor time of
   one tower shows how many cores are used by threads that look for work.

The memory of a machine is slower for seconds at a time while its neighbours use it. Steps are therefore made
in many short turns, and those of two tasks too: what follows right after each other says less about the
machine than what is apart. The processes also take turns. The times of ops are those of the half of the turns
in which steps without a trace were fastest.
"""

from __future__ import annotations

import platform
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

from attrs import define, evolve, field, frozen

from compiler.graph.compiled import CompiledGraph
from compiler.graph.feeding import InputPipe
from compiler.time.profile import MeasuredMachine, OpCost, Profile
from compiler.time.work import Signature, StepWork, TimedOp, crossings
from dsl import ir
from tfdeploy.runtime.adapted import adapted
from tfdeploy.runtime.calibrate.network import large_of, link_measured
from tfdeploy.runtime.calibrate.processes import MeasureRequest, Wait, reached
from tfdeploy.runtime.calibrate.rounds import (
    ON_ROWS,
    Round,
    RowRatio,
    TracedSteps,
    cores_used,
    fitted,
    plain_config,
    ratios_by_rows,
    timed,
    timed_in_turns,
    typical,
    with_other_rows,
)
from tfdeploy.runtime.plans import graph_of, plan_of
from tfdeploy.runtime.stop import alongside

Times = Mapping[str, tuple[float, float]]
"""The seconds and the number of kernels of ops by name."""

WARM = 80
"""Steps before the first measurement: TensorFlow learns in about so many which ops are short."""

LEAST_STEPS = 5
LEAST_TRACED = 1
MOST_STEPS = 200
FEWEST = 2
"""The least number of steps without a trace in a turn."""


def measure(spec: ir.Spec, request: MeasureRequest, wait: Wait) -> Profile:
    """Measure the ops of a spec in this process, which must not have run a session before.

    If the spec has jobs, the devices of all tasks are logical CPUs of this process, and the link between two
    tasks of this machine is measured as well.

    Raises:
        RunError: If a layer learns from data that cannot be read, or TensorFlow refuses made-up examples.
    """
    threads = evolve(spec.devices, intra_op_threads=request.inner_threads)
    plan = plan_of(evolve(spec, devices=threads), emulate=request.emulate or bool(spec.devices.jobs))
    plan = adapted(plan)
    compiled = graph_of(evolve(plan, model=plan.model.assumed))
    from compiler.step.read.work import graph_step
    from tfdeploy.runtime.session.faults import located

    work, link = graph_step(compiled.step), None
    with ExitStack() as stack:
        stack.enter_context(located("a step on made-up examples", compiled))
        measurement = stack.enter_context(Measurement(request, compiled, work).ready())
        if spec.devices.jobs and request.beside:
            link = stack.enter_context(link_measured(_largest_sent(work), request.turns))
        for _ in range(request.turns):
            wait()
            measurement.take_turn()
            if link is not None:
                link.take_turn()
    found = measurement.result()
    return found if link is None else evolve(found, **link.costs())


def _largest_sent(work: StepWork) -> int:
    """Return the bytes of a large tensor between the tasks of a step."""
    sent = crossings(work).items()
    return large_of(size for (op, _, target), size in sent if work.ops[op].device.host != target.host)


@frozen
class Turn:
    """What steps took in one turn."""

    plain: Round
    times: TracedSteps = field(repr=False)


@frozen
class _Session:
    """A session."""

    session: Any
    # What makes a step, or a part of it. TensorFlow learns which of its ops are short, so there is only one.
    step: Callable[[], Any]


@define
class Measurement:
    """Measures a graph, and keeps what was found."""

    request: MeasureRequest
    compiled: CompiledGraph = field(repr=False)
    work: StepWork = field(repr=False)
    op_start: float = 0.0
    start: float = 0.0
    rows: tuple[RowRatio, ...] = ()
    tower: list[Round] = field(factory=list, repr=False)
    alone: list[Turn] = field(factory=list, repr=False)  # one op at a time
    beside: list[Turn] = field(factory=list, repr=False)  # an op on each core
    _starts: list[Any] = field(factory=list, repr=False)
    one: _Session | None = field(default=None, repr=False)  # runs one op at a time
    several: _Session | None = field(default=None, repr=False)  # runs one on each core, if that is measured

    @contextmanager
    def ready(self) -> Iterator[Measurement]:
        """Measure what needs no step, and open the sessions that make steps."""
        self._starts = [_endless(each) for each in self.compiled.train_inputs]
        self.op_start = time_to_start_an_op(self.request.inner_threads)
        self.rows = ratios_by_rows(self._on_rows(), self.request.inner_threads)
        with ExitStack() as stack:
            one = self.one = self._opened(stack, 1, self._fetches())
            nothing = one.session.make_callable([self.compiled.global_step.handle.op])
            self.start = median(self._times(nothing, self.request.seconds, LEAST_STEPS))
            of_tower = self.request.inner_threads > 1
            if self._cores() > 1 and (self.request.beside or of_tower):
                ends = self._ends_of_tower() if of_tower else self._fetches()
                self.several = self._opened(stack, self._cores(), ends)
            yield self

    def _opened(self, stack: ExitStack, op_threads: int, ends: Sequence[Any]) -> _Session:
        """Open a session that runs so many ops at once, and make steps until TensorFlow knows them."""
        session = stack.enter_context(self._session(op_threads))
        step = session.make_callable(ends)
        end = time.perf_counter() + self.request.seconds
        for made in range(WARM):
            step()
            if made >= LEAST_STEPS and time.perf_counter() > end:
                break
        return _Session(session, step)

    def take_turn(self) -> None:
        """Make the steps of a turn."""
        assert self.one is not None
        self.alone.append(self._turn(self.one))
        if self.several is None:
            return
        if self.request.inner_threads > 1:
            self.tower.append(self._plain(self.several.step))
        else:
            self.beside.append(self._turn(self.several, others=self._cores() - 1))

    def _cores(self) -> int:
        from compiler.process import cores

        return cores()

    def _turn(self, made: _Session, others: int = 0) -> Turn:
        """Make steps without a trace, and then traced ones while other cores are kept busy."""
        plain = self._plain(made.step)
        with self._busy(made.session, others):
            return Turn(plain, self._traced(made))

    def result(self) -> Profile:
        """Return what was found in all turns."""
        import tensorflow as tf

        machine = MeasuredMachine(_processor(), self._cores(), tf.__version__)
        plain = [each.plain for each in self.alone]
        serial, alone = typical(plain), fastest(self.alone)
        started = self.op_start * (sum(each[1] for each in alone.values()) + 2 * len(crossings(self.work)))
        traced = sum(each[0] for each in alone.values())
        own = max(0.0, serial - self.start - started)
        factor = own / traced if own and traced else 1.0
        alone = _scaled(alone, factor)
        crowded = _scaled(fastest(self.beside), factor) if self.beside else alone
        ops = self._costs(alone, crowded)
        flops, moved = reached(ops)
        found = Profile(
            machine=machine,
            specs=(),
            step_start=self.start,
            op_start=self.op_start,
            hand_over=0.0,
            flops_per_second=flops,
            bytes_per_second=moved,
            ops=ops,
            links=(),
            awake=cores_used(plain),
            tower_awake=cores_used(self.tower) if self.tower else None,
            serial=serial,
            parallel=serial,
        )
        if not self.beside:
            return found
        parallel = typical(each.plain for each in self.beside)
        found = evolve(found, parallel=parallel)
        if self.work.loops or self.compiled.exchange is not None:
            return evolve(found, hand_over=self.op_start)
        return fitted(found, self.work, parallel)

    def _ends_of_tower(self) -> list[Any]:
        """Return the ops of the first clone that no other op of it needs: with them all of its ops run."""
        if self.compiled.plan.loops:
            return [self.compiled.clones[0].loss]  # nothing inside of a loop can be fetched
        own = {each.name for each in self.work.ops if each.clone == 0}
        ops = [self.compiled.graph.get_operation_by_name(name) for name in sorted(own)]
        needed = {each.op.name for op in ops for each in op.inputs}
        needed |= {each.name for op in ops for each in op.control_inputs}
        return [each for each in ops if each.name not in needed]

    # --- sessions -----------------------------------------------------------------------------------------

    @contextmanager
    def _session(self, op_threads: int) -> Iterator[Any]:
        """Open a session that runs so many ops at once, with every variable and input ready."""
        import tensorflow as tf

        from compiler.graph.session_options import session_config

        config = session_config(self.compiled.plan, use_per_session_threads=True)
        config.inter_op_parallelism_threads = op_threads
        with tf.compat.v1.Session(graph=self.compiled.graph, config=config) as session:
            session.run(self.compiled.init_op)
            exchange = self.compiled.exchange
            if exchange is not None and exchange.clear is not None:
                session.run(exchange.clear)
            for start, pipe in zip(self._starts, self.compiled.train_inputs, strict=True):
                session.run(start)
                session.run(pipe.puts)
            yield session

    def _fetches(self) -> list[Any]:
        return [self.compiled.graph.get_operation_by_name(each) for each in self.compiled.step.ends.all]

    @staticmethod
    def _times(step: Callable[[], Any], seconds: float, least: int) -> list[float]:
        """Return the seconds of at least some steps, of as many as there is time for."""
        found: list[float] = []
        end = time.perf_counter() + seconds
        while len(found) < least or (len(found) < MOST_STEPS and time.perf_counter() < end):
            found.append(timed(step))
        return found

    def _plain(self, step: Callable[[], Any]) -> Round:
        """Make the steps without a trace of a turn."""
        used, began = time.process_time(), time.perf_counter()
        times = self._times(step, self.request.seconds / self.request.turns, FEWEST)
        passed = time.perf_counter() - began
        return Round(median(times), (time.process_time() - used) / passed)

    def _traced(self, made_by: _Session) -> TracedSteps:
        """Make the traced steps of a turn; return the times of ops.

        A step after a trace finds the caches of the processor full of the trace. Therefore a step without a
        trace is made in between.
        """
        import tensorflow as tf

        times = TracedSteps(frozenset(each.name for each in self.work.ops))
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.SOFTWARE_TRACE)
        end = time.perf_counter() + self.request.seconds / self.request.turns
        for made in range(ceil(self.request.traced / self.request.turns) + 1):
            made_by.step()
            metadata = tf.compat.v1.RunMetadata()
            made_by.session.run(self._fetches(), options=options, run_metadata=metadata)
            if made:  # the first traced step prepares the graph again
                times.add(metadata)
            if made >= LEAST_TRACED and time.perf_counter() > end:
                break
        return times

    @contextmanager
    def _busy(self, session: Any, others: int) -> Iterator[None]:
        """Keep the other cores busy with the forward passes of the clones."""
        losses = session.make_callable([each.loss for each in self.compiled.clones])

        def repeat(over: threading.Event) -> None:
            while not over.is_set():
                losses()

        with ExitStack() as stack:
            for _ in range(others):
                stack.enter_context(alongside(repeat, "others"))
            yield

    # --- results ------------------------------------------------------------------------------------------

    def _on_rows(self) -> list[Any]:
        """Return ops of the graph on rows of a table, one of each signature."""
        names = {each.signature: each.name for each in self.work.ops if each.signature.type in ON_ROWS}
        return [self.compiled.graph.get_operation_by_name(name) for name in names.values()]

    def _costs(self, alone: Times, crowded: Times) -> tuple[OpCost, ...]:
        alike: dict[Signature, list[TimedOp]] = defaultdict(list)
        for op in self.work.ops:
            alike[op.signature].append(op)
        return with_other_rows((_cost(same, alone, crowded) for same in alike.values()), self.rows)


def _endless(pipe: InputPipe) -> Any:
    """Let an iterator give one made-up batch repeatedly; return the op that starts it."""
    import tensorflow as tf

    from compiler.graph.inspect.one_step import made_up_batch

    return pipe.attach(lambda: tf.data.Dataset.from_tensors(made_up_batch(pipe)).repeat())


def fastest(turns: Sequence[Turn]) -> Times:
    """Return the times of ops in the half of the turns in which steps without a trace were fastest."""
    ordered = sorted(turns, key=lambda each: each.plain.seconds)
    return TracedSteps.together(each.times for each in ordered[: ceil(len(ordered) / 2)]).medians()


def _scaled(times: Times, factor: float) -> Times:
    return {name: (seconds * factor, kernels) for name, (seconds, kernels) in times.items()}


def _cost(alike: list[TimedOp], alone: Times, crowded: Times) -> OpCost:
    """Return the cost of one run of ops that have the same signature."""
    first = alike[0]

    def mean(times: Times, part: int) -> float:
        values = [times.get(op.name, (0.0, 0.0))[part] / op.times for op in alike]
        return float(sum(values) / len(values))

    return OpCost(
        type=first.signature.type,
        inputs=first.signature.inputs,
        detail=first.signature.detail,
        flops=first.flops,
        bytes=first.bytes,
        ops=len(alike),
        runs=mean(alone, 1),
        alone=mean(alone, 0),
        crowded=mean(crowded, 0),
    )


CHAINS = (500, 2500)
"""The lengths of the two chains of additions whose difference shows what an op costs."""


def time_to_start_an_op(inner_threads: int = 1) -> float:
    """Return the seconds that TensorFlow needs on one thread to run an op that does next to nothing.

    Args:
        inner_threads: How many threads may work on one op of this process from now on. These ops use one of
            them.
    """
    import tensorflow as tf

    graph, ends = tf.Graph(), []
    with graph.as_default(), tf.device("/cpu:0"):
        one = total = tf.compat.v1.placeholder_with_default(1.0, [])
        for made in range(max(CHAINS)):
            total = tf.raw_ops.AddV2(x=total, y=one)
            if made + 1 in CHAINS:
                ends.append(total.op)
    with tf.compat.v1.Session(graph=graph, config=plain_config(inner_threads)) as session:
        steps = [session.make_callable([end]) for end in ends]
        short, long = map(median, timed_in_turns(steps, WARM, MOST_STEPS))
    return max(0.0, long - short) / (CHAINS[1] - CHAINS[0])


def _processor() -> str:
    """Return the name of the processor, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (each.partition(":")[2].strip() for each in lines if each.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
