"""Which deployments are grids of clones that are alike, and the same specs with fewer clones."""

from __future__ import annotations

from attrs import evolve, frozen

from compiler.kinds.grid import MapGrid, NotAlikeError
from compiler.plan import Plan, WorkerPlan
from dsl import ir
from dsl.ir.place import PARAMETER_SERVER
from dsl.schema import arguments_of

AGGREGATIONS = ("add_n", "collective")
"""The aggregations whose ops for one clone more are like those for another. What the others do, such as the
rounds of a ring, follows from the number of clones in a graph, which is that of all unless each worker has a
graph of its own."""

HIERARCHICAL = "hierarchical"
"""The aggregation by which the clones of each task are summed first, all of them or in groups."""

MANY = 24
"""If there are fewer clones, their own graph is built as fast as those of few clones."""

FEW, MORE = 2, 3
"""The tasks with clones, and the clones on each, in the two deployments that are built instead."""


def why_not(plan: Plan, least: int = MANY) -> str | None:
    """Return why the map of a plan is made from the graph of all its clones; None if it is not."""
    if len(plan.all_towers) < least:
        return "they are few"
    try:
        grid = grid_of(plan)
    except NotAlikeError as fault:
        return str(fault)
    of_graph = grid.groups if isinstance(plan, WorkerPlan) or grid.sums else MORE
    return "they are few" if grid.cut(MORE, of_graph) == grid else None


def grid_of(plan: Plan, *, rounds: bool = False) -> MapGrid:
    """Return the grid of the clones of a plan.

    Raises:
        NotAlikeError: They are laid out otherwise, or are not alike; the message says why, after "because".
    """
    towers = plan.all_towers
    first = towers[0].device
    own = [each for each in plan.topology.devices if (each.job, each.kind) == (first.job, first.kind)]
    hosts = len({each.host for each in plan.topology.devices if each.job == first.job})
    members = len(towers[0].devices)
    if len({each.batch for each in towers}) > 1:
        raise NotAlikeError("they have batches of different sizes")
    devices = [device for tower in towers for device in tower.devices]
    if first.job == PARAMETER_SERVER or len(towers) % hosts or devices != own:
        raise NotAlikeError("they do not have all devices of one kind, one each")
    groups = len(towers) // hosts
    grid = MapGrid(first.job, first.kind, hosts, groups, members, _sums(plan, hosts, groups))
    named = plan.spec.update.aggregate.name
    if isinstance(plan, WorkerPlan) and plan.keeps_all:
        raise NotAlikeError("each sends parts of its sums to others")
    if plan.spec.update.compress is not None:
        raise NotAlikeError("what each sends of its gradients is compressed")
    by_rounds = named not in AGGREGATIONS and not grid.sums and not isinstance(plan, WorkerPlan)
    if by_rounds and not rounds:
        raise NotAlikeError(f"the rounds of `{named}` depend on the number of clones")
    _require_same_for_all(plan, grid)
    return grid


def _require_same_for_all(plan: Plan, grid: MapGrid) -> None:
    """Check that no rule names a device of single clones, and that each clone has the same to do."""
    spec = plan.spec
    for rule in spec.place.rules:
        if isinstance(rule.target, ir.OverClones):
            raise NotAlikeError("each has other parts of the slots")
        if not all(_names_none_or_all(each, grid) for each in _patterns(rule.target)):
            raise NotAlikeError("a rule names devices of some of them")
        if _spreads(rule.target, grid):
            raise NotAlikeError("a rule spreads variables over their devices")


def _sums(plan: Plan, hosts: int, groups: int) -> int:
    """Return how many sums the clones of a task make, which are summed where the variables are; 0 if none.

    Copies of variables get the sums from one of the clones, another one for each variable. In mode `local`
    there are copies in any case. A worker with a graph of its own posts the total of its clones.
    """
    call = plan.spec.update.aggregate
    copied = plan.spec.update.mode == "local"
    copied |= any(isinstance(rule.target, ir.Replicated) for rule in plan.spec.place.rules)
    if call.name != HIERARCHICAL or copied or hosts == 1 or isinstance(plan, WorkerPlan):
        return 0
    size: int | None = arguments_of("aggregation", call).get("size")
    return 1 if size is None else -(-groups // size)


def _patterns(target: ir.Target) -> tuple[ir.DevicePattern, ...]:
    if isinstance(target, ir.DeviceSet):
        return target.patterns
    if isinstance(target, ir.Replicated | ir.GroupMember | ir.OverClones):
        return ()
    return target.devices.patterns


def _spreads(target: ir.Target, grid: MapGrid) -> bool:
    """Whether a target gives different variables to devices of different tasks or clones."""
    if not isinstance(target, ir.Balanced | ir.RoundRobin | ir.Sharded):
        return False
    of_clones = [each for each in _patterns(target) if each.job in (None, grid.job)]
    tasks = grid.hosts > 1 and any(each.tasks is None for each in of_clones)
    return tasks or any(each.kind == grid.kind and each.indices is None for each in of_clones)


def _names_none_or_all(pattern: ir.DevicePattern, grid: MapGrid) -> bool:
    """Whether a pattern names the first device or task, or all; those between are not there with fewer."""
    if pattern.job != grid.job and pattern.job is not None:
        return True
    indices = pattern.indices in (None, (0,)) or pattern.kind != grid.kind
    return indices and pattern.tasks in (None, (0,))


def with_grid(plan: Plan, grid: MapGrid) -> ir.Spec:
    """Return the spec of a plan for a grid with fewer clones of the same size."""
    spec, number = plan.spec, grid.groups * grid.members
    jobs = tuple(_job(each, grid) if each.name == grid.job else each for each in spec.devices.jobs)
    devices = evolve(spec.devices, jobs=jobs)
    if grid.job is None:
        devices = evolve(devices, gpu=number) if grid.kind == "gpu" else evolve(devices, cpu=number)
    count = None if spec.clones.count is None else grid.clones
    clones = evolve(spec.clones, count=count, batch=plan.towers[0].batch, global_batch=None)
    update = evolve(spec.update, backup=min(spec.update.backup, 1))  # a graph is the same for all above zero
    return evolve(spec, devices=devices, clones=clones, update=update)


def _job(job: ir.Job, grid: MapGrid) -> ir.Job:
    number = grid.groups * grid.members
    job = evolve(job, tasks=grid.hosts, hosts=job.hosts[: grid.hosts])
    return evolve(job, gpu=number) if grid.kind == "gpu" else evolve(job, cpu=number)


# --- what is made of many clones beside their map, which takes somewhat longer -----------------------------


@frozen
class Extras:
    """What is wanted beside the map.

    Attributes:
        graph: The ops of a step and the tensors between them, which are drawn.
        costs: What each op of a step costs. If the time of a step is forecast, this is known anyway.
        time: The forecast of the time of a step, if something is known to make it from. Without it, the costs
            are still those from which it can be made.
    """

    graph: bool = False
    costs: bool = False
    time: bool = True


NO_EXTRAS = Extras()
