"""Two placement maps compared; whole texts stand in tests/golden/diff/."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from compiler.mapping.records import MapShard, MapSlot
from compiler.report.compare import Change, Cut, compare, diff_json
from compiler.report.diff_text import LINES, Line, diff_text, lines_of
from compiler.report.view import Ink
from tests.placement_maps import make_map, with_counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from compiler.mapping.records import MapVariable, PlacementMap


def with_kernels_apart(placement: PlacementMap) -> PlacementMap:
    """Return the map with everything of the variable `logits/kernel` on GPU 0."""
    name = "logits/kernel"
    ops = tuple(
        evolve(op, requested="gpu[0]") if name in (op.name, op.rule.text) else op for op in placement.ops
    )
    variables = tuple(
        evolve(each, device="gpu[0]", slots=tuple(evolve(slot, device="gpu[0]") for slot in each.slots))
        if each.name == name
        else each
        for each in placement.variables
    )
    first, *others = placement.transfers
    transfers = (evolve(first, bytes=first.bytes - 20480, tensors=2), *others)
    return with_counts(evolve(placement, ops=ops, variables=variables, transfers=transfers))


def swapped(placement: PlacementMap) -> PlacementMap:
    """Return the map with the clones on their devices in reverse."""
    turn = {f"gpu[{at}]": f"gpu[{len(placement.clones) - 1 - at}]" for at in range(len(placement.clones))}
    ops = tuple(evolve(op, requested=turn.get(op.requested, op.requested)) for op in placement.ops)
    return with_counts(evolve(placement, ops=ops))


PAIRS = {
    "more_clones": (make_map(2), make_map(4)),
    "one_clone_to_two": (make_map(1), make_map(2)),
    "fewer_clones": (make_map(8), make_map(2)),
    "a_variable_moved": (make_map(2), with_kernels_apart(make_map(2))),
    "clones_swapped": (make_map(8), swapped(make_map(8))),
}


@pytest.mark.parametrize("name", PAIRS)
def test_diff_text(name: str, golden: Callable[[str, str], None]) -> None:
    """Ops by scope, variables, then figures of devices and links before and after, within 80 columns."""
    text = diff_text(compare(*PAIRS[name]), Ink())
    golden(f"diff/{name}.txt", text)
    assert max(map(len, text.splitlines())) <= 80
    assert text.isascii()


def test_no_difference() -> None:
    """A map is like itself, and so is one whose rules stand on other lines of the spec."""
    placement = make_map(2)
    lower = tuple(evolve(op, rule=evolve(op.rule, line=40)) for op in placement.ops)
    found = compare(placement, evolve(placement, ops=lower))
    assert not found.different
    assert diff_text(found, Ink()) == "no difference\n"
    assert json.loads(diff_json(found))["different"] is False


def test_only_the_mode_differs() -> None:
    """Another way of updating is a difference, though everything is where it was."""
    placement = make_map(2)
    found = compare(placement, evolve(placement, mode=evolve(placement.mode, reduce="sum")))
    assert found.different
    assert diff_text(found, Ink()) == "reduce: mean -> sum\n"


def test_diff_json() -> None:
    """The JSON has every op, variable, device and link that differs, null where something is not there."""
    found: dict[str, Any] = json.loads(diff_json(compare(make_map(2), with_kernels_apart(make_map(2)))))
    assert found["format_version"] == "1.0"
    assert found["different"] is True
    assert found["before"]["spec"]["path"] == "train.tfdeploy"
    assert found["ops"] == [
        {"name": name, "clone": clone, "before": "cpu[0]", "after": "gpu[0]"}
        for name, clone in [
            ("logits/kernel", None),
            ("logits/kernel/Adam", None),
            ("clone_0/logits/kernel/read", 0),
            ("clone_1/logits/kernel/read", 1),
            ("update/logits/kernel/apply", None),
        ]
    ]
    assert found["variables"] == [
        {
            "name": name,
            "bytes": 20480,
            "before": ["cpu[0]"],
            "after": ["gpu[0]"],
            "cut_before": None,
            "cut_after": None,
        }
        for name in ("logits/kernel", "logits/kernel/Adam")
    ]
    assert [each["ref"] for each in found["devices"]] == ["cpu[0]", "gpu[0]"]
    assert found["devices"][1]["after"] == {
        "ops": 12,
        "variable_bytes": 20480,
        "slot_bytes": 20480,
        "memory_bytes": None,
        "bytes_in": 3200,
        "bytes_out": 21632,
        "busy": None,
    }
    assert found["links"] == [
        {
            "from": "cpu[0]",
            "to": "gpu[0]",
            "before": {"tensors": 3, "bytes": 23680, "bytes_unknown": 0},
            "after": {"tensors": 2, "bytes": 3200, "bytes_unknown": 0},
        }
    ]


def test_a_link_that_is_no_more() -> None:
    """A device and a link that are gone have null after."""
    found = json.loads(diff_json(compare(make_map(2), make_map(1))))
    assert {each["ref"]: each["after"] for each in found["devices"]}["gpu[1]"] is None
    assert {(each["from"], each["to"]): each["after"] for each in found["links"]}["cpu[0]", "gpu[1]"] is None


def change(name: str, clone: int | None, before: str, after: str) -> Change:
    """Return the move of an op."""
    inner = name.partition("/")[2] if clone is not None else name
    return Change(name, inner, clone, (before,), (after,))


def test_thousands_of_moves_are_a_few_lines() -> None:
    """Thirty thousand moved ops take at most twenty lines, and no op is left out of the sum."""
    moves = [
        change(
            f"clone_{clone}/layer_{layer}/op_{op}", clone, f"gpu[{clone}]", f"gpu[{(clone + layer % 3) % 8}]"
        )
        for clone in range(8)
        for layer in range(150)
        for op in range(25)
    ]
    lines = lines_of(moves)
    assert len(lines) <= LINES
    assert sum(line.ops for line in lines) == len(moves) == 30_000


def test_scopes_that_went_apart_are_told_apart() -> None:
    """Clones are taken together where they went the same way; scopes of a clone that did not are named."""
    moves = [
        change(f"clone_{clone}/{layer}/op_{op}", clone, f"gpu[{clone}]", target)
        for clone in (0, 1)
        for layer, target in (("encoder", "gpu[2]"), ("decoder", "gpu[3]"))
        for op in range(3)
    ]
    assert lines_of(moves) == [
        Line("clone_0..1/encoder/", 6, ("gpu[0]", "gpu[1]"), ("gpu[2]",)),
        Line("clone_0..1/decoder/", 6, ("gpu[0]", "gpu[1]"), ("gpu[3]",)),
    ]
    assert lines_of(moves)[0].way == "gpu[0..1] -> gpu[2]"


def test_everything_went_one_way() -> None:
    """Where all ops that moved are in one scope and went one way, the scope that holds them all is named."""
    moves = [change(f"a/b/c/op_{at}", None, "cpu[0]", "gpu[0]") for at in range(5)]
    assert lines_of(moves) == [Line("a/b/c/", 5, ("cpu[0]",), ("gpu[0]",))]


def with_kernels_in_pieces(placement: PlacementMap) -> PlacementMap:
    """Return the map with `logits/kernel` and its slot in two pieces, the second on GPU 0."""
    variables: list[MapVariable] = []
    for each in placement.variables:
        if each.name != "logits/kernel":
            variables.append(each)
            continue
        for at, device in enumerate(("cpu[0]", "gpu[0]")):
            cut = MapShard(each.name, at, 2, 0, at * 5, each.shape)
            name, half = f"{each.name}/shard_{at}", each.bytes // 2
            slot = MapSlot(f"{name}/Adam", half, device, evolve(cut, of=f"{each.name}/Adam"))
            variables.append(evolve(each, name=name, bytes=half, device=device, slots=(slot,), shard=cut))
    return evolve(placement, variables=tuple(variables))


def test_a_variable_that_is_cut_moves_to_the_devices_of_its_pieces() -> None:
    """So does its slot: nothing vanishes, and nothing appears. Two maps with the same pieces are equal."""
    whole = make_map()
    cut = with_kernels_in_pieces(whole)
    size = next(each.bytes for each in whole.variables if each.name == "logits/kernel")
    assert compare(whole, cut).variables == tuple(
        Change(name, name, None, ("cpu[0]",), ("cpu[0]", "gpu[0]"), size, None, Cut(0, (0, 5)))
        for name in ("logits/kernel", "logits/kernel/Adam")
    )
    assert compare(cut, cut).variables == ()


def test_a_variable_that_is_cut_along_another_axis_differs() -> None:
    """The devices are the same, so both sides say along which axis, or where along the same axis."""
    cut = with_kernels_in_pieces(make_map())

    def recut(axis: int, start: int) -> PlacementMap:
        variables = []
        for each in cut.variables:
            if (shard := each.shard) is not None:
                shard = evolve(shard, axis=axis, start=start * shard.number)
            variables.append(evolve(each, shard=shard))
        return evolve(cut, variables=tuple(variables))

    axis = compare(cut, recut(1, 32))
    assert axis.different
    (change,) = axis.variables
    assert (change.name, change.before, change.after) == ("logits/kernel", *[("cpu[0]", "gpu[0]")] * 2)
    both = "cpu[0], gpu[0]"
    assert f"  {both} along axis 0 -> {both} along axis 1  20.0 KiB in 1: logits/kernel\n" in diff_text(
        axis, Ink()
    )
    (found,) = json.loads(diff_json(axis))["variables"]
    assert (found["cut_before"], found["cut_after"]) == (
        {"axis": 0, "starts": [0, 5]},
        {"axis": 1, "starts": [0, 32]},
    )
    ranges = diff_text(compare(cut, recut(0, 7)), Ink())
    assert f"{both} along axis 0 from [0, 5] -> {both} along axis 0 from [0, 7]" in ranges
