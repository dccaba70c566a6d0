"""The parts in which two placement maps differ, as maps with the records of each clone."""

from __future__ import annotations

from attrs import evolve

from compiler.kinds.expanding.expand import expand
from compiler.kinds.records.kind_map import AnyMap, KindMap, OpKind, TransferKind
from compiler.mapping.records import PlacementMap


def expand_differences(before: AnyMap, after: AnyMap) -> tuple[PlacementMap, PlacementMap]:
    """Return two maps, without the ops and links that are the same in both if they are by the same kinds.

    Only what differs is expanded, so that two maps of thousands of clones are compared as fast as their
    differences are many.

    Args:
        before: A map of any version.
        after: Another one.
    """
    if not (isinstance(before, KindMap) and isinstance(after, KindMap)):
        return expand(before), expand(after)
    if (before.grid, before.kinds) != (after.grid, after.kinds):
        return expand(before), expand(after)
    ops = {_op(each) for each in before.op_kinds} & {_op(each) for each in after.op_kinds}
    links = {_link(each) for each in before.transfer_kinds} & {_link(each) for each in after.transfer_kinds}
    one, other = (
        expand(
            evolve(
                placement,
                op_kinds=tuple(each for each in placement.op_kinds if _op(each) not in ops),
                transfer_kinds=tuple(each for each in placement.transfer_kinds if _link(each) not in links),
            )
        )
        for placement in (before, after)
    )
    return one, other


def _op(kind: OpKind) -> tuple[object, ...]:
    """Return what is compared of ops."""
    like = kind.like
    return (kind.of, like.name, like.type, like.clone, like.requested)


def _link(kind: TransferKind) -> tuple[object, ...]:
    """Return what is compared of links."""
    like = kind.like
    return (kind.of, like.from_device, like.to_device, like.tensors, like.bytes, like.bytes_unknown)
