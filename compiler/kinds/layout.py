"""Which deployments are grids of clones that are alike, and the same specs with fewer clones."""

from __future__ import annotations

from attrs import evolve

from compiler.kinds.grid import Grid
from compiler.plan import Plan
from compiler.topology import PARAMETER_SERVER
from dsl import ir

AGGREGATIONS = ("add_n", "collective")
"""The aggregations whose ops for one clone more are like those for another. What the others do, such as the
rounds of a ring, follows from the number of all clones."""


MANY = 24
"""If there are fewer clones, their own graph is built as fast as those of few clones."""

FEW, MORE = 2, 3
"""The tasks with clones, and the clones on each, in the two deployments that are built instead."""


def has_many(plan: Plan, least: int = MANY) -> bool:
    """Whether the map of a plan with many clones is made from deployments with few of them.

    Args:
        plan: The plan.
        least: The number of clones from which this is worth it.
    """
    grid = grid_of(plan)
    return grid is not None and grid.clones >= least and grid.cut(MORE, MORE) != grid


def grid_of(plan: Plan) -> Grid | None:
    """Return the grid of the clones of a plan, or None if they are laid out otherwise, or not alike.

    Args:
        plan: The plan of a graph with all clones.
    """
    towers = plan.towers
    first = towers[0].device
    own = [each for each in plan.topology.devices if (each.job, each.kind) == (first.job, first.kind)]
    hosts = len({each.host for each in plan.topology.devices if each.job == first.job})
    members = len(towers[0].devices)
    if type(plan) is not Plan or first.job == PARAMETER_SERVER or len(towers) % hosts:
        return None
    grid = Grid(first.job, first.kind, hosts, len(towers) // hosts, members)
    devices = [device for tower in towers for device in tower.devices]
    alike = len({(each.batch, len(each.devices)) for each in towers}) == 1
    if not alike or devices != own or not _same_for_all(plan, grid):
        return None
    return grid


def _same_for_all(plan: Plan, grid: Grid) -> bool:
    """Whether no rule names a device of single clones, and the sum of gradients treats all clones alike."""
    spec = plan.spec
    aggregation = spec.update.aggregate.name in AGGREGATIONS and spec.update.mode != "local"
    sharing = spec.data is None or spec.data.per_clone == "split"
    targets = [rule.target for rule in spec.place.rules]
    divided = any(isinstance(each, ir.OverClones) for each in targets)  # each clone has something else
    named = (each for target in targets for each in _patterns(target))
    return aggregation and sharing and not divided and all(_names_none_or_all(each, grid) for each in named)


def _patterns(target: ir.Target) -> tuple[ir.DevicePattern, ...]:
    if isinstance(target, ir.DeviceSet):
        return target.patterns
    if isinstance(target, ir.Replicated | ir.GroupMember | ir.OverClones):
        return ()
    return target.devices.patterns


def _names_none_or_all(pattern: ir.DevicePattern, grid: Grid) -> bool:
    """Whether a pattern names the first device or task, or all; those between are not there with fewer."""
    if pattern.job != grid.job and pattern.job is not None:
        return True
    indices = pattern.indices in (None, (0,)) or pattern.kind != grid.kind
    return indices and pattern.tasks in (None, (0,))


def with_grid(plan: Plan, grid: Grid) -> ir.Spec:
    """Return the spec of a plan for a grid with fewer clones of the same size."""
    spec, number = plan.spec, grid.groups * grid.members
    jobs = tuple(_job(each, grid) if each.name == grid.job else each for each in spec.devices.jobs)
    devices = evolve(spec.devices, jobs=jobs)
    if grid.job is None:
        devices = evolve(devices, gpu=number) if grid.kind == "gpu" else evolve(devices, cpu=number)
    count = None if spec.clones.count is None else grid.clones
    clones = evolve(spec.clones, count=count, batch=plan.towers[0].batch, global_batch=None)
    return evolve(spec, devices=devices, clones=clones)


def _job(job: ir.Job, grid: Grid) -> ir.Job:
    number = grid.groups * grid.members
    job = evolve(job, tasks=grid.hosts, hosts=job.hosts[: grid.hosts])
    return evolve(job, gpu=number) if grid.kind == "gpu" else evolve(job, cpu=number)
