"""Maps by kinds are compared by what differs, with the result of comparing the records of each clone."""

from __future__ import annotations

from attrs import evolve

from compiler.kinds.kind_map import KindMap
from compiler.report.compare import compare
from compiler.report.page.data import Side, diff_data
from tests.placement_maps import make_kinds


def _moved() -> KindMap:
    """Return the map with the read of all clones but the first on a GPU, which makes a link larger."""
    placement = make_kinds()
    ops = list(placement.op_kinds)
    read = ops[8]
    assert read.of == 4
    ops[8] = evolve(read, like=evolve(read.like, requested="worker[{task}].gpu[{device}]"))
    links = list(placement.transfer_kinds)
    links[3] = evolve(links[3], like=evolve(links[3].like, bytes=128))
    return evolve(placement, op_kinds=tuple(ops), transfer_kinds=tuple(links))


def test_only_what_differs_is_expanded() -> None:
    """The comparison, and its page, are those of the expanded maps."""
    before, after = make_kinds(), _moved()
    found = compare(before, after)
    assert found == compare(before.expanded(), after.expanded())
    assert len(found.ops) == len(found.links) == 63 * 7
    assert {each.before for each in found.ops} == {("ps[0].cpu[0]",)}
    one, other = before.expanded(after), after.expanded(before)
    assert len(one.ops) == len(other.ops) == 63 * 7
    assert len(one.transfers) == 63 * 7
    sides = [(Side("a", before, {}), Side("b", after, {}))]
    sides.append((Side("a", before.expanded(), {}), Side("b", after.expanded(), {})))
    pages = [diff_data(*each, found) for each in sides]
    assert pages[0] == pages[1]


def test_maps_of_other_numbers_of_clones_are_compared_as_well() -> None:
    """Everything is expanded for that, also if one of them has the records of each clone."""
    few, many = make_kinds(2, 2), make_kinds(3, 2)
    found = compare(few, many)
    assert found == compare(few.expanded(), many.expanded()) == compare(few, many.expanded())
    assert {each.clone for each in found.ops} == {4, 5}
