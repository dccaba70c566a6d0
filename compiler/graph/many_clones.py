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

from compiler.graph.build import compile_step
from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.size import too_large_to_run
from compiler.graph.tower.traces import Traces
from compiler.kinds.fit import Listed
from compiler.kinds.forecasts import Peaks, with_memory, with_time
from compiler.kinds.grid import MapGrid, NotAlikeError
from compiler.kinds.grow import kinds_of
from compiler.kinds.grow_graph import FewGraphs, grow_graph
from compiler.kinds.grow_step import FewSteps, grow_step, has_same_work
from compiler.kinds.kind_map import KindMap
from compiler.kinds.layout import (
    FEW,
    MANY,
    MORE,
    NO_EXTRAS,
    Extras,
    grid_of,
    why_not,
    with_grid,
)
from compiler.kinds.patterns import Patterns
from compiler.kinds.step_kinds import StepKinds, step_kinds
from compiler.kinds.why import KnownReasons
from compiler.kinds.workers import Workers, held_for_each
from compiler.mapping.records import PlacementMap
from compiler.pipeline import make_plan
from compiler.plan import Plan, WorkerPlan
from compiler.process import collector_paused, cores, on_one_machine
from compiler.step.read.held import held_variables
from compiler.step.read.memory import forecast_memory
from compiler.step.read.transfers import list_transfers
from compiler.step.read.work import step_parts, timed_step
from compiler.step.read.workers import GraphPart, StepParts, steps_of_all, work_of
from compiler.time.costs import choose_costs
from compiler.time.forecast import StepForecast, forecast_step
from compiler.time.profile import FoundProfile
from compiler.time.work import StepWork
from compiler.towers import each_clone_reads
from dsl.diagnostics import Diagnostic, SpecError

_SEED = 0
"""The seed of the graphs with few clones, by which their traced towers are found again."""

_MOST_ALONE = 64
"""How many clones, or workers, that update by themselves are simulated one by one, at most."""

_FOR_EACH = {"SplitV": "input", "Unpack": "update"}
"""The types of ops that make a tensor for each clone or worker, with their roles."""

_UNLIKE = {
    False: "the graph of nine has what does not follow from that of four",
    True: "the graph for three tasks has what does not follow from that for two",
}
"""Why clones are not alike in a way that is known, by whether all clones of a few tasks are compared."""


@frozen
class ManyClones:
    """The map of many clones."""

    plan: Plan = field(repr=False)
    placement: KindMap = field(repr=False)
    warnings: tuple[Diagnostic, ...]
    reasons: KnownReasons = field(repr=False)
    # The forecast of the time of a step, if something is known to make it from. Of many tasks it has the
    # first and the last one, which stands for the others.
    time: StepForecast | None = field(default=None, repr=False)
    step: StepKinds | None = field(default=None, repr=False)
    # The ops of a step and what each costs, if the time is forecast from it, or if it is asked for. Of many
    # tasks it has the first and the last one.
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
        base: The folder in which `python(...)` looks for modules first, and from which files start.
        least: The number of clones from which this is worth it.
        machine: The profile of the machine; without one, the time of a step is forecast if the spec names its
            hardware (`devices.kind`).
        fold: Whether one task may stand for others in the work of a step and the forecast of its time.
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
    plan: Plan, grid: MapGrid, traces: Traces, machine: FoundProfile | None, extras: Extras, *, fold: bool
) -> ManyClones:
    apart = isinstance(plan, WorkerPlan)
    timed = extras.time and (machine is not None or plan.spec.devices.kind is not None)
    simulated = timed or not extras.time
    if simulated:
        _require_few_alone(plan, grid)
    whole = apart or grid.sums > 0
    few, more = (grid.cut(count, grid.groups if whole else count) for count in (FEW, MORE))
    compiled = first = _compiled(plan, few, traces)
    small = map_placement(compiled, sent=list_transfers(compiled.sized_step, named=None))
    compiled = _compiled(plan, more, traces)
    larger = map_placement(compiled)
    listed = [_listed(*each) for each in ((first, small, few), (compiled, larger, more))]
    patterns, of_more = Patterns.of_both(*listed)
    workers = _workers(first, compiled, patterns) if apart else None
    tasks, of_more = (
        Patterns.of_both(*(evolve(each, by_group=False) for each in listed)) if whole else (None, of_more)
    )
    if kinds_of(small, patterns, more, compiled.plan, tasks, workers).expanded() != larger:
        raise NotAlikeError(_UNLIKE[whole])
    found = kinds_of(small, patterns, grid, plan, tasks, workers)
    named = [(each.ref, each.device) for each in found.devices]
    if named != [(each.ref, plan.tensorflow_device(each)) for each in plan.topology.devices]:
        raise NotAlikeError("their devices are not all like those of a few")
    fewer = partial(_peaks, first, tasks or patterns)
    found = with_memory(found, _peaks(compiled, of_more), fewer, together=plan.micro_batches > 1)
    own = compiled.warnings[len(compiled.plan.warnings) :]
    work = time = None
    if timed or extras.costs:
        fold = fold and _stands(plan, grid, timed=simulated)
        work = _work_of_many(plan, grid, ((first, few), (compiled, more)), tasks or patterns, fold=fold)
    if timed and work is not None:
        costs = choose_costs(work, plan.spec.devices, machine, cores())
        time = None if costs is None else forecast_step(work, costs)
    if time is not None:
        found = with_time(found, time.for_map())
    reasons = KnownReasons(first.step, patterns, tasks)
    traced = traces.of(evolve(plan, model=compiled.plan.model), _SEED)
    large = too_large_to_run(plan, traced.templates)
    step = None
    if extras.graph:
        steps = step_kinds(first.sized_step), step_kinds(compiled.sized_step)
        step = grow_graph(FewGraphs(steps[0], tasks or patterns, steps[1], more), grid)
    return ManyClones(plan, found, (*plan.warnings, *own, *large), reasons, time, step, work)


