"""The ops of a placement map of any version, counted: one by one, or those of a kind together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen

from compiler.kinds.expanding.expand import op_at
from compiler.kinds.records.kind_map import AnyMap, OpKind
from compiler.kinds.records.sets import Kinds
from compiler.mapping.records import MapOp, PlacementMap

Matches = Callable[[str], bool]


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


def chosen_ops(placement: AnyMap, matches: Matches, begin: str) -> Iterator[Counted]:
    """Yield the ops of a map whose names in the graph, or in their tower, match.

    Args:
        placement: The map.
        matches: Whether a name matches. If it does so for some of a kind, these are yielded one by one.
        begin: What every name begins with that matches, as far as that is known.
    """
    if isinstance(placement, PlacementMap):
        scopes = {each.index: each.scope for each in placement.clones}
        for op in placement.ops:
            scope = scopes.get(op.clone, "") if op.clone is not None else ""
            if matches(op.name) or (scope and matches(op.name.removeprefix(f"{scope}/"))):
                yield single(op)
        return
    kinds = Kinds(placement)
    scopes_of = {each.of: f"{each.like.scope}/" for each in placement.clone_kinds}
    for kind in placement.op_kinds:
        scope = "" if kind.like.clone is None else scopes_of.get(kind.of, "")
        inner = kinds.template(kind.like.name.removeprefix(scope)).parts
        if len(inner) == 1 and isinstance(inner[0], str) and matches(inner[0]):
            yield _whole(kind, kinds)
            continue
        first = kinds.template(kind.like.name).parts[0]
        if isinstance(first, str) and not _may_begin(first, begin):
            continue
        for host, group in kinds.members(kind.of):
            op = op_at(kind, kinds, host, group)
            own = kinds.template(scope).at(kinds.numbers, host, group)
            if matches(op.name) or (scope and matches(op.name.removeprefix(own))):
                yield single(op)


def _whole(kind: OpKind, kinds: Kinds) -> Counted:
    count = kinds.placement.kinds[kind.of].count
    devices = kinds.devices(kind.like.requested, kind.of)
    first = kinds.template(kind.like.name).at(kinds.numbers, *next(kinds.members(kind.of)))
    return Counted(kind.like, kind.of, count, devices, first)


def _may_begin(first: str, begin: str) -> bool:
    short = min(len(first), len(begin))
    return first[:short] == begin[:short]
