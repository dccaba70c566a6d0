"""The work of a step of many clones that are alike, and the forecast of its time, without their graph."""

from __future__ import annotations

from compiler.graph.compiled import CompiledGraph
from compiler.graph.forecasts.assumed_sizes import sized_step
from compiler.kinds.deployment.grid import MapGrid, NotAlikeError
from compiler.kinds.deployment.layout import MORE
from compiler.kinds.growing.grow_parts import Among, grow_parts
from compiler.kinds.growing.grow_step import FewSteps, grow_step, has_same_work
from compiler.kinds.names.patterns import Patterns
from compiler.plan import Plan, WorkerPlan
from compiler.process import cores, on_one_machine
from compiler.step.read.work import step_parts, timed_step
from compiler.step.read.workers import steps_of_all
from compiler.time.costs import choose_costs
from compiler.time.forecast import StepForecast, forecast_step
from compiler.time.profile import FoundProfile
from compiler.time.work import StepWork

MOST_ALONE = 64
"""How many clones, or workers, that update by themselves are simulated one by one, at most."""


def is_timed(plan: Plan, machine: FoundProfile | None) -> bool:
    """Whether something is known to forecast the time of a step from.

    Args:
        plan: The plan.
        machine: The profile of the machine, if there is one.
    """
    return machine is not None or plan.spec.devices.kind is not None


def require_few_alone(plan: Plan, grid: MapGrid) -> None:
    """Check that not very many clones update by themselves of which none can stand for others.

    Raises:
        NotAlikeError: There are too many to simulate their updates.
    """
    loops = grid.hosts if isinstance(plan, WorkerPlan) else grid.clones
    if plan.spec.update.mode == "async" and not stands(plan, grid, timed=True) and loops > MOST_ALONE:
        raise NotAlikeError("the time of updates is forecast that each makes by itself")


def stands(plan: Plan, grid: MapGrid, *, timed: bool) -> bool:
    """Whether one of the tasks with clones may stand for others in the work of a step.

    Clones that are not in step would take the cores of a machine from each other that they share, all at the
    same moment, if one stood for others. That matters for the time of a step if they compute on these cores.
    """
    if grid.job is None or grid.hosts <= MORE:
        return False
    if not timed:
        return True
    if plan.emulate:
        return False
    in_step = plan.spec.update.mode != "async"
    return in_step or grid.kind == "gpu" or not on_one_machine(plan.spec.devices.jobs)


def work_of_many(
    plan: Plan,
    grid: MapGrid,
    pair: tuple[tuple[CompiledGraph, MapGrid], tuple[CompiledGraph, MapGrid]],
    patterns: Patterns,
    *,
    fold: bool,
) -> StepWork:
    """Return the work of a step of many clones.

    Args:
        plan: The plan of all clones.
        grid: Their grid.
        pair: The graphs with a few clones and with somewhat more, each with its grid. If each worker has a
            graph of its own, these are those of the first worker.
        patterns: The names in the graph with a few, with places for the numbers of tasks alone if the clones
            of a task are not alike.
        fold: Whether one task may stand for others.

    Raises:
        NotAlikeError: The work of many does not follow from that of the few.
    """
    few, more = pair
    if isinstance(plan, WorkerPlan):
        parts = grow_parts(_among(*few), _among(*more), patterns, grid, plan)
        return steps_of_all(plan, parts, fold=fold)
    known = FewSteps(_step(few[0]), patterns, _step(more[0]), more[1])
    if not has_same_work(grow_step(known, more[1], more[0].plan), known.more):
        raise NotAlikeError("the step of nine has what does not follow from that of four")
    return grow_step(known, grid, plan, fold=fold)


def forecast_of(work: StepWork, plan: Plan, machine: FoundProfile | None) -> StepForecast | None:
    """Return the forecast of the time of a step, or None if the costs of its ops are not known.

    Args:
        work: The work of the step.
        plan: The plan of all clones.
        machine: The profile of the machine; without one, the spec names its hardware.
    """
    profile = machine.profile if machine is not None else None
    costs = choose_costs(work, plan.spec.devices, profile, cores())
    return None if costs is None else forecast_step(work, costs)


def _step(compiled: CompiledGraph) -> StepWork:
    return timed_step(sized_step(compiled))


def _among(compiled: CompiledGraph, grid: MapGrid) -> Among:
    assert isinstance(compiled.plan, WorkerPlan)
    return Among(compiled.plan, grid, step_parts(sized_step(compiled)))