def _require_servers(compiled: CompiledGraph, grid: MapGrid) -> None:
    """Check that what workers share is not on devices of one of them, which is then not like the others."""
    if any(job == grid.job for job, _ in compiled.step.homes):
        raise NotAlikeError("what workers share is on devices of some of them")


def _listed(compiled: CompiledGraph, placement: PlacementMap, grid: MapGrid) -> Listed:
    """Return the names of ops, of tensors that ops make one of for each clone, of slots and of towers."""
    ops, plan = compiled.step.ops, compiled.plan
    slots = [slot for variable in placement.variables for slot in variable.slots]
    wholes = [slot.shard.of for slot in slots if slot.shard is not None]
    names: dict[str, int | None] = dict.fromkeys((*(each.scope for each in plan.towers), *wholes))
    for name, op in ops.items():
        several = op.outputs if _FOR_EACH.get(op.type) == op.role else ()
        host = op.device.task if op.device.job == grid.job else None
        names |= dict.fromkeys((name, *(each.name for each in several)), host)
    return Listed(
        grid,
        names,
        of_worker=isinstance(plan, WorkerPlan),
        own_pipes=each_clone_reads(plan),
    )


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
        list_transfers(few.sized_step, of_worker=few.plan.worker.host, named=None),
        held_for_each(held, of_more, patterns, counts),
    )


def _peaks(compiled: CompiledGraph, patterns: Patterns) -> Peaks:
    """Return the peaks of a step of a few clones, in whose graph names have these patterns."""
    return Peaks(forecast_memory(compiled.sized_step, named=None), patterns)


def _compiled(plan: Plan, grid: MapGrid, traces: Traces) -> CompiledGraph:
    smaller = make_plan(with_grid(plan, grid), emulate=plan.emulate)
    return compile_step(evolve(smaller, model=plan.model), base=traces.base, seed=_SEED, traces=traces)


def _require_few_alone(plan: Plan, grid: MapGrid) -> None:
    """Raise NotAlikeError if too many clones to simulate update by themselves and none stands for others."""
    loops = grid.hosts if isinstance(plan, WorkerPlan) else grid.clones
    if plan.spec.update.mode == "async" and not _stands(plan, grid, timed=True) and loops > _MOST_ALONE:
        raise NotAlikeError("the time of updates is forecast that each makes by itself")


def _stands(plan: Plan, grid: MapGrid, *, timed: bool) -> bool:
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


def _work_of_many(
    plan: Plan,
    grid: MapGrid,
    pair: tuple[tuple[CompiledGraph, MapGrid], tuple[CompiledGraph, MapGrid]],
    patterns: Patterns,
    *,
    fold: bool,
) -> StepWork:
    """Return the work of a step of many clones; one task stands for others if `fold` lets it.

    Args:
        pair: The graphs with a few clones and with somewhat more, each with its grid.
        patterns: The names in the graph with a few, with places for the numbers of tasks alone if the clones
            of a task are not alike.
    """
    (few, _), (more, grid_of_more) = pair
    if isinstance(plan, WorkerPlan):
        return steps_of_all(plan, _parts(few, more, grid_of_more, patterns, grid, plan), fold=fold)
    known = FewSteps(timed_step(few.sized_step), patterns, timed_step(more.sized_step), grid_of_more)
    unlike = "the step of nine has what does not follow from that of four"
    return _grown(known, more.plan, grid, plan, unlike, fold=fold)


def _grown(
    known: FewSteps, of_more: Plan, grid: MapGrid, plan: Plan, unlike: str, *, fold: bool = False
) -> StepWork:
    """Return the work of a step of many clones, if that of somewhat more follows from that of the few."""
    if not has_same_work(grow_step(known, known.grid, of_more), known.more):
        raise NotAlikeError(unlike)
    return grow_step(known, grid, plan, fold=fold)


def _parts(
    few: CompiledGraph,
    more: CompiledGraph,
    grid_of_more: MapGrid,
    patterns: Patterns,
    grid: MapGrid,
    plan: WorkerPlan,
) -> StepParts:
    """Return the parts of a step of the chief among many workers, from those among two and among three."""
    own, larger = (step_parts(each.sized_step) for each in (few, more))

    def grown(part: GraphPart, twin: GraphPart) -> GraphPart:
        known = FewSteps(work_of(few.plan, part), patterns, work_of(more.plan, twin), grid_of_more)
        unlike = "the step of one of three workers has what does not follow from that of one of two"
        work = _grown(known, more.plan, grid, plan, unlike)

        def among(chosen: frozenset[int]) -> frozenset[int]:
            names = {part.ops[at].name for at in chosen}
            return frozenset(at for at, each in enumerate(work.ops) if each.name in names)

        return GraphPart(work.ops, work.arrows, among(part.own), among(part.gradients), among(part.of_chief))

    chief = grown(own.chief, larger.chief)
    if own.applied is None or larger.applied is None:
        return StepParts(chief)
    return StepParts(chief, grown(own.applied, larger.applied))
