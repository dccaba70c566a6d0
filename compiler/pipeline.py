"""From a spec to a plan: all checks, then passes, each of which is a plain function.

Nothing here imports TensorFlow. `compiler.graph.build` continues from the plan.
"""

from __future__ import annotations

from collections.abc import Collection

from attrs import evolve

from compiler import topology
from compiler.checks import CHECKS
from compiler.compatibility import changing_job, keeps_all, replication_of
from compiler.model.elaborate import elaborate
from compiler.plan import Plan, Worker, WorkerPlan
from compiler.towers import lay_out_towers, workers_of
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError


def make_plan(
    spec: ir.Spec,
    *,
    emulate: bool = False,
    visible_gpus: int = 0,
    worker: int = 0,
    members: Collection[int] | None = None,
) -> Plan:
    """Check a spec and return its plan.

    Args:
        spec: The spec.
        emulate: Whether devices of this process stand for the devices of the spec.
        visible_gpus: The number of this machine's GPUs; it matters only if the spec declares no devices.
        worker: The number of the worker whose plan is wanted, if every worker has a graph of its own.
        members: The tasks that take part, if these come and go; None for all.

    Returns:
        The plan, with the warnings of the checks; a `WorkerPlan` if every worker has a graph of its own.

    Raises:
        SpecError: The spec is wrong; it carries everything that the checks found.
    """
    devices = topology.declare(spec.devices, visible_gpus, members)
    found: dict[Diagnostic, None] = {}
    for check in CHECKS:
        found |= dict.fromkeys(check(spec, devices))
        if any(each.is_error for each in found):
            raise SpecError(found)
    plan = Plan(
        spec=spec,
        model=elaborate(spec),
        topology=devices,
        towers=lay_out_towers(spec, devices),
        emulate=emulate,
        warnings=tuple(found),
    )
    return plan if replication_of(spec) == "in_graph" else for_worker(plan, worker)


def for_worker(plan: Plan, index: int) -> WorkerPlan:
    """Return the plan for the graph of one worker.

    Args:
        plan: The plan of all workers, or of another worker.
        index: The number of the worker.
    """
    workers = workers_of(plan.all_towers, plan.topology)
    host, towers = workers[index]
    return WorkerPlan(
        spec=plan.spec,
        model=plan.model,
        topology=evolve(plan.topology, home=host, alone=keeps_all(plan.spec)),
        towers=towers,
        emulate=plan.emulate,
        warnings=plan.warnings,
        worker=Worker(index, host, tuple(own for _, own in workers), changing_job(plan.spec) is not None),
    )
