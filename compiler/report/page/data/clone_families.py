"""Clones that are alike: equal ops for equal reasons, each on its own devices. The page has them once."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from attrs import define, field, frozen

from compiler.mapping.records import MapOp, PlacementMap
from compiler.report import refs
from compiler.report.page.data.costs import FREE, Cost
from compiler.report.page.data.numbers import Numbers
from compiler.report.scopes import FOLD_FROM
from dsl.gathering import gathered

Spot = tuple[str, str | None]
"""The device that was asked for, and the one on which the op ran, if that is known."""


@frozen
class Family:
    """Clones that are alike.

    Attributes:
        clones: Their numbers.
        label: One name for their scopes, such as `clone_0..7`.
        ops: The ops of the first of them.
        inner: The names of these ops without the scope of the clone.
        locals: For each of these ops, the number of its spot among those of a clone.
        spots: The spots of each clone.
        costs: What each op costs on an average of the clones.
    """

    clones: tuple[int, ...]
    label: str
    ops: tuple[MapOp, ...] = field(repr=False)
    inner: tuple[str, ...] = field(repr=False)
    locals: tuple[int, ...] = field(repr=False)
    spots: tuple[tuple[Spot, ...], ...] = field(repr=False)
    costs: tuple[Cost, ...] = field(repr=False)


@define
class _Clone:
    """The ops of a clone while they are read."""

    scope: str
    ops: list[MapOp] = field(factory=list)
    inner: list[str] = field(factory=list)
    locals: list[int] = field(factory=list)
    spots: Numbers = field(factory=Numbers)
    look: array[int] = field(factory=lambda: array("q"))


def families_of(placement: PlacementMap, costs: Mapping[str, Cost]) -> list[Family]:
    """Return the families of clones, if there are so many clones that equal ones are shown as one.

    Args:
        placement: The map.
        costs: What ops cost, by their names.
    """
    if len(placement.clones) < FOLD_FROM:
        return []
    clones = {each.index: _Clone(each.scope) for each in placement.clones if each.scope}
    looks = Numbers()
    for op in placement.ops:
        clone = clones.get(op.clone) if op.clone is not None else None
        if clone is not None and op.name.startswith(f"{clone.scope}/"):
            _read(clone, op, looks, costs)
    alike = gathered((clone.look.tobytes(), index) for index, clone in clones.items() if clone.ops)
    return [_family(group, clones, costs) for group in alike.values() if len(group) > 1]


def _read(clone: _Clone, op: MapOp, looks: Numbers, costs: Mapping[str, Cost]) -> None:
    inner = op.name.removeprefix(f"{clone.scope}/")
    local = clone.spots.of((op.requested, op.assigned))
    moved = op.assigned is not None and op.assigned != op.requested
    *fixed, _ = costs.get(op.name, FREE)  # the time of an op depends on what runs beside it
    clone.ops.append(op)
    clone.inner.append(inner)
    clone.locals.append(local)
    clone.look.append(looks.of((inner, op.type, op.role, op.rule, local, moved, *fixed)))


def _family(group: Sequence[int], clones: Mapping[int, _Clone], costs: Mapping[str, Cost]) -> Family:
    members = [clones[each] for each in group]
    first = members[0]
    names = zip(*([op.name for op in each.ops] for each in members), strict=True)
    return Family(
        clones=tuple(group),
        label=f"clone_{refs.span(group)}",
        ops=tuple(first.ops),
        inner=tuple(first.inner),
        locals=tuple(first.locals),
        spots=tuple(tuple(each.spots.values()) for each in members),
        costs=tuple(_mean(each, costs) for each in names),
    )


def _mean(names: Sequence[str], costs: Mapping[str, Cost]) -> Cost:
    held, flops, size, _ = costs.get(names[0], FREE)
    return (held, flops, size, round(sum(costs.get(each, FREE)[3] for each in names) / len(names), 3))
