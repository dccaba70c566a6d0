"""Decides whether the map of a spec is made by kinds of clones, without the graph of all of them.

Places are explained in the same way: by kinds, or by the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from compiler.kinds.grid import NotAlikeError
from compiler.kinds.layout import NO_EXTRAS, why_not
from compiler.mapping.explanation import Explained
from compiler.time.profile import find_profile
from tfdeploy.progress import busy
from tfdeploy.runtime.adapted import adapted
from tfdeploy.runtime.plans import many_of, plan_of
from tfdeploy.runtime.start_tensorflow import start_telling

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.graph.many_clones import ManyClones
    from compiler.kinds.layout import Extras
    from dsl import ir
    from tfdeploy.runtime.plans import SharedTowers


def map_by_kinds(
    spec: ir.Spec,
    *,
    emulate: bool = False,
    verbose: bool = False,
    profile: str | None = None,
    extras: Extras = NO_EXTRAS,
    towers: SharedTowers | None = None,
) -> ManyClones | str:
    """Return the map of the clones of a spec by kinds, or why the graph of all of them has to be built.

    The reason is written after "because".
    """
    machine = find_profile(spec.path, profile)
    plan = plan_of(spec, emulate=emulate, verbose=verbose)
    reason = why_not(plan)
    if reason is not None:
        return reason
    start_telling(verbose=verbose)
    with busy(f"placing {len(plan.all_towers)} clones of {spec.model.name} that are alike"):
        plan = adapted(plan)
        try:
            found = many_of(plan, machine=machine, extras=extras, towers=towers)
        except NotAlikeError as fault:
            return str(fault)
        from compiler.conditions import has_limits, too_full  # loads TensorFlow

        full = too_full(spec, found.placement) if has_limits(spec) else ()
    return evolve(found, warnings=(*found.warnings, *full))


class NothingNamedError(LookupError):
    """A name is that of no op and no variable."""

    def __init__(self, name: str, nearest: tuple[str, ...]) -> None:
        """Make the message."""
        super().__init__(f"{name!r} names no op or variable; the nearest names are {', '.join(nearest)}")
        self.nearest = nearest


def explain_graph(compiled: CompiledGraph, name: str) -> Explained:
    """Return what explains the places of things in a graph; raises NothingNamedError if it names nothing."""
    from compiler.step.read.why import explain_placement, suggest_names

    found = explain_placement(compiled.step, name)
    if not found:
        raise NothingNamedError(name, suggest_names(compiled.step, name))
    return Explained(found, found)


def explain_by_kinds(many: ManyClones, name: str) -> Explained:
    """Return what explains the places of things of many clones that are alike.

    Raises:
        NothingNamedError: If it names nothing.
        NotAlikeError: If only the graph of all clones shows the reasons.
    """
    from compiler.kinds.why import explain_many, suggest_among_many

    alike = many.time.work.alike if many.time is not None else {}
    timed_task = next((task for _, task in alike), None)
    found = explain_many(many.reasons, many.placement, name, timed_task)
    if not found.found:
        raise NothingNamedError(name, suggest_among_many(many.placement, name))
    return found
