"""The ops of a placement map of any version, counted: one by one, or those of a kind together."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from compiler.kinds.expanding.expand import op_at
from compiler.kinds.expanding.members import Sought, sought_members
from compiler.kinds.records.kind_map import AnyMap, OpKind
from compiler.kinds.records.sets import Kinds
from compiler.mapping.records import MapOp, PlacementMap


@frozen
class Counted:
    """Ops that are alike, equally many on each of their devices.

    Attributes:
        op: What is true of each. If they are of a kind, its texts have places for numbers.
        of: The number of the kind, or None for an op by itself.
        count: How many there are.
        devices: The devices that were asked for.
        first: The name of the first.
    """

    op: MapOp
    of: int | None
    count: int
    devices: tuple[str, ...]
    first: str

    @property
    def each(self) -> int:
        """How many are on each device."""
        return self.count // len(self.devices)


def single(op: MapOp) -> Counted:
    """Return an op by itself."""
    return Counted(op, None, 1, (op.requested,), op.name)


def counted_ops(placement: AnyMap) -> Iterator[Counted]:
    """Yield the ops of a map."""
    if isinstance(placement, PlacementMap):
        yield from map(single, placement.ops)
        return
    kinds = Kinds(placement)
    for kind in placement.op_kinds:
        yield _whole(kind, kinds)


def chosen_ops(placement: AnyMap, sought: Sought) -> Iterator[Counted]:
    """Yield the ops of a map whose names in the graph, or in their tower, are looked for.

    Args:
        placement: The map.
        sought: The names. If only some ops of a kind have one, these are yielded one by one.
    """
    if isinstance(placement, PlacementMap):
        scopes = {each.index: each.scope for each in placement.clones}
        for op in placement.ops:
            scope = scopes.get(op.clone, "") if op.clone is not None else ""
            inside = op.name.removeprefix(f"{scope}/") if scope else op.name
            if sought.matches(op.name) or sought.matches(inside):
                yield single(op)
        return
    kinds = Kinds(placement)
    for at, members in sought_members(placement, sought):
        kind = placement.op_kinds[at]
        if members is None:
            yield _whole(kind, kinds)
            continue
        for host, group in members:
            yield single(op_at(kind, kinds, host, group))


def _whole(kind: OpKind, kinds: Kinds) -> Counted:
    count = kinds.placement.kinds[kind.of].count
    devices = kinds.devices(kind.like.requested, kind.of)
    first = kinds.template(kind.like.name).at(kinds.numbers, *next(kinds.members(kind.of)))
    return Counted(kind.like, kind.of, count, devices, first)
