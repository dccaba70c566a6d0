"""A combination in which every worker has a graph of its own: all of them in turn, over one server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tfdeploy.runtime.cluster.server.server import loopback_server
from tfdeploy.runtime.verify.trial import Trial, attach

if TYPE_CHECKING:
    from typing import Any

    from dsl import ir
    from tfdeploy.runtime.verify.trial import Lab

DEVICES = 16
_servers: list[Any] = []  # TensorFlow cannot end one, so all trials of a process share it


class CrewTrial(Trial):
    """A chief and its workers; `compiled` and `session` are the chief's."""

    def __init__(self, lab: Lab, spec: ir.Spec) -> None:
        self._setters = {}
        self.compiled = lab.compile(spec)
        worker = self.compiled.plan.worker
        assert worker is not None
        self.graphs = [self.compiled, *(lab.compile(spec, at) for at in range(1, worker.count))]
        self.sessions = [lab.session(each, _target) for each in self.graphs]
        self.session = self.sessions[0]
        self._begin()
        before, total = 0, self.compiled.plan.global_batch
        for each, session in zip(self.graphs, self.sessions, strict=True):
            attach(each, session, lab.arrays, before, total)
            before += each.plan.own_batch
        if lab.start:
            self.assign(lab.start)

    def _begin(self) -> None:
        exchange = self.compiled.exchange
        assert exchange is not None
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
        """Let every worker put its gradients where the chief takes them; return the loss of all."""
        for each, session in zip(self.graphs, self.sessions, strict=True):
            assert each.exchange is not None
            session.run(each.exchange.post, {each.exchange.tick: self.tick})
        self.tick += 1
        assert self.compiled.exchange is not None
        return float(self.session.run([self.compiled.data_loss, self.compiled.exchange.apply])[0])

    def update(self, clone: int) -> float:
        """Let worker number `clone` do an update by itself, and return its loss."""
        graph = self.graphs[clone]
        assert graph.exchange is not None
        mine = {graph.exchange.coordination.mine: (self.tick, 0)}
        return float(self.sessions[clone].run([graph.data_loss, graph.exchange.step], mine)[0])


def _target() -> str:
    import tensorflow as tf

    if not _servers:
        _servers.append(loopback_server(tf.compat.v1.ConfigProto(device_count={"CPU": DEVICES})))
    return str(_servers[0].target)
