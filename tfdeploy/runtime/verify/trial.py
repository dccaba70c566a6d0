"""A combination in a session of its own, in one for each worker with a graph, or on real processes.

Variables and inputs of its graph are given their values from outside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import cycle, islice
from typing import Any, Self, TypeVar

import numpy as np
import tensorflow as tf
from attrs import define, evolve, field, frozen

from compiler.compatibility import keeps_all, replication_of
from compiler.graph.build import compile_graph
from compiler.graph.compiled import CompiledGraph
from compiler.graph.feeding import InputPipe
from compiler.graph.inspect.room import require_room
from compiler.graph.session_options import session_config
from compiler.graph.storage.export import final_weights
from compiler.graph.tower.traces import Traces
from compiler.graph.variables.nodes import assign, read_saved
from compiler.graph.workers.exchange import WorkerExchange
from compiler.model.layer_state import State, with_states
from compiler.pipeline import make_plan
from compiler.plan import WorkerPlan
from compiler.process import memory_limit
from dsl import ir
from dsl.diagnostics import RunError
from dsl.errors import running as errors
from dsl.ir.place import PARAMETER_SERVER
from tfdeploy.runtime.cluster.monitor import TaskMonitor
from tfdeploy.runtime.cluster.server import loopback_server
from tfdeploy.runtime.launch.launched_run import copied_spec
from tfdeploy.runtime.launch.launcher import Launcher, Stream
from tfdeploy.runtime.membership.addresses import Cluster, Task
from tfdeploy.runtime.plans import RunOptions
from tfdeploy.runtime.session.engine import Engine, close_session
from tfdeploy.runtime.session.faults import located, reason_of
from tfdeploy.runtime.verify.examples import without_randomness

Arrays = Mapping[str, Any]


@define(eq=False)
class FedGraph:
    """A compiled graph, with ops that take values for its inputs from placeholders.

    The graph holds no examples itself. The ops are made when they are first needed, and serve all sessions of
    the graph.
    """

    compiled: CompiledGraph
    _starts: dict[Any, tuple[tf.Operation, dict[str, tf.Tensor]]] = field(
        factory=dict, init=False, repr=False
    )

    def assign(self, session: Any, values: Arrays) -> None:
        """Give variables, and all copies of them, new values; `values` are by their names in a checkpoint."""
        assign(session.run, self.compiled.saved, values)
        session.run(self.compiled.after_restore_op)

    def train_on(self, session: Any, arrays: Arrays, before: int = 0, total: int = 0) -> None:
        """Feed all pipes for training from arrays: of each step's examples, every pipe takes the next part.

        Args:
            before: The number of examples of a step that other graphs take before this one.
            total: The number of examples of a step of all graphs; 0 if there is no other graph.
        """
        pipes = self.compiled.train_inputs
        total = total or sum(pipe.examples for pipe in pipes)
        for pipe in pipes:
            steps = len(next(iter(arrays.values()))) // total
            rows = np.concatenate([np.arange(pipe.examples) + step * total + before for step in range(steps)])
            own = {name: array[rows] for name, array in arrays.items()}
            self._start(session, pipe, own, partial(_batches, pipe.size))
            before += pipe.examples

    def evaluate_on(self, session: Any, batch: Arrays) -> None:
        """Feed the evaluation with one batch."""
        self._start(session, self.compiled.evaluation.pipe, batch, tf.data.Dataset.from_tensors)

    def _start(
        self,
        session: Any,
        pipe: InputPipe,
        arrays: Arrays,
        dataset_of: Callable[[dict[str, tf.Tensor]], tf.data.Dataset],
    ) -> None:
        """Start a pipe on the dataset made of arrays; for arrays of the same shapes, by the same op."""
        shapes = {name: (array.dtype, array.shape) for name, array in arrays.items()}
        key = pipe.name, tuple(shapes.items())
        if key not in self._starts:
            given: dict[str, tf.Tensor] = {}

            def make() -> tf.data.Dataset:
                given.update({name: tf.compat.v1.placeholder(*each) for name, each in shapes.items()})
                return dataset_of(given)

            self._starts[key] = pipe.attach(make), given
        op, given = self._starts[key]
        session.run(op, {given[name]: array for name, array in arrays.items()})


def _batches(size: int | None, tensors: dict[str, tf.Tensor]) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(tensors).repeat().batch(size, drop_remainder=True)


COMBINATION = "a combination"  # what is being done, in messages


@frozen
class LocatedSession:
    """A session of a graph that is verified."""

    session: Any = field(repr=False)
    compiled: CompiledGraph = field(repr=False)
    # Returns whether a task of the cluster was lost; None if the session is of this process alone.
    lost: Callable[[], bool] | None = field(default=None, repr=False)

    def run(self, fetches: Any, feed: Any = None) -> Any:
        """Run a part of the graph.

        Raises:
            OpError: A task was lost.
        """
        with located(COMBINATION, self.compiled, lost=self.lost):
            return self.session.run(fetches, feed)

    def prepared(self, fetches: Any, feeds: Sequence[Any], replaced: Mapping[Any, Any]) -> Callable[..., Any]:
        """Return what `Engine.fed_callable` does, whose runs raise what `run` raises."""
        with located(COMBINATION, self.compiled, lost=self.lost):
            engine = Engine(self.compiled, self.session, saving=None)  # type: ignore[arg-type]
            once = engine.fed_callable(fetches, feeds, replaced)

        def run(*values: Any) -> Any:
            with located(COMBINATION, self.compiled, lost=self.lost):
                return once(*values)

        return run

    def close(self) -> None:
        """Close the session, also if its server is gone."""
        close_session(self.session)


Result = TypeVar("Result")

PATIENCE = 300.0  # seconds, for servers to listen and for a step to be made
ATTEMPTS = 3  # after which a combination has failed
REACHING, PAUSE = 60.0, 0.5
"""How long servers that are back may not be reached yet, and the time between two trials, in seconds:
TensorFlow connects to them again after intervals that grow, and reports the old failure meanwhile."""


@frozen
class LaunchedServers:
    """Servers of a cluster that run on this machine."""

    cluster: Cluster = field(repr=False)
    monitor: TaskMonitor = field(repr=False)
    say: Callable[[str], None] = field(repr=False)  # called with a sentence if something is tried again
    kill: Callable[[Task], None] = field(repr=False)  # kills a task, which is started again
    turns: Iterator[Task] = field(repr=False)  # the tasks that are to be killed, one in each combination
    _due: list[Task] = field(factory=list, init=False, repr=False)

    def disturb(self) -> None:
        """Kill the task whose turn it is, unless that has been done for this combination."""
        if self._due:
            self.kill(self._due.pop())

    def verify(self, attempt: Callable[[], Result], *, needs_servers: bool = True) -> Result:
        """Verify a combination; if a server is lost, wait until it is back, and begin again.

        Args:
            needs_servers: Whether the combination has something on parameter servers. If not, the task that
                is killed is a worker.

        Raises:
            RunError: Servers do not come back, or the combination has failed `ATTEMPTS` times.
        """
        failed, reached = 0, 0.0
        turns = (each for each in self.turns if needs_servers or each.job != PARAMETER_SERVER)
        self._due[:] = found = list(islice(turns, 1))
        while True:
            try:
                return attempt()
            except tf.errors.OpError as fault:
                if isinstance(fault, tf.errors.UnavailableError) and time.monotonic() < reached:
                    self.monitor.require("to verify")
                    time.sleep(PAUSE)
                    continue
                failed += 1
                if failed == ATTEMPTS:
                    raise RunError(errors.step_failed(COMBINATION, reason_of(fault), None)) from fault
                self.monitor.require("to verify")
                reached = time.monotonic() + REACHING
                if failed > len(found):  # it was not killed on purpose
                    self.say(f"{COMBINATION} is verified again, because a server was lost")

    def session(self, compiled: CompiledGraph) -> Any:
        """Open a session for a graph: a worker's own at its server, the graph of all at the chief's."""
        from compiler.graph.session_options import session_config

        plan, task = compiled.plan, self.cluster.chief
        if isinstance(plan, WorkerPlan):
            task = Task.of(plan.worker.host)
        config = session_config(compiled.plan, served=True)
        config.operation_timeout_in_ms = int(PATIENCE * 1000)
        return tf.compat.v1.Session(
            f"grpc://{self.cluster.address(task)}", graph=compiled.graph, config=config
        )


@contextmanager
def launched_servers(
    spec: ir.Spec, flags: Sequence[str], say: Callable[[str], None], *, kills: bool = False
) -> Iterator[LaunchedServers]:
    """Start the servers of a spec in one graph as processes of this machine, and end them in the end.

    Raises:
        RunError: If the servers do not start.
    """

    def on_line(task: Task, line: str, stream: Stream) -> None:
        if stream == "stderr":
            say(f"{task.ref} | {line}")

    with (
        copied_spec(spec, flags, RunOptions()) as command,
        Launcher(command, on_line, say) as launcher,
        ExitStack() as ending,
        launcher.supervised(),
    ):
        ending.callback(launcher.end_all)  # without waiting for the servers to end by themselves
        monitor = TaskMonitor(launcher.client, launcher.cluster.tasks, say, PATIENCE, spec)
        monitor.require("to verify")
        if launcher.failure is not None:
            raise RunError(launcher.failure)
        turns = cycle(launcher.cluster.tasks if kills else ())
        yield LaunchedServers(launcher.cluster, monitor, say, launcher.kill, turns)


DEVICES = 16
_servers: list[Any] = []  # TensorFlow cannot end one, so all trials of a process share it


@frozen
class TrialSetup:
    """What all trials of a spec have in common."""

    traces: Traces = field(repr=False)
    seed: int
    arrays: Arrays = field(repr=False)
    # The values with which every trial begins, by their names in a checkpoint.
    start: Arrays = field(factory=dict, repr=False)
    # The servers on which combinations for a cluster run; None for devices of this process.
    servers: LaunchedServers | None = None
    # What layers have learnt from the data, by their paths.
    states: Mapping[str, State] = field(factory=dict, repr=False)
    # The graphs of single towers by their number of examples, which references share.
    towers: dict[int, FedGraph] = field(factory=dict, repr=False)

    def compile(self, spec: ir.Spec, worker: int = 0) -> CompiledGraph:
        """Return the graph of a combination, or of one of its workers, without random numbers."""
        plan = make_plan(spec, emulate=not self._is_launched(spec), worker=worker)
        plan = evolve(plan, model=without_randomness(with_states(plan.model, self.states)))
        compiled = compile_graph(plan, seed=self.seed, traces=self.traces)
        require_room(compiled, memory_limit(), launched=self._is_launched(spec))
        return compiled

    def _is_launched(self, spec: ir.Spec) -> bool:
        return self.servers is not None and bool(spec.devices.jobs)

    def session(self, compiled: CompiledGraph, target: Callable[[], str] = str) -> LocatedSession:
        """Open a session for a graph, on the servers of the trials if the spec has jobs."""
        if self.servers is not None and compiled.plan.spec.devices.jobs:
            return LocatedSession(self.servers.session(compiled), compiled, self.servers.monitor.lost)
        url = target()
        config = session_config(compiled.plan, served=bool(url))
        session = tf.compat.v1.Session(url, graph=compiled.graph, config=config)
        return LocatedSession(session, compiled)


class Trial:
    """A graph in a session, with the initial values of the setup, and `arrays` to train on.

    The graph is that of the spec; if it has been compiled before, it is given as `graph`.
    """

    def __init__(
        self,
        setup: TrialSetup,
        spec: ir.Spec,
        arrays: Arrays | None = None,
        graph: FedGraph | None = None,
    ) -> None:
        self.fed = graph or FedGraph(setup.compile(spec))
        self.compiled = self.fed.compiled
        self.session = setup.session(self.compiled)
        self.session.run(self.compiled.init_op)
        self.fed.train_on(self.session, setup.arrays if arrays is None else arrays)
        if setup.start:
            self.assign(setup.start)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def step(self) -> float:
        """Do one step and return its loss over the global batch."""
        return float(self.session.run([self.compiled.data_loss, self.compiled.train_op])[0])

    def step_parts(self) -> list[tuple[float, float]]:
        """Do one step; return the parts of its loss, each a value and the weight to divide it by."""
        parts = [each.tensors for each in self.compiled.losses]
        found, _ = self.session.run([parts, self.compiled.train_op])
        return [(float(value), float(weight[0]) if weight else 1.0) for value, *weight in found]

    def update(self, clone: int) -> float:
        """Let one clone do an update by itself, and return its loss."""
        loop = self.compiled.train_loops[clone]
        return float(self.session.run([loop.data_loss, loop.train_op])[0])

    def values(self) -> dict[str, Any]:
        """Return what would be saved now, by name."""
        if self.compiled.publish_op is not None:
            self.session.run(self.compiled.publish_op)
        return read_saved(self.session.run, self.compiled.saved)

    def exported(self) -> dict[str, Any]:
        """Return the weights that an exported model would have now, by name."""
        values = self.values()
        return final_weights(self.compiled, lambda names: {name: values[name] for name in names})

    def evaluate(self, arrays: Arrays) -> float:
        """Return the loss of a batch as evaluation has it now, with the penalty."""
        if self.compiled.publish_op is not None:
            self.session.run(self.compiled.publish_op)
        evaluation = self.compiled.evaluation
        self.fed.evaluate_on(self.session, arrays)
        return float(sum(self.session.run([evaluation.loss, evaluation.regularization])))

    def assign(self, values: Arrays) -> None:
        """Give variables, and all copies of them, new values."""
        self.fed.assign(self.session, values)


class WorkerGroupTrial(Trial):
    """A chief and its workers; `compiled` and `session` are the chief's."""

    _chief: Callable[..., Any] | None = None  # makes the chief's part of a step

    def __init__(self, setup: TrialSetup, spec: ir.Spec) -> None:
        self.fed = FedGraph(setup.compile(spec))
        self.compiled = self.fed.compiled
        count = _exchange_of(self.compiled).worker.count
        self.graphs = [self.compiled, *(setup.compile(spec, at) for at in range(1, count))]
        self.sessions = [setup.session(each, _target) for each in self.graphs]
        self.session = self.sessions[0]
        self._begin()
        self.feds = [self.fed, *map(FedGraph, self.graphs[1:])]
        before, total = 0, self.compiled.plan.global_batch
        for fed, session in zip(self.feds, self.sessions, strict=True):
            fed.train_on(session, setup.arrays, before, total)
            before += fed.compiled.plan.own_batch
        if setup.start:
            self.assign(setup.start)

    def _begin(self) -> None:
        exchange = _exchange_of(self.compiled)
        self.tick = time.time_ns()
        coordination = exchange.coordination
        assert coordination is not None
        self.session.run(self.compiled.init_op)
        feed = {coordination.mine: (self.tick, 0), coordination.given: (self.tick, 0, 0)}
        for op in (exchange.clear, coordination.open):
            if op is not None:
                self.session.run(op, feed)

    def __exit__(self, *_: object) -> None:
        for each in self.sessions:
            each.close()

    def step(self) -> float:
        """Let every worker store its gradients in its mailbox, and the chief apply them; return the loss.

        The chief does both in one run, as in training.
        """
        for each, session in zip(self.graphs[1:], self.sessions[1:], strict=True):
            exchange = _exchange_of(each)
            session.run(exchange.post, {exchange.tick: self.tick})
        if self._chief is None:
            exchange = _exchange_of(self.compiled)
            assert exchange.at_once is not None
            heard, came = exchange.at_once
            fetches = [self.compiled.data_loss, exchange.apply]
            self._chief = self.session.prepared(fetches, [exchange.tick], {came: heard})
        loss, _ = self._chief(self.tick)
        self.tick += 1
        return float(loss)

    def update(self, clone: int) -> float:
        """Let worker number `clone` do an update by itself, and return its loss."""
        exchange = _exchange_of(self.graphs[clone])
        assert exchange.coordination is not None
        mine = {exchange.coordination.mine: (self.tick, 0)}
        return float(self.sessions[clone].run([self.graphs[clone].data_loss, exchange.step], mine)[0])


