"""A combination in a session of its own, or in one for each worker that has a graph of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

import tensorflow as tf
from attrs import evolve, field, frozen

from compiler.compatibility import replication_of
from compiler.graph.build import compile_graph
from compiler.graph.inspect.memory.room import require_room
from compiler.graph.session_options import session_config
from compiler.graph.storage.export import final_weights
from compiler.graph.tower.traces import Traces
from compiler.graph.variables.cut_variable import read_saved
from compiler.machine_memory import memory_limit
from compiler.model.layer_state import State, with_states
from compiler.pipeline import make_plan
from tfdeploy.runtime.cluster.server.server import loopback_server
from tfdeploy.runtime.verify.fed_graph import Arrays, FedGraph
from tfdeploy.runtime.verify.located_session import LocatedSession
from tfdeploy.runtime.verify.randomness import without_randomness

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.graph.workers.updates import WorkerExchange
    from dsl import ir
    from tfdeploy.runtime.verify.launched import LaunchedServers

DEVICES = 16
_servers: list[Any] = []  # TensorFlow cannot end one, so all trials of a process share it


@frozen
class TrialSetup:
    """What all trials of a spec have in common.

    Attributes:
        traces: The traced towers.
        seed: The seed.
        arrays: The examples, by the names of inputs.
        start: The values with which every trial begins, by their names in a checkpoint.
        servers: The servers on which combinations for a cluster run; None for devices of this process.
        states: What layers have learnt from the data, by their paths.
        towers: The graphs of single towers by their number of examples, which references share.
    """

    traces: Traces = field(repr=False)
    seed: int
    arrays: Arrays = field(repr=False)
    start: Arrays = field(factory=dict, repr=False)
    servers: LaunchedServers | None = None
    states: Mapping[str, State] = field(factory=dict, repr=False)
    towers: dict[int, FedGraph] = field(factory=dict, repr=False)

    def compile(self, spec: ir.Spec, worker: int = 0) -> CompiledGraph:
        """Return the graph of a combination, or of one of its workers, without random numbers.

        Args:
            spec: The spec of the combination.
            worker: The number of the worker, if each has a graph of its own.

        Raises:
            SpecError: If the graph cannot be built, or this machine cannot hold its variables.
        """
        plan = make_plan(spec, emulate=not self._is_launched(spec), worker=worker)
        plan = evolve(plan, model=without_randomness(with_states(plan.model, self.states)))
        compiled = compile_graph(plan, seed=self.seed, traces=self.traces)
        require_room(compiled, memory_limit(), launched=self._is_launched(spec))
        return compiled

    def _is_launched(self, spec: ir.Spec) -> bool:
        return self.servers is not None and bool(spec.devices.jobs)

    def session(self, compiled: CompiledGraph, target: Callable[[], str] = str) -> LocatedSession:
        """Open a session for a graph, on the servers of the trials if the spec has jobs.

        Args:
            compiled: The graph.
            target: Returns the target of a session in this process.
        """
        if self.servers is not None and compiled.plan.spec.devices.jobs:
            return LocatedSession(self.servers.session(compiled), compiled, self.servers.monitor.lost)
        session = tf.compat.v1.Session(target(), graph=compiled.graph, config=session_config(compiled.plan))
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

    def __init__(self, setup: TrialSetup, spec: ir.Spec) -> None:
        self.fed = FedGraph(setup.compile(spec))
        self.compiled = self.fed.compiled
        count = _exchange_of(self.compiled).worker.count
        self.graphs = [self.compiled, *(setup.compile(spec, at) for at in range(1, count))]
        self.sessions = [setup.session(each, _target) for each in self.graphs]
        self.session = self.sessions[0]
        self._begin()
        before, total = 0, self.compiled.plan.global_batch
        for each, session in zip(self.graphs, self.sessions, strict=True):
            fed = self.fed if each is self.compiled else FedGraph(each)
            fed.train_on(session, setup.arrays, before, total)
            before += each.plan.own_batch
        if setup.start:
            self.assign(setup.start)

    def _begin(self) -> None:
        exchange = _exchange_of(self.compiled)
        self.tick = time.time_ns()
        coordination = exchange.coordination
        self.session.run(self.compiled.init_op)
        feed = {coordination.mine: (self.tick, 0), coordination.given: (self.tick, 0, 0)}
        for op in (exchange.clear, coordination.open):
            if op is not None:
                self.session.run(op, feed)

    def __exit__(self, *_: object) -> None:
        for each in self.sessions:
            each.close()

    def step(self) -> float:
        """Let every worker store its gradients in its mailbox, and the chief apply them; return the loss."""
        for each, session in zip(self.graphs, self.sessions, strict=True):
            exchange = _exchange_of(each)
            session.run(exchange.post, {exchange.tick: self.tick})
        self.tick += 1
        return float(self.session.run([self.compiled.data_loss, _exchange_of(self.compiled).apply])[0])

    def update(self, clone: int) -> float:
        """Let worker number `clone` do an update by itself, and return its loss."""
        exchange = _exchange_of(self.graphs[clone])
        mine = {exchange.coordination.mine: (self.tick, 0)}
        return float(self.sessions[clone].run([self.graphs[clone].data_loss, exchange.step], mine)[0])


def _exchange_of(compiled: CompiledGraph) -> WorkerExchange:
    assert compiled.exchange is not None
    return compiled.exchange


def make_trial(setup: TrialSetup, spec: ir.Spec) -> Trial:
    """Return a trial of a combination.

    Args:
        setup: What all trials of the spec have in common.
        spec: The spec of the combination.
    """
    return (WorkerGroupTrial if replication_of(spec) == "between_graph" else Trial)(setup, spec)


def _target() -> str:
    if not _servers:
        _servers.append(loopback_server(tf.compat.v1.ConfigProto(device_count={"CPU": DEVICES})))
    return str(_servers[0].target)
