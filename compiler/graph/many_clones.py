"""The placement map of many clones that are alike, without their graph.

Two graphs with few clones are built instead, of four and of nine at most. What the smaller one says of more
clones must be all that the larger one has, op for op; then it is also said of all clones. If it is not, the
clones are not alike in a way that is known here, and their own graph must be built.

If each worker has a graph of its own, the two graphs are those of the first worker with all its clones, among
two and among three workers.
"""

from __future__ import annotations

from attrs import evolve, field, frozen

from compiler.collector import collector_paused
from compiler.graph.assumed_sizes import forecast_memory, with_assumed_sizes
from compiler.graph.build import compile_graph
from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.mapping.explain_many import KnownReasons
from compiler.graph.inspect.mapping.placement_map import held_by_graph, map_placement
from compiler.graph.inspect.step.transfers import list_transfers
from compiler.graph.inspect.time.grow_parts import Among, grow_parts
from compiler.graph.inspect.time.timed_step import step_parts, timed_step
from compiler.graph.inspect.time.worker_steps import steps_of_all
from compiler.graph.tower.traces import Traces
from compiler.kinds.deployment.grid import Grid, NotAlikeError, Spot
from compiler.kinds.deployment.layout import FEW, MANY, MORE, grid_of, sums_by_task, why_not, with_grid
from compiler.kinds.expanding.expand import devices_of, expand
from compiler.kinds.growing.grow import kinds_of
from compiler.kinds.growing.grow_step import FewSteps, grow_step, has_same_work
from compiler.kinds.growing.memory import Peak, with_memory
from compiler.kinds.growing.times import with_time
from compiler.kinds.growing.workers import Workers, held_for_each
from compiler.kinds.names.counting import counted_names
from compiler.kinds.names.patterns import Counted, Patterns
from compiler.kinds.records.kind_map import KindMap
from compiler.mapping.records import PlacementMap
from compiler.pipeline import make_plan
from compiler.plan import Plan, WorkerPlan
from compiler.threads import cores
from compiler.time.costs import choose_costs
from compiler.time.forecast import StepForecast, forecast_step
from compiler.time.profile import FoundProfile
from compiler.time.work import StepWork
from dsl.diagnostics import Diagnostic, SpecError

_UNLIKE = {
    False: "the graph of nine has what does not follow from that of four",
    True: "the graph for three tasks has what does not follow from that for two",
}
"""Why clones are not alike in a way that is known, by whether all clones of a few tasks are compared."""


@frozen
class ManyClones:
    """The map of many clones.

    Attributes:
        placement: The map, by kinds.
        warnings: The warnings about the spec.
        reasons: What explains why ops are where they are.
        time: The forecast of the time of a step, if something is known to make it from. Of many tasks it has
            the first and the last one, which stands for the others.
    """

    placement: KindMap = field(repr=False)
    warnings: tuple[Diagnostic, ...]
    reasons: KnownReasons = field(repr=False)
    time: StepForecast | None = field(default=None, repr=False)


def map_many(
    plan: Plan, *, base: str = ".", least: int = MANY, machine: FoundProfile | None = None, fold: bool = True
) -> ManyClones:
    """Return the map of the clones of a plan.

    Args:
        plan: The plan.
        base: The folder in which `python(...)` looks for modules first, and from which files start.
        least: The number of clones from which this is worth it.
        machine: The profile of the machine; without one, the time of a step is forecast if the spec names its
            hardware (`devices.kind`).
        fold: Whether one task may stand for others in the forecast of time.

    Raises:
        NotAlikeError: Their own graph has to be built for it; the message says why, after "because".
    """
    reason = why_not(plan, least)
    if reason is not None:
        raise NotAlikeError(reason)
    try:
        with collector_paused():
            return _map_many(plan, grid_of(plan), base, machine, fold=fold)
    except SpecError as fault:  # what is wrong with the spec is said of its own graph
        raise NotAlikeError("a graph with fewer of them cannot be built") from fault


