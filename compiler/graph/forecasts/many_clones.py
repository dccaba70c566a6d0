"""The placement map of many clones that are alike, without their graph.

Two graphs with few clones are built instead, of four and of nine at most. What the smaller one says of more
clones must be all that the larger one has, op for op; then it is also said of all clones. If it is not, the
clones are not alike in a way that is known here, and their own graph must be built.

If each worker has a graph of its own, the two graphs are those of the first worker with all its clones, among
two and among three workers.
"""

from __future__ import annotations

from functools import partial

from attrs import evolve, field, frozen

from compiler.collector import collector_paused
from compiler.graph.build import compile_step
from compiler.graph.compiled import CompiledGraph
from compiler.graph.forecasts.assumed_sizes import forecast_memory
from compiler.graph.forecasts.work_of_many import (
    forecast_of,
    is_timed,
    require_few_alone,
    stands,
    work_of_many,
)
from compiler.graph.inspect.mapping.placement_map import map_placement
from compiler.graph.size import too_large_to_run
from compiler.graph.tower.traces import Traces
from compiler.kinds.deployment.grid import Grid, NotAlikeError
from compiler.kinds.deployment.layout import (
    FEW,
    MANY,
    MORE,
    grid_of,
    why_not,
    with_grid,
)
from compiler.kinds.growing.grow import kinds_of
from compiler.kinds.growing.grow_graph import FewGraphs, grow_graph
from compiler.kinds.growing.memory import Peak, Peaks, with_memory
from compiler.kinds.growing.times import with_time
from compiler.kinds.growing.workers import Workers, held_for_each
from compiler.kinds.names.counting import counted_names
from compiler.kinds.names.patterns import Patterns, Pipes
from compiler.kinds.records.extras import NO_EXTRAS, Extras
from compiler.kinds.records.kind_map import KindMap
from compiler.kinds.records.step_kinds import StepKinds
from compiler.kinds.why import KnownReasons
from compiler.mapping.records import PlacementMap
from compiler.pipeline import make_plan
from compiler.plan import Plan, WorkerPlan
from compiler.readers import each_clone_reads
from compiler.step.read.held import held_variables
from compiler.step.read.ops import step_graph
from compiler.step.read.transfers import list_transfers
from compiler.time.forecast import StepForecast
from compiler.time.profile import FoundProfile
from compiler.time.work import StepWork
from dsl.diagnostics import Diagnostic, SpecError

