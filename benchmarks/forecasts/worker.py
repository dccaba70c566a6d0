"""A process that forecasts and measures layouts: `python -m benchmarks.forecasts.worker`.

It reads requests as lines of JSON and answers each with one. The first says which specs it is for and, if
the layouts are of two processes, the addresses of both and which of them it is. The first process of two
measures, and the second takes part.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from attrs import define, field

from benchmarks.forecasts.steps import ReplicaSteps, Steps, WorkerSteps
from dsl import ir
from tfdeploy.runtime.membership.addresses import Cluster, Task
from tfdeploy.runtime.start_tensorflow import start_tensorflow


@define
class _Process:
    task: int
    addresses: list[str]
    layouts: list[Any] = field(factory=list)
    server: Any = None

    def build(self, specs: list[str]) -> None:
        import grammar
        from compiler.pipeline import for_worker
        from compiler.plan import WorkerPlan
        from compiler.process import intra_op_threads
        from tfdeploy.runtime.plans import graph_of, plan_of

        for text in specs:
            reading = grammar.read("case.tfdeploy", text=text)
            assert reading.spec is not None, [each.message for each in reading.diagnostics]
            plan = plan_of(reading.spec)
            if isinstance(plan, WorkerPlan):
                plan = for_worker(plan, self.task)
            if self.addresses and self.server is None:
                self.server = _server(self.addresses, self.task, plan.spec)
            if self.task and not isinstance(plan, WorkerPlan):
                continue  # the other process has the graph
            steps = Steps(graph_of(plan), self.server.target if self.server is not None else "")
            if not isinstance(plan, WorkerPlan):
                self.layouts.append(steps)
                continue
            self.layouts.append((ReplicaSteps if plan.keeps_all else WorkerSteps)(steps))
            if self.task:
                threading.Thread(target=self.layouts[-1].follow, daemon=True).start()
        pools = {intra_op_threads(_graph(each).plan) for each in self.layouts}
        assert len(pools) <= 1, f"the layouts of a process have one number of threads for an op, not {pools}"

    def forecast(self, profile: str) -> list[tuple[float, float]]:
        from compiler.step.read.work import forecast_time
        from compiler.time.profile import FoundProfile, read_profile

        known, found = FoundProfile(profile, read_profile(profile)), []
        for each in self.layouts:
            forecast = forecast_time(_graph(each).sized_step, known)
            assert forecast is not None
            found.append((forecast.seconds, forecast.measured))
        return found


def _graph(layout: Any) -> Any:
    return layout.compiled if isinstance(layout, Steps) else layout.steps.compiled


def _server(addresses: list[str], task: int, spec: ir.Spec) -> Any:
    import tensorflow as tf

    from tfdeploy.runtime.cluster.binding import listening_at
    from tfdeploy.runtime.cluster.server import server_config

    cluster = Cluster.of({"worker": addresses})
    host, _, port = addresses[task].rpartition(":")
    definition = tf.train.ServerDef(
        cluster=cluster.to_tensorflow().as_cluster_def(),
        job_name="worker",
        task_index=task,
        protocol="grpc",
        default_session_config=server_config(spec, Task("worker", task), cluster),
    )
    with listening_at(host, int(port)):
        return tf.distribute.Server(definition)


def main() -> None:
    """Answer requests until there are none left."""
    start_tensorflow()
    first = json.loads(sys.stdin.readline())
    process = _Process(first["task"], first["addresses"])
    process.build(first["specs"])
    _answer(True)
    for line in sys.stdin:
        request = json.loads(line)
        if "measure" in request:
            _answer(process.layouts[request["measure"]].measure(request["seconds"]))
        else:
            _answer(process.forecast(request["profile"]))


def _answer(value: Any) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