def _map_many(plan: Plan, grid: Grid, base: str, machine: FoundProfile | None, *, fold: bool) -> ManyClones:
    traces = Traces(base)
    apart = isinstance(plan, WorkerPlan)
    whole = apart or sums_by_task(plan)
    few, more = (grid.cut(count, grid.groups if whole else count) for count in (FEW, MORE))
    compiled = first = _compiled(plan, few, traces)
    small = map_placement(compiled, sent=list_transfers(compiled, named=None))
    compiled = _compiled(plan, more, traces)
    larger = map_placement(compiled)
    one_pipe = not apart and not any(op.name.startswith("input/1/") for op in small.ops)
    counted: tuple[dict[str, Counted], dict[str, Counted]] = ({}, {})
    if not apart:
        counted = counted_names(_unplaced(small, few), _unplaced(larger, more), (few.clones, more.clones))
    sums = whole and not apart
    patterns = Patterns(few, counted[0], one_pipe, apart, sums_of_tasks=sums)
    workers = _workers(first, compiled, patterns) if apart else None
    tasks = Patterns(few, counted[0], one_pipe, apart, by_group=False, sums_of_tasks=sums) if whole else None
    if expand(kinds_of(small, patterns, more, compiled.plan, tasks, workers)) != larger:
        raise NotAlikeError(_UNLIKE[whole])
    found = kinds_of(small, patterns, grid, plan, tasks, workers)
    named = [(each.ref, each.device) for each in devices_of(found)]
    if named != [(each.ref, plan.tensorflow_device(each)) for each in plan.topology.devices]:
        raise NotAlikeError("their devices are not all like those of a few")
    peaks = {ref: Peak(each.bytes, each.alive) for ref, each in forecast_memory(compiled).items()}
    larger_names = Patterns(more, counted[1], one_pipe, apart, by_group=not whole, sums_of_tasks=sums)
    found = with_memory(found, peaks, larger_names)
    own = compiled.warnings[len(compiled.plan.warnings) :]
    time = None
    if machine is not None or plan.spec.devices.kind is not None:
        work: StepWork
        if apart:
            assert tasks is not None
            work = _work_of_workers((first, few), (compiled, more), tasks, grid, plan, fold=fold)
        else:
            known = FewSteps(_step(first), tasks or patterns, _step(compiled), more)
            if not has_same_work(grow_step(known, more, compiled.plan), known.more):
                raise NotAlikeError("the step of nine has what does not follow from that of four")
            work = grow_step(known, grid, plan, fold=fold and _is_large(known.few, grid))
        time = _time(work, plan, machine)
        if time is not None:
            source = machine.path if machine is not None else plan.spec.devices.kind or ""
            found = with_time(found, time.for_map(source))
    reasons = KnownReasons(first, patterns, tasks)
    return ManyClones(found, (*plan.warnings, *own), reasons, time)


def _workers(few: CompiledGraph, more: CompiledGraph, patterns: Patterns) -> Workers:
    """Return what is known of all workers from the graphs of the first one among a few, and among more."""
    assert few.exchange is not None
    assert more.exchange is not None
    assert isinstance(few.plan, WorkerPlan)
    held, of_more = (
        [each for each, kind in held_by_graph(compiled) if kind == "other"] for compiled in (few, more)
    )
    counts = (few.exchange.worker.count, more.exchange.worker.count)
    return Workers(
        few.exchange.chief_ops,
        list_transfers(few, of_worker=few.plan.worker.host, named=None),
        held_for_each(held, of_more, patterns, counts),
    )


def _step(compiled: CompiledGraph) -> StepWork:
    return timed_step(with_assumed_sizes(compiled))


def _is_large(few: StepWork, grid: Grid) -> bool:
    """Whether one of the tasks with clones may stand for others."""
    return not few.one_process and grid.hosts > MORE


def _work_of_workers(
    few: tuple[CompiledGraph, Grid],
    more: tuple[CompiledGraph, Grid],
    patterns: Patterns,
    grid: Grid,
    plan: Plan,
    *,
    fold: bool,
) -> StepWork:
    """Return the work of a step of many workers, each of which has a graph of its own.

    Args:
        few: The graph of the first of a few workers, and their grid.
        more: That of the first of more workers.
        patterns: The names in the graph among a few, with places for the numbers of tasks alone.
        grid: The grid of all workers.
        plan: The plan of all.
        fold: Whether one worker may stand for others.
    """
    assert isinstance(plan, WorkerPlan)
    parts = grow_parts(_among(*few), _among(*more), patterns, grid, plan)
    fold = fold and not plan.emulate and grid.hosts > MORE
    return steps_of_all(plan, parts, fold=fold)


def _among(compiled: CompiledGraph, grid: Grid) -> Among:
    assert isinstance(compiled.plan, WorkerPlan)
    return Among(compiled.plan, grid, step_parts(with_assumed_sizes(compiled)))


def _time(work: StepWork, plan: Plan, machine: FoundProfile | None) -> StepForecast | None:
    """Return the forecast of the time of a step, or None if the costs of its ops are not known."""
    profile = machine.profile if machine is not None else None
    costs = choose_costs(work, plan.spec.devices, profile, cores())
    return None if costs is None else forecast_step(work, costs)


def _compiled(plan: Plan, grid: Grid, traces: Traces) -> CompiledGraph:
    smaller = make_plan(with_grid(plan, grid), emulate=plan.emulate)
    return compile_graph(evolve(smaller, model=plan.model), base=traces.base, seed=0, traces=traces)


def _unplaced(placement: PlacementMap, grid: Grid) -> list[str]:
    """Return the names of ops that say of no clone that they are of it."""
    patterns = Patterns(grid)
    return [op.name for op in placement.ops if op.clone is None and patterns.of(op.name).spot == Spot()]
