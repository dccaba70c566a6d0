"""The pipeline up to the plan: checks first, all of them, then passes, each a plain function.

Nothing here imports TensorFlow. `compiler.graph.build` goes on from the plan.
"""

from __future__ import annotations

from attrs import evolve

from compiler import topology
from compiler.checks import CHECKS
from compiler.compatibility import replication_of
from compiler.model.elaborate import elaborate
from compiler.plan import Plan, Worker
from compiler.towers import lay_out_towers, workers_of
from dsl import ir
from dsl.diagnostics import Diagnostics, SpecError


def make_plan(spec: ir.Spec, *, emulate: bool = False, visible_gpus: int = 0, worker: int = 0) -> Plan:
    """Return the plan of a checked spec.

    `visible_gpus` counts this machine's GPUs and matters only where the spec declares no devices. Where every
    worker has a graph of its own, the plan is that of worker number `worker`. What the checks warn of is
    kept in the plan. Raises SpecError with everything that the checks found where that makes the spec wrong.
    """
    devices = topology.declare(spec.devices, visible_gpus)
    found = Diagnostics()
    for check in CHECKS:
        found.extend(check(spec, devices))
        if found.has_errors:
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


def for_worker(plan: Plan, index: int) -> Plan:
    """Return the part of a plan that is the graph of worker number `index`."""
    workers = workers_of(plan.all_towers, plan.topology)
    host, towers = workers[index]
    return evolve(
        plan,
        topology=evolve(plan.topology, home=host),
        towers=towers,
        worker=Worker(index, host, tuple(own for _, own in workers)),
    )
