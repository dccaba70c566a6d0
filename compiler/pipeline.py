"""The pipeline up to the plan: checks first, all of them, then passes, each a plain function.

Nothing here imports TensorFlow. `compiler.graph.build` goes on from the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import evolve

from compiler import topology
from compiler.checks.batches import batches_fit_clones
from compiler.checks.groups import groups_fit_devices
from compiler.checks.legality import choices_go_together
from compiler.checks.loss import model_has_a_loss
from compiler.checks.targets import targets_name_devices
from compiler.checks.workers import workers_are_whole
from compiler.legality import replication_of
from compiler.passes.towers import lay_out_towers, workers_of
from compiler.plan import Plan, Worker
from dsl import ir
from dsl.diagnostics import Diagnostic, Diagnostics, SpecError

Check = Callable[[ir.Spec, topology.Topology], Iterable[Diagnostic]]

CHECKS: tuple[Check, ...] = (
    model_has_a_loss,
    choices_go_together,
    targets_name_devices,
    groups_fit_devices,
    batches_fit_clones,
    workers_are_whole,
)


CHECKS_OF_THE_SPEC: tuple[Check, ...] = (
    choices_go_together,
    targets_name_devices,
    groups_fit_devices,
    batches_fit_clones,
    workers_are_whole,
)
"""Those that need neither this machine nor a graph, so that `check` can make them."""


def check_spec(spec: ir.Spec) -> list[Diagnostic]:
    """Return what is wrong with the plan of a spec as far as the spec alone tells.

    Where it declares no devices, it is for the machine to say which there are, and how many clones.
    """
    declared = spec.devices.jobs or spec.devices.gpu is not None or spec.devices.cpu is not None
    devices = topology.declare(spec.devices, 0)
    for check in CHECKS_OF_THE_SPEC if declared else (choices_go_together,):
        found = list(check(spec, devices))
        if found:
            return found
    return []


def make_plan(spec: ir.Spec, *, emulate: bool = False, visible_gpus: int = 0, worker: int = 0) -> Plan:
    """Return the plan of a checked spec.

    `visible_gpus` counts this machine's GPUs and matters only where the spec declares no devices. Where every
    worker has a graph of its own, the plan is that of worker number `worker`. Raises SpecError with
    everything that the checks found.
    """
    devices = topology.declare(spec.devices, visible_gpus)
    found = Diagnostics()
    for check in CHECKS:
        found.extend(check(spec, devices))
        if found.has_errors:
            raise SpecError(found)
    from compiler.elaborate import elaborate  # `check` comes here too, and makes no plan

    plan = Plan(
        spec=spec,
        model=elaborate(spec),
        topology=devices,
        towers=lay_out_towers(spec, devices),
        emulate=emulate,
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