class ReplicasTrial(WorkerGroupTrial):
    """Workers that each have all weights."""

    made = 0  # steps

    def _begin(self) -> None:
        number = time.time_ns()
        for each, session in zip(self.graphs, self.sessions, strict=True):
            meeting = _exchange_of(each).meeting
            assert meeting is not None
            session.run(each.init_op)
            _exchange_of(each).drain(session.run)  # of a combination that has broken off
            if _exchange_of(each).forget is not None:
                session.run(_exchange_of(each).forget)
            session.run(meeting.set_own, {meeting.given: (0, 0, number, 0)})

    def step(self) -> float:
        """Let all workers sum their gradients, and each apply the sum; return the loss."""
        self._of_each(lambda exchange: [exchange.post, *exchange.sends])
        self._of_each(lambda exchange: exchange.apply, slice(1, None))
        loss = self.session.run([self.compiled.data_loss, _exchange_of(self.compiled).apply])[0]
        self.made += 1
        chief, every = _exchange_of(self.compiled), self.compiled.plan.update.average_every or 1
        if chief.share is not None and self.made % every == 0:
            self._of_each(lambda exchange: [exchange.share, *exchange.share_sends])
            if chief.give is not None:
                self._of_each(lambda exchange: exchange.give)
        return float(loss)

    def assign(self, values: Arrays) -> None:
        """Give the variables of all workers new values."""
        for fed, session in zip(self.feds, self.sessions, strict=True):
            fed.assign(session, values)

    def _of_each(self, fetches: Callable[[Any], Any], which: slice = slice(None)) -> None:
        """Run a part of the graphs of several workers at the same time."""
        given = [
            (session, fetches(_exchange_of(each)))
            for each, session in zip(self.graphs[which], self.sessions[which], strict=True)
        ]
        with ThreadPoolExecutor(len(given)) as pool:
            steps = [pool.submit(session.run, fetched) for session, fetched in given]
            wait(steps, return_when=FIRST_EXCEPTION)
            for step, each, session in zip(steps, self.graphs[which], self.sessions[which], strict=True):
                inbox = _exchange_of(each).inbox
                if not step.done() and inbox is not None:  # it would wait for the part of a task that is lost
                    with suppress(tf.errors.OpError):
                        session.session.run(inbox.wake)
            for step in steps:
                step.result()


def _exchange_of(compiled: CompiledGraph) -> WorkerExchange:
    assert compiled.exchange is not None
    return compiled.exchange


def make_trial(setup: TrialSetup, spec: ir.Spec) -> Trial:
    """Return a trial of a combination."""
    if keeps_all(spec):
        return ReplicasTrial(setup, spec)
    return (WorkerGroupTrial if replication_of(spec) == "between_graph" else Trial)(setup, spec)


def _target() -> str:
    if not _servers:
        _servers.append(loopback_server(tf.compat.v1.ConfigProto(device_count={"CPU": DEVICES})))
    return str(_servers[0].target)
