"""The parts of a step of the chief among many workers, from those among two and among three."""

from __future__ import annotations

from attrs import frozen

from compiler.kinds.deployment.grid import MapGrid, NotAlikeError
from compiler.kinds.growing.grow_step import FewSteps, grow_step, has_same_work
from compiler.kinds.names.patterns import Patterns
from compiler.plan import WorkerPlan
from compiler.step.read.workers import GraphPart, StepParts, work_of


@frozen
class Among:
    """The parts of a step of the chief among some workers.

    Attributes:
        plan: Its plan.
        grid: The grid of the clones of all these workers.
        parts: The parts.
    """

    plan: WorkerPlan
    grid: MapGrid
    parts: StepParts


def grow_parts(few: Among, more: Among, patterns: Patterns, grid: MapGrid, plan: WorkerPlan) -> StepParts:
    """Return the parts of a step of the chief among many workers.

    Raises:
        NotAlikeError: They do not follow from those among a few.
    """

    def grown(own: GraphPart, larger: GraphPart) -> GraphPart:
        known = FewSteps(work_of(few.plan, own), patterns, work_of(more.plan, larger), more.grid)
        if not has_same_work(grow_step(known, more.grid, more.plan), known.more):
            raise NotAlikeError(
                "the step of one of three workers has what does not follow from that of one of two"
            )
        work = grow_step(known, grid, plan)

        def among(chosen: frozenset[int]) -> frozenset[int]:
            names = {own.ops[at].name for at in chosen}
            return frozenset(at for at, each in enumerate(work.ops) if each.name in names)

        return GraphPart(work.ops, work.arrows, among(own.own), among(own.gradients), among(own.of_chief))

    chief = grown(few.parts.chief, more.parts.chief)
    if few.parts.applied is None or more.parts.applied is None:
        return StepParts(chief)
    return StepParts(chief, grown(few.parts.applied, more.parts.applied))
