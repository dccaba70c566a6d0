"""Reports of workers about their own updates, through variables on the task with the global step (async)."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from attrs import define, field

from compiler.graph.workers.updates import REPORTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compiler.graph.workers.coordination import State
    from tfdeploy.runtime.cluster.workers.worker_group import WorkerGroup


@define
class UpdateReporter:
    """Makes updates of a worker that are reported, as often as steps are logged.

    Attributes:
        group: The worker's view of all workers.
    """

    group: WorkerGroup = field(repr=False)
    _told_at: int = field(default=0, init=False)  # updates of the worker
    _since: float = field(factory=time.monotonic, init=False)
    _made: int = field(default=0, init=False)

    def is_due(self, state: State) -> bool:
        """Whether the next update is to be reported."""
        every = self.group.engine.compiled.plan.spec.train.log_every
        share = max(every // self.group.worker.count, 1)
        self._made = state.done[self.group.worker.index] + 1
        return self._made // share > self._told_at // share

    def update(self) -> Any:
        """Make an update and report it; return the values of `WorkerExchange.step`."""
        compiled, exchange = self.group.engine.compiled, self.group.exchange
        metrics = [each.result for each in compiled.metrics.values()]
        numbers, loss, data_loss, metrics = self.group.engine.repeated(
            "reported update",
            lambda: [exchange.step, compiled.total_loss, compiled.data_loss, metrics],
            {self.group.ops.mine: self.group.mine},
        )
        now = time.monotonic()
        speed = (self._made - self._told_at) * compiled.plan.own_batch / max(now - self._since, 1e-9)
        self._told_at, self._since = self._made, now
        report = [self._made, loss, data_loss, speed, *map(float, metrics)]
        self.group.engine.session.run(exchange.send_report, {exchange.report: report})
        return numbers


@define
class UpdateReports:
    """The reports of the other workers, each of which is returned once.

    Attributes:
        group: The worker's view of all workers.
    """

    group: WorkerGroup = field(repr=False)
    _seen: dict[int, float] = field(factory=dict, init=False)

    def new_reports(self) -> Iterator[tuple[str, float, float, float, dict[str, float]]]:
        """Yield worker, loss, loss without regularisation, examples per second and metrics of new reports."""
        exchange, worker = self.group.exchange, self.group.worker
        if exchange.reports is None:
            return
        names = list(self.group.engine.compiled.metrics)
        for index, row in enumerate(self.group.engine.session.run(exchange.reports)):
            numbers = list(map(float, row))
            (made, loss, data_loss, speed), metrics = numbers[:REPORTED], numbers[REPORTED:]
            if index == worker.index or made in (0.0, self._seen.get(index)) or not math.isfinite(loss):
                continue
            self._seen[index] = made
            yield worker.task(index), loss, data_loss, speed, dict(zip(names, metrics, strict=True))
