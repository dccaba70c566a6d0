"""Placements of many clones that are alike, which are compared without the graph of all of them.

The two graphs with a few clones are built for each, which takes about as long for hundreds of clones as for
a few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from compiler.kinds.deployment.layout import why_not
from compiler.kinds.records.extras import Extras

if TYPE_CHECKING:
    from compiler.kinds.records.kind_map import KindMap
    from compiler.plan import Plan
    from compiler.step.step import Step
    from compiler.time.costs import Costs
    from compiler.time.profile import Profile
    from compiler.time.work import StepWork
    from tfdeploy.runtime.plans import SharedTowers

MOST_BUILT = 64
"""With more clones than this, placements are compared without the graph of all, if the clones are alike."""


@frozen
class ManyTried:
    """A placement of many clones.

    Attributes:
        plan: Its plan.
        placement: Its map, by kinds.
        work: The work of a step.
        costs: What the ops of a step cost, or None if that is not known.
        few: The step of a few of the clones.
    """

    plan: Plan = field(repr=False)
    placement: KindMap = field(repr=False)
    work: StepWork = field(repr=False)
    costs: Costs | None = field(repr=False)
    few: Step = field(repr=False)


def are_many(plan: Plan) -> bool:
    """Whether a plan has many clones that are alike, as far as its devices and rules tell."""
    return len(plan.all_towers) > MOST_BUILT and why_not(plan) is None


def try_many(
    plan: Plan, kind: str | None, profile: Profile | None, towers: SharedTowers, *, verbose: bool
) -> ManyTried:
    """Return a placement of many clones.

    Args:
        plan: The plan.
        kind: The hardware that is assumed, or None if a profile or the spec says what there is.
        profile: The profile of the machine, or None.
        towers: Traced towers of other placements of the same spec, which are used again and added to.
        verbose: Whether TensorFlow's own messages are shown.

    Raises:
        NotAlikeError: The clones are not alike; the message says why, after "because".
        SpecError: The spec is wrong.
    """
    from compiler.threads import cores
    from compiler.time.costs import choose_costs
    from tfdeploy.runtime.adapted import adapted
    from tfdeploy.runtime.plans import many_of

    plan = adapted(plan, verbose=verbose)
    found = many_of(plan, extras=Extras(costs=True, time=False), towers=towers, verbose=verbose)
    assert found.work is not None
    devices = plan.spec.devices if kind is None else evolve(plan.spec.devices, kind=kind)
    costs = choose_costs(found.work, devices, profile, cores())
    return ManyTried(plan, found.placement, found.work, costs, found.reasons.few)
