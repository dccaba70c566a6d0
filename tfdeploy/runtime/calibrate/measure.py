"""Measures the ops of a spec in this process.

The number of threads that work on one op is fixed for a process by its first session. Calibration therefore
starts a process for each number.

1. The time of starting an op is that of an op in a long chain of additions of two numbers.
2. On one thread, ops run one after the other, and traced steps give the time of each. Tracing itself takes
   time. All times are therefore multiplied by the same factor, so that with the starts of the ops they add up
   to a step without a trace.
3. While as many threads as there are cores work on several steps at once, traced steps give the times of ops
   beside others.
4. Steps without a trace, with a thread for each core, show how long it takes until a thread that has nothing
   to do takes an op: if that time is right, the simulation takes as long as the steps.
5. Ops on rows of a table are also measured with other numbers of rows.
6. If as many threads as there are cores may work on an op, and on as many ops at once, the processor time of
   one tower shows how many cores are used by threads that look for work.
"""

from __future__ import annotations

import platform
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from compiler.time.costs import ProfiledCosts
from compiler.time.profile import MeasuredMachine, OpCost
from compiler.time.simulate import simulate
from compiler.time.work import crossings
from tfdeploy.runtime.adapted import adapted
from tfdeploy.runtime.calibrate.network import large_of, measure_network
from tfdeploy.runtime.calibrate.others import OtherWork
from tfdeploy.runtime.calibrate.requests import Measured, MeasureRequest, profile_of
from tfdeploy.runtime.calibrate.rows import ON_ROWS, RowRatio, ratios_by_rows, with_other_rows
from tfdeploy.runtime.calibrate.stretches import Stretch, cores_used, typical
from tfdeploy.runtime.calibrate.traces import OpTimes
from tfdeploy.runtime.plans import graph_of, plan_of

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.graph.inputs.iterators import InputPipe
    from compiler.time.work import Signature, StepWork, TimedOp
    from dsl import ir

Times = Mapping[str, tuple[float, float]]
"""The seconds and the number of kernels of ops by name."""

WARM = 80
"""Steps before the first measurement: TensorFlow learns in about so many which ops are short."""

LEAST_STEPS = 5
MOST_STEPS = 200
STRETCHES = 3
"""In how many stretches steps are made before the traced ones, and again after them."""

FEWEST = 2
"""The least number of steps of a stretch."""

SLOWEST_HAND_OVER = 5e-5
"""The longest time until a thread is awake, in seconds. What a step takes beyond that has other causes."""

_HALVINGS = 10


def measure(spec: ir.Spec, request: MeasureRequest) -> Measured:
    """Measure the ops of a spec in this process, which must not have run a session before.

    If the spec has jobs, the devices of all tasks are logical CPUs of this process, and the link between two
    tasks of this machine is measured as well.

    Args:
        spec: The spec.
        request: What is to be measured.

    Raises:
        SpecError: If the graph of the spec cannot be built.
        RunError: If a layer learns from data that cannot be read.
    """
    threads = evolve(spec.devices, intra_op_threads=request.inner_threads)
    plan = plan_of(evolve(spec, devices=threads), emulate=request.emulate or bool(spec.devices.jobs))
    compiled = graph_of(adapted(plan))
    from compiler.graph.inspect.time.timed_step import graph_step

    others = OtherWork()
    work = graph_step(compiled)
    found = _Measurement(request, compiled, work).run()
    if not (spec.devices.jobs and request.beside):
        return evolve(found, others=others.share())
    sizes = crossings(work).items()
    network = measure_network(
        large_of(size for (op, _, target), size in sizes if work.ops[op].device.host != target.host)
    )
    return evolve(
        found,
        others=others.share(),
        cluster_start=network.start,
        cluster_processors=network.processors,
        links=(network.link,),
    )