_SEED = 0
"""The seed of the graphs with few clones, by which their traced towers are found again."""

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
        step: The ops of a step and the tensors between them, if they are asked for.
        work: The ops of a step and what each costs, if the time is forecast from it, or if it is asked for.
            Of many tasks it has the first and the last one.
    """

    placement: KindMap = field(repr=False)
    warnings: tuple[Diagnostic, ...]
    reasons: KnownReasons = field(repr=False)
    time: StepForecast | None = field(default=None, repr=False)
    step: StepKinds | None = field(default=None, repr=False)
    work: StepWork | None = field(default=None, repr=False)


def map_many(
    plan: Plan,
    *,
    base: str = ".",
    least: int = MANY,
    machine: FoundProfile | None = None,
    fold: bool = True,
    extras: Extras = NO_EXTRAS,
    traces: Traces | None = None,
) -> ManyClones:
    """Return the map of the clones of a plan.

    Args:
        plan: The plan.
        base: The folder in which `python(...)` looks for modules first, and from which files start.
        least: The number of clones from which this is worth it.
        machine: The profile of the machine; without one, the time of a step is forecast if the spec names its
            hardware (`devices.kind`).
        fold: Whether one task may stand for others in the work of a step and the forecast of its time.
        extras: What is wanted beside the map.
        traces: Traced towers that may be used again; those that they lack are added to them.

    Raises:
        NotAlikeError: Their own graph has to be built for it; the message says why, after "because".
    """
    reason = why_not(plan, least)
    if reason is not None:
        raise NotAlikeError(reason)
    try:
        with collector_paused():
            return _map_many(plan, grid_of(plan), traces or Traces(base), machine, extras, fold=fold)
    except SpecError as fault:  # what is wrong with the spec is said of its own graph
        raise NotAlikeError("a graph with fewer of them cannot be built") from fault


def _map_many(
    plan: Plan, grid: Grid, traces: Traces, machine: FoundProfile | None, extras: Extras, *, fold: bool
) -> ManyClones:
    apart = isinstance(plan, WorkerPlan)
    timed = extras.time and is_timed(plan, machine)
    simulated = timed or not extras.time
    if simulated:
        require_few_alone(plan, grid)
    whole = apart or grid.sums > 0
    few, more = (grid.cut(count, grid.groups if whole else count) for count in (FEW, MORE))
    compiled = first = _compiled(plan, few, traces)
    small = map_placement(compiled, sent=list_transfers(compiled.step, named=None))
    compiled = _compiled(plan, more, traces)
    larger = map_placement(compiled)
    pipes = _pipes(plan, small)
    patterns, of_more = (Patterns(each, {}, pipes, apart) for each in (few, more))
    if not apart:
        _count(patterns, small, of_more, larger)
    workers = _workers(first, compiled, patterns) if apart else None
    tasks = patterns.by_task() if whole else None
    if kinds_of(small, patterns, more, compiled.plan, tasks, workers).expanded() != larger:
        raise NotAlikeError(_UNLIKE[whole])
    found = kinds_of(small, patterns, grid, plan, tasks, workers)
    named = [(each.ref, each.device) for each in found.devices]
    if named != [(each.ref, plan.tensorflow_device(each)) for each in plan.topology.devices]:
        raise NotAlikeError("their devices are not all like those of a few")
    found = with_memory(
        found, _peaks(compiled, of_more, whole=whole), partial(_peaks, first, patterns, whole=whole)
    )
    own = compiled.warnings[len(compiled.plan.warnings) :]
    work = time = None
    if timed or extras.costs:
        fold = fold and stands(plan, grid, timed=simulated)
        work = work_of_many(plan, grid, ((first, few), (compiled, more)), tasks or patterns, fold=fold)
    if timed and work is not None:
        time = forecast_of(work, plan, machine)
    if time is not None:
        source = machine.path if machine is not None else plan.spec.devices.kind or ""
        found = with_time(found, time.for_map(source))
    reasons = KnownReasons(first.step, patterns, tasks)
    traced = traces.of(evolve(plan, model=compiled.plan.model), _SEED)
    large = too_large_to_run(plan, traced.templates)
    step = None
    if extras.graph:
        steps = step_graph(first.step), step_graph(compiled.step)
        step = grow_graph(FewGraphs(small, steps[0], tasks or patterns, larger, steps[1], more), grid)
    return ManyClones(found, (*plan.warnings, *own, *large), reasons, time, step, work)


def _require_servers(compiled: CompiledGraph, grid: Grid) -> None:
    """Check that what workers share is not on devices of one of them, which is then not like the others."""
    if any(job == grid.job for job, _ in compiled.step.homes):
        raise NotAlikeError("what workers share is on devices of some of them")


def _pipes(plan: Plan, few: PlacementMap) -> Pipes:
    """Return what has a pipe of examples of its own.

    Args:
        plan: The plan of all clones.
        few: The map of a few of them.
    """
    if each_clone_reads(plan):
        return "clone"
    several = isinstance(plan, WorkerPlan) or any(op.name.startswith("input/1/") for op in few.ops)
    return "task" if several else "one"


def _workers(few: CompiledGraph, more: CompiledGraph, patterns: Patterns) -> Workers:
    """Return what is known of all workers from the graphs of the first one among a few, and among more."""
    assert few.exchange is not None
    assert more.exchange is not None
    assert isinstance(few.plan, WorkerPlan)
    _require_servers(few, patterns.grid)
    held, of_more = (
        [each for each in held_variables(compiled.step) if each.kind == "other"] for compiled in (few, more)
    )
    counts = (few.exchange.worker.count, more.exchange.worker.count)
    return Workers(
        few.exchange.chief_ops,
        list_transfers(few.step, of_worker=few.plan.worker.host, named=None),
        held_for_each(held, of_more, patterns, counts),
    )


def _peaks(compiled: CompiledGraph, patterns: Patterns, *, whole: bool) -> Peaks:
    """Return the peaks of a step of a few clones.

    Args:
        compiled: Their graph.
        patterns: The names in it.
        whole: Whether these are all clones of a few tasks.
    """
    found = forecast_memory(compiled).items()
    alive = {ref: Peak(each.bytes, each.alive) for ref, each in found}
    return Peaks(alive, patterns.by_task() if whole else patterns)


def _compiled(plan: Plan, grid: Grid, traces: Traces) -> CompiledGraph:
    smaller = make_plan(with_grid(plan, grid), emulate=plan.emulate)
    return compile_step(evolve(smaller, model=plan.model), base=traces.base, seed=_SEED, traces=traces)


def _count(patterns: Patterns, few: PlacementMap, of_more: Patterns, more: PlacementMap) -> None:
    """Find the names with numbers that only their counting shows.

    Args:
        patterns: The names in the map of a few clones.
        few: That map.
        of_more: The names in the map of more clones.
        more: That map.
    """
    clones = patterns.grid.clones, of_more.grid.clones
    counted = counted_names(_unplaced(few, patterns), _unplaced(more, of_more), clones)
    patterns.count(counted[0])
    of_more.count(counted[1])


def _unplaced(placement: PlacementMap, patterns: Patterns) -> list[str]:
    """Return the names of ops that say of no clone that they are of it."""
    return [op.name for op in placement.ops if op.clone is None and patterns.is_of_all(op.name)]
