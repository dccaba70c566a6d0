"""A run of a worker that is not the chief, in a process of its own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tfdeploy.runtime.cluster.choose_target import target_for
from tfdeploy.runtime.cluster.worker_steps import WorkerLoop
from tfdeploy.runtime.plans import graph_of
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.result import Clock, Result
from tfdeploy.runtime.session.data import open_stream, require_shares, splits_of
from tfdeploy.runtime.show.reporting import duration, number
from tfdeploy.runtime.watchdog import Activity, waiting_for

if TYPE_CHECKING:
    from compiler.plan import Plan
    from tfdeploy.runtime.options import RunOptions
    from tfdeploy.runtime.stop import StopSignals


def run_worker(plan: Plan, options: RunOptions, stop: StopSignals, activity: Activity) -> Result:
    """Train as a worker that is not the chief.

    Returns:
        A result that has the global step at the end and the seconds, and nothing else.
    """
    clock, spec = Clock(), plan.spec
    train = splits_of(spec)["train"]
    with activity.doing("reading the first example of `train`", train.source.span):
        stream = open_stream(plan, train, plan.model.inputs, training=True, seed=spec.train.seed)
        require_shares(plan, stream)
    activity.causes["train"] = waiting_for(stream.source)
    with target_for(plan, options, stop, stream) as open_target:
        begun = time.perf_counter()
        with options.reporter.busy(f"building the graph of {plan.model.name}"):
            compiled = graph_of(plan)
        clock.compile = time.perf_counter() - begun
        stop.check()
        with open_target(compiled) as target:
            options.reporter.note(f"compiled in {duration(clock.compile)}")
            step = WorkerLoop(compiled, stream, target, stop, options.reporter, activity).train()
    stop.check()
    options.reporter.note(f"training is over at step {number(step)}")
    return Result(
        status="finished",
        steps=step,
        loss=None,
        metrics={},
        examples_per_second=None,
        seconds=clock.seconds(),
        directory=str(RunDirectory.of(spec).path),
    )
