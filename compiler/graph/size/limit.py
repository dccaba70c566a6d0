"""Refuses a graph that TensorFlow cannot hold before it is built, and says what makes it so large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from compiler.checks import CHECKS_OF_THE_SPEC
from compiler.checks.compatibility import gradients_can_be_summed
from compiler.figures import size
from compiler.graph.size.estimate import (
    Extent,
    extent_of_boxes,
    extent_of_sums,
    extent_of_towers,
    extent_of_variables,
    sums_of,
)
from compiler.graph.size.sums import Sum
from compiler.graph.tower.template import Template
from compiler.placement.rules import Rulebook
from compiler.plan import Plan, VariablePlacement, WorkerPlan
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import plan as errors

MOST = (1 << 31) - 1
"""The most bytes of a message of protobuf, which a graph is when it is saved, or sent to a server."""

_SMALLER = ("collective", "hierarchical", "add_n")
"""Aggregations whose ops for a sum are not more than the clones, the best for many clones first."""


@frozen
class Measures:
    """What the bytes of a graph follow from.

    Attributes:
        placements: The places of the variables.
        slots: The number of slots of each variable that has some.
        templates: The traced towers by the number of their examples.
        sparse: The names of the weights whose gradients are rows.
    """

    placements: Sequence[VariablePlacement]
    slots: Mapping[str, int]
    templates: Mapping[int, Template]
    sparse: Sequence[str]


def require_small_enough(plan: Plan, measures: Measures) -> None:
    """Raise SpecError if the graph of a plan would certainly have more bytes than TensorFlow can hold.

    Args:
        plan: The plan.
        measures: What the bytes follow from.

    Raises:
        SpecError: At the aggregation or at the clones, whichever makes the graph so large.
    """
    towers, boxes = _of_clones(plan, measures.templates)
    others = extent_of_variables(plan, measures.placements, measures.slots)
    rulebook = Rulebook(plan.spec.place.rules, plan.topology)
    made = sums_of(plan, measures.placements, measures.templates, rulebook)
    sums = extent_of_sums(plan, made)
    total = towers.bytes + boxes.bytes + others.bytes + sums.bytes
    if total <= MOST:
        return
    room = MOST - (total - sums.bytes)
    better = [name for name in _SMALLER if _would_fit(plan, measures, made, name, room)]
    if better:
        span = plan.update.span_of("aggregate")
        named = plan.update.aggregate.name
        found = errors.sums_too_large(
            span,
            total=size(total),
            aggregate=named,
            ops=sums.ops,
            clones=len(plan.towers),
            better=[f"`aggregate = {each}`" for each in better],
            pieces=named in ("ring", "shuffle"),
        )
    else:
        found = _too_many(plan, total, towers.ops + others.ops, boxes)
    raise SpecError([found])


def too_large_to_run(plan: Plan, templates: Mapping[int, Template]) -> tuple[Diagnostic, ...]:
    """Return a warning if the clones of a plan alone would have more bytes than TensorFlow can hold.

    Args:
        plan: The plan, whose graph is not built.
        templates: The traced towers by the number of their examples.
    """
    towers, boxes = _of_clones(plan, templates)
    total = towers.bytes + boxes.bytes
    return () if total <= MOST else (_too_many(plan, total, towers.ops, boxes, warn=True),)


def _of_clones(plan: Plan, templates: Mapping[int, Template]) -> tuple[Extent, Extent]:
    return extent_of_towers(plan, templates), extent_of_boxes(plan, templates)


def _would_fit(plan: Plan, measures: Measures, sums: Sequence[Sum], name: str, room: int) -> bool:
    """Whether another aggregation can be used, and would write no more than there is room for."""
    spec = evolve(plan.spec, update=evolve(plan.update, aggregate=ir.Call(name)))
    if name == plan.update.aggregate.name or not _is_allowed(plan, spec):
        return False
    if any(gradients_can_be_summed(spec, measures.sparse)):
        return False
    return extent_of_sums(evolve(plan, spec=spec), sums).bytes <= room


def _is_allowed(plan: Plan, spec: ir.Spec) -> bool:
    """Whether a spec that differs from that of a plan in an attribute passes the checks."""
    return not any(found.is_error for check in CHECKS_OF_THE_SPEC for found in check(spec, plan.topology))


def _too_many(plan: Plan, total: int, ops: int, boxes: Extent, *, warn: bool = False) -> Diagnostic:
    """Return what is said of too many clones, or of too many workers that send to one."""
    update = plan.update
    if boxes.ops > ops:
        assert isinstance(plan, WorkerPlan)
        span = update.span_of("replication")
        return errors.boxes_too_large(
            span, total=size(total), ops=boxes.ops, workers=plan.worker.count, warn=warn
        )
    apart = evolve(plan.spec, update=evolve(update, replication="between_graph"))
    advised = not isinstance(plan, WorkerPlan) and _is_allowed(plan, apart)
    span = plan.spec.clones.span_of("count") or plan.spec.devices.span
    clones = len(plan.towers)
    return errors.towers_too_large(
        span, total=size(total), ops=ops, clones=clones, between_graph=advised, warn=warn
    )
