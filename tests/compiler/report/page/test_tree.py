"""The ops of a map as the page has them: read back, they are those of the map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from compiler.report.page.data import page_data
from compiler.report.page.tree import Details
from tests.compiler.report.page.pages import LINES, timed_step
from tests.placement_maps import CLONES, make_kinds, make_map

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compiler.kinds.kind_map import AnyMap
    from compiler.mapping.records import MapOp, PlacementMap


def nodes(data: dict[str, Any], tree: list[Any], path: str = "") -> Iterator[tuple[str, list[int], int]]:
    """Yield each op in a tree: its path, the numbers of its kind, rule and cost, and how many are inside."""
    for child in tree:
        if isinstance(child, dict):
            yield "", [child["family"]], 0
        elif isinstance(child, list):
            name = f"{path}{data['names'][child[0]]}"
            numbers = [each for each in child[1:] if isinstance(each, int)]
            inside = [each for each in child[1:] if not isinstance(each, int)]
            if numbers:
                yield name, numbers, len(inside)
            yield from nodes(data, inside, f"{name}/")


def read_back(data: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return what the page has of each op, by its name in the graph."""
    found: dict[str, tuple[Any, ...]] = {}

    def add(name: str, clone: int, at: int, numbers: list[int]) -> None:
        kind, rule, cost = (
            data[of][number] for of, number in zip(("kinds", "rules", "costs"), numbers, strict=True)
        )
        asked, ran = data["spots"][kind[3]][at]
        reason, text, file, line, column, decided = rule
        placed = (reason, text, None if file < 0 else data["files"][file], line, column, decided)
        device = None if ran < 0 else data["places"][ran]
        assert name not in found
        found[name] = (kind[0], kind[1], clone, data["places"][asked], device, placed, cost)

    for name, numbers, _ in nodes(data, data["tree"]):
        if name:
            add(name, data["kinds"][numbers[0]][2], 0, numbers)
            continue
        family = data["families"][numbers[0]]
        for at, clone in enumerate(family["clones"]):
            for inner, own, _ in nodes(data, family["tree"]):
                add(f"{data['clones'][clone]}/{inner}", clone, at, own)
    return found


def as_read(op: MapOp, held: int) -> tuple[Any, ...]:
    """Return what the page should have of an op."""
    rule = op.rule
    placed = (rule.reason, rule.text, rule.file, rule.line or 0, rule.column or 0, rule.decided_by or "")
    clone = -1 if op.clone is None else op.clone
    return (op.type, op.role, clone, op.requested, op.assigned, placed, (held, 0, 0, 0.0))


def after_a_step(placement: PlacementMap) -> PlacementMap:
    """Return the map after a step that put the reads of every second clone on its GPU."""
    return evolve(
        placement,
        ops=tuple(
            evolve(
                op, assigned=f"gpu[{op.clone}]" if op.role == "read" and (op.clone or 0) % 2 else op.requested
            )
            for op in placement.ops
        ),
    )


def with_an_odd_rule(placement: PlacementMap) -> PlacementMap:
    """Return the map with an op of the last clone that another rule has placed."""
    rule = evolve(CLONES, line=14, text="forward -> gpu[*]")
    odd = f"clone_{len(placement.clones) - 1}/conv1/Relu"
    ops = tuple(evolve(op, rule=rule) if op.name == odd else op for op in placement.ops)
    return evolve(placement, ops=ops)


@pytest.mark.parametrize(
    ("placement", "families"),
    [
        (make_map(1), []),
        (make_map(4), []),
        (make_map(5), ["clone_0..4"]),
        (after_a_step(make_map(6)), ["clone_0,2,4", "clone_1,3,5"]),
        (with_an_odd_rule(make_map(6)), ["clone_0..4"]),
        (make_kinds(2, 2), []),
        (make_kinds(3, 2), ["clone_0..5"]),
        (make_kinds(3, 4), ["clone_0..11"]),
    ],
    ids=["one", "four", "five", "moved", "odd", "few_kinds", "kinds", "many_kinds"],
)
def test_every_op_is_in_the_data_as_it_is_in_the_map(placement: AnyMap, families: list[str]) -> None:
    """With its type, role, devices, rule and bytes, whether it stands for itself or for those of a family."""
    data = page_data(placement, LINES, Details())
    whole = placement.expanded()
    held = {each.name: each.bytes for each in whole.variables}
    held |= {slot.name: slot.bytes for each in whole.variables for slot in each.slots}
    assert read_back(data) == {op.name: as_read(op, held.get(op.name, 0)) for op in whole.ops}
    assert [each["label"] for each in data["families"]] == families
    assert data["clones"] == {each.index: each.scope for each in whole.clones}


def test_what_ops_cost_is_there_if_it_is_known() -> None:
    """Their bytes, operations and microseconds; with the work of a step but no forecast, no time."""
    timed = timed_step()
    both = page_data(make_map(2), LINES, Details(time=timed))
    assert both["measures"] == ["ops", "held", "flops", "bytes", "time"]
    found = read_back(both)
    assert found["input/IteratorGetNext"][-1] == (0, 1000, 2048, 10_000.0)
    assert found["clone_0/conv1/Conv2D"][-1] == (0, 2000, 2048, 5_000.0)
    assert found["clone_1/conv1/Conv2D"][-1] == (0, 0, 0, 0.0)
    assert found["logits/kernel/Adam"][-1] == (20480, 0, 0, 0.0)
    repeated = evolve(timed.work, ops=tuple(evolve(each, times=3) for each in timed.work.ops))
    work = page_data(make_map(2), LINES, Details(work=repeated))
    assert work["measures"] == ["ops", "held", "flops", "bytes"]
    assert read_back(work)["clone_0/conv1/Conv2D"][-1] == (0, 6000, 6144, 0.0)
    several = evolve(timed, simulated=evolve(timed.simulated, updates=2))
    assert (
        read_back(page_data(make_map(2), LINES, Details(time=several)))["clone_0/conv1/Conv2D"][-1][-1]
        == 2_500.0
    )