@define
class _Measurement:
    request: MeasureRequest
    compiled: CompiledGraph = field(repr=False)
    work: StepWork = field(repr=False)
    starts: list[Any] = field(factory=list, repr=False)
    rows: tuple[RowRatio, ...] = ()

    def run(self) -> Measured:
        import tensorflow as tf

        self.starts = [_endless(each) for each in self.compiled.train_inputs]
        from compiler.threads import cores

        machine = MeasuredMachine(_processor(), cores(), tf.__version__)
        op_start = time_to_start_an_op(self.request.inner_threads)
        with self._session(1) as session:
            step = self._step(session)
            self._warm(step)
            start = median(self._times(session.make_callable([self.compiled.global_step.handle.op])))
            plain = self._plain(step)
            times = self._traced(session)
            plain += self._plain(step)
        serial, alone = typical(plain), times.medians()
        started = op_start * (sum(each[1] for each in alone.values()) + 2 * len(crossings(self.work)))
        traced = sum(each[0] for each in alone.values())
        own = max(0.0, serial - start - started)
        factor = own / traced if own and traced else 1.0
        alone = _scaled(alone, factor)
        self.rows = ratios_by_rows(self._on_rows(), self.request.inner_threads)
        costs = self._costs(alone, alone)
        found = Measured(machine, costs, start, op_start, 0.0, serial, serial, cores_used(plain))
        if self.request.inner_threads > 1:
            return evolve(found, tower_processors=self._of_one_tower(machine.cores))
        several = self.request.beside and machine.cores > 1
        return self._beside(found, alone, factor) if several else found

    def _of_one_tower(self, op_threads: int) -> float:
        """Return the cores that the process uses, as a mean, while it runs the ops of one tower."""
        with self._session(op_threads) as session:
            step = session.make_callable(self._ends_of_tower())
            self._warm(step)
            return cores_used(self._plain(step))

    def _ends_of_tower(self) -> list[Any]:
        """Return the ops of the first clone that no other op of it needs: with them all of its ops run."""
        if self.compiled.plan.micro_batches > 1:
            return [self.compiled.clones[0].loss]  # nothing inside of a loop can be fetched
        own = {each.name for each in self.work.ops if each.clone == 0}
        ops = [self.compiled.graph.get_operation_by_name(name) for name in sorted(own)]
        needed = {each.op.name for op in ops for each in op.inputs}
        needed |= {each.name for op in ops for each in op.control_inputs}
        return [each for each in ops if each.name not in needed]

    def _beside(self, found: Measured, alone: Times, factor: float) -> Measured:
        """Add what is measured with a thread for each core."""
        with self._session(found.machine.cores) as session:
            step = self._step(session)
            self._warm(step)
            plain = self._plain(step)
            with self._busy(session, found.machine.cores - 1):
                crowded = self._traced(session)
            parallel = typical([*plain, *self._plain(step)])
        costs = self._costs(alone, _scaled(crowded.medians(), factor))
        found = evolve(found, ops=costs, parallel=parallel)
        return evolve(found, hand_over=self._hand_over(found))

    def _hand_over(self, found: Measured) -> float:
        """Return the time to hand over an op with which the simulated step is closest to the measured one."""
        if self.work.loops or self.compiled.exchange is not None:
            return found.op_start
        work = evolve(self.work, inner_threads=1, op_threads=found.machine.cores)

        def simulated(hand_over: float) -> float:
            profile = profile_of(found, (), hand_over=hand_over)
            return simulate(work, ProfiledCosts(profile)).seconds + found.step_start

        low, high = 0.0, SLOWEST_HAND_OVER
        if simulated(low) >= found.parallel:
            return low
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if simulated(middle) < found.parallel else (low, middle)
        return (low + high) / 2

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
            for start, pipe in zip(self.starts, self.compiled.train_inputs, strict=True):
                session.run(start)
                session.run(pipe.puts)
            yield session

    def _fetches(self) -> list[Any]:
        from compiler.graph.inspect.step.ops import step_ends

        return list(step_ends(self.compiled))

    def _step(self, session: Any) -> Callable[[], Any]:
        step: Callable[[], Any] = session.make_callable(self._fetches())
        return step

    def _warm(self, step: Callable[[], Any]) -> None:
        end = time.perf_counter() + self.request.seconds
        for made in range(WARM):
            step()
            if made >= LEAST_STEPS and time.perf_counter() > end:
                return

    def _times(self, step: Callable[[], Any]) -> list[float]:
        """Return the seconds of steps, of as many as there is time for."""
        found: list[float] = []
        end = time.perf_counter() + self.request.seconds
        while len(found) < LEAST_STEPS or (len(found) < MOST_STEPS and time.perf_counter() < end):
            began = time.perf_counter()
            step()
            found.append(time.perf_counter() - began)
        return found

    def _plain(self, step: Callable[[], Any]) -> list[Stretch]:
        """Make steps without a trace, in stretches, because the machine is not equally fast all the time."""
        found = []
        for _ in range(STRETCHES):
            times, used = list[float](), time.process_time()
            began = time.perf_counter()
            end = began + self.request.seconds / (2 * STRETCHES)
            while len(times) < FEWEST or (len(times) < MOST_STEPS and time.perf_counter() < end):
                at = time.perf_counter()
                step()
                times.append(time.perf_counter() - at)
            passed = time.perf_counter() - began
            found.append(Stretch(median(times), (time.process_time() - used) / passed))
        return found

    def _traced(self, session: Any) -> OpTimes:
        """Make traced steps; return the times of ops.

        A step after a trace finds the caches of the processor full of the trace. Therefore a step without a
        trace is made in between.
        """
        import tensorflow as tf

        step = self._step(session)
        times = OpTimes(frozenset(each.name for each in self.work.ops))
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.SOFTWARE_TRACE)
        end = time.perf_counter() + self.request.seconds
        for made in range(self.request.traced + 1):
            step()
            metadata = tf.compat.v1.RunMetadata()
            session.run(self._fetches(), options=options, run_metadata=metadata)
            if made:  # the first traced step prepares the graph again
                times.add(metadata)
            if made >= LEAST_STEPS and time.perf_counter() > end:
                break
        return times

    @contextmanager
    def _busy(self, session: Any, others: int) -> Iterator[None]:
        """Keep the other cores busy with the forward passes of the clones."""
        losses = session.make_callable([each.loss for each in self.compiled.clones])
        ended = threading.Event()

        def repeat() -> None:
            while not ended.is_set():
                losses()

        threads = [threading.Thread(target=repeat, daemon=True) for _ in range(others)]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            ended.set()
            for each in threads:
                each.join()

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

    from compiler.graph.inspect.devices.one_step import made_up_batch

    return pipe.attach(lambda: tf.data.Dataset.from_tensors(made_up_batch(pipe)).repeat())


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
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
    config.intra_op_parallelism_threads = inner_threads
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        steps = [session.make_callable([end]) for end in ends]
        found: tuple[list[float], ...] = ([], [])
        for made in range(WARM + MOST_STEPS):
            for step, seconds in zip(steps, found, strict=True):
                began = time.perf_counter()
                step()
                if made >= WARM:
                    seconds.append(time.perf_counter() - began)
    return max(0.0, median(found[1]) - median(found[0])) / (CHAINS[1] - CHAINS[0])


def _processor() -> str:
    """Return the name of the processor, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (each.partition(":")[2].strip() for each in lines if each.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
