"""Two placement maps compared; whole texts stand in tests/golden/diff/."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from compiler.mapping.records import (
    MapPathPart,
    MapShard,
    MapSlot,
    MapTime,
    MapTransfer,
    MapVariable,
    PlacementMap,
)
from compiler.report.compare import (
    Change,
    Comparison,
    Cut,
    DeviceChange,
    LinkChange,
    LinkTimeChange,
    TimeChange,
    compare,
    diff_json,
)
from compiler.report.devices import Totals
from compiler.report.diff_text import LINES, WIDTH, diff_text
from compiler.report.diff_text import PARTS as LISTED
from compiler.report.diff_text import ROWS as TABLE
from compiler.report.view import Ink
from tests.compiler.report.test_terminal import EIGHT, FOUR, ONE, TWO, of_ops
from tests.compiler.report.test_time import FORECAST, SLOWER


def with_kernels_apart(placement: PlacementMap) -> PlacementMap:
    """Return the map with everything of the variable `logits/kernel` on GPU 0."""
    name = "logits/kernel"
    variables = [
        evolve(each, device="gpu[0]", slots=tuple(evolve(slot, device="gpu[0]") for slot in each.slots))
        if each.name == name
        else each
        for each in placement.variables
    ]
    first, *others = placement.transfers
    transfers = (evolve(first, bytes=first.bytes - 20480, tensors=2), *others)
    apart = evolve(placement, variables=tuple(variables), transfers=transfers)
    return of_ops(apart, requested=lambda op: "gpu[0]" if name in (op.name, op.rule.text) else op.requested)


def swapped(placement: PlacementMap) -> PlacementMap:
    """Return the map with the clones on their devices in reverse."""
    turn = {f"gpu[{at}]": f"gpu[{len(placement.clones) - 1 - at}]" for at in range(len(placement.clones))}
    return of_ops(placement, requested=lambda op: turn.get(op.requested, op.requested))


def in_pieces(axis: int = 0, start: int = 5) -> PlacementMap:
    """Return the map with `logits/kernel` and its slot in two pieces, the second on GPU 0."""
    variables: list[MapVariable] = []
    for each in TWO.variables:
        for at, device in enumerate(("cpu[0]", "gpu[0]") if each.name == "logits/kernel" else ()):
            cut = MapShard(each.name, at, 2, axis, at * start, each.shape)
            name, half = f"{each.name}/shard_{at}", each.bytes // 2
            slot = MapSlot(f"{name}/Adam", half, device, evolve(cut, of=f"{each.name}/Adam"))
            variables.append(evolve(each, name=name, bytes=half, device=device, slots=(slot,), shard=cut))
        if each.name != "logits/kernel":
            variables.append(each)
    return evolve(TWO, variables=tuple(variables))


def other_mode(placement: PlacementMap) -> PlacementMap:
    """Return the map of another way of updating."""
    return evolve(placement, mode=evolve(placement.mode, reduce="sum"))


def on_other_lines(placement: PlacementMap) -> PlacementMap:
    """Return the map with its rules on other lines of the spec."""
    return of_ops(placement, rule=lambda op: evolve(op.rule, line=40))


FAST, SLOW = (evolve(TWO, time=each.for_map()) for each in (FORECAST, SLOWER))
MAPS = {
    "more_clones": (TWO, FOUR),
    "one_clone_to_two": (ONE, TWO),
    "fewer_clones": (EIGHT, TWO),
    "a_variable_moved": (TWO, with_kernels_apart(TWO)),
    "clones_swapped": (EIGHT, swapped(EIGHT)),
    "nothing": (TWO, on_other_lines(TWO)),
    "the_mode": (TWO, other_mode(TWO)),
    "cut": (TWO, in_pieces()),
    "the_same_cut": (in_pieces(), in_pieces()),
    "another_axis": (in_pieces(), in_pieces(1, 32)),
    "another_start": (in_pieces(), in_pieces(0, 7)),
    "the_time": (FAST, evolve(FOUR, time=SLOWER.for_map())),
    "less_time": (evolve(FOUR, time=SLOWER.for_map()), FAST),
    "the_same_time": (FAST, evolve(FOUR, time=FORECAST.for_map())),
    "only_the_time": (FAST, SLOW),
    "a_time_on_one_side": (FAST, TWO),
}


@pytest.mark.parametrize("name", MAPS)
def test_difference_of_maps(name: str, golden: Callable[[str, str], None]) -> None:
    """As text, within 80 columns, and as JSON, with null where something is not there."""
    found = compare(*MAPS[name])
    text = diff_text(found, Ink())
    golden(f"diff/{name}.txt", text)
    golden(f"diff/{name}.json", json.dumps(json.loads(diff_json(found)), indent=1) + "\n")
    assert max(map(len, text.splitlines())) <= 80
    assert text.isascii()
    assert found.different == (
        name not in {"nothing", "the_same_cut", "only_the_time"} and "one_side" not in name
    )


def comparison(**changes: Any) -> Comparison:
    """Return the comparison of two maps that differ in nothing else."""
    return evolve(compare(TWO, TWO), **changes)


def link(source: str, target: str, before: int | None, after: int | None) -> LinkChange:
    """Return a link that sends one tensor of so many bytes before and after, or nothing."""
    sent = [None if size is None else MapTransfer(source, target, 1, size, 0) for size in (before, after)]
    return LinkChange(source, target, *sent)


def held(name: str, size: int, after: str) -> Change:
    """Return the move of a variable away from `cpu[0]`."""
    return Change(name, name, None, ("cpu[0]",), (after,), size)


def went(name: str, clone: int | None, before: str, after: str) -> Change:
    """Return the move of an op."""
    return Change(name, name.partition("/")[2] if clone is not None else name, clone, (before,), (after,))


def links(number: int) -> Comparison:
    """Return a comparison with so many new links."""
    return comparison(links=tuple(link("cpu[0]", f"gpu[{at}]", None, 100 + at) for at in range(number)))


def variables(number: int) -> Comparison:
    """Return a comparison with so many variables that moved, each to another device."""
    return comparison(variables=tuple(held(f"v_{at}", at + 1, f"gpu[{at}]") for at in range(number)))


def in_pieces(name: str, before: int, after: int) -> Comparison:
    """Return a variable and its slot, each in so many pieces before and after, on as many devices."""
    cuts = [Cut(0, tuple(range(0, 8 * number, 8))) for number in (before, after)]
    places = [tuple(f"gpu[{at}]" for at in range(number)) for number in (before, after)]
    return comparison(
        variables=tuple(
            Change(each, each, None, *places, bytes=640, cut_before=cuts[0], cut_after=cuts[1])
            for each in (name, f"{name}/Momentum")
        )
    )


def names(spare: int) -> Comparison:
    """Return variables of which three names and the dots for a fourth leave so much of a line."""
    room = WIDTH - len("  cpu[0] -> gpu[0]  4 B in 4: ") - len(", ...") - len("a, b, ") - spare
    return comparison(variables=tuple(held(each, 1, "gpu[0]") for each in ("a", "b", "c" * room, "d")))


def of_tasks(number: int) -> Comparison:
    """Return new devices of so many tasks with two each."""
    places = [(task, at) for task in range(number) for at in range(2)]
    return comparison(
        devices=tuple(
            DeviceChange(f"worker[{task}].gpu[{at}]", None, Totals(ops=1 + task + at)) for task, at in places
        )
    )


def in_time(before: MapTime, after: MapTime, links: int = 0) -> Comparison:
    """Return another mode with other times, and so many links that are faster."""
    faster = tuple(LinkTimeChange("cpu[0]", f"gpu[{at}]", 0.002, 0.001) for at in range(links))
    return evolve(compare(TWO, other_mode(TWO)), time=TimeChange(before, after, faster))


def on_path(seconds: float, scopes: dict[str, float], *, estimate: bool = False) -> MapTime:
    """Return the time of a step with so many milliseconds of scopes on its critical path."""
    parts = tuple(MapPathPart(name, each * 1e-3) for name, each in scopes.items())
    return MapTime(seconds, estimate, 1.0, "p", (), (), parts, ())


SCOPES = {"same": 90, "gone": 6, "a": 10, "b": 10, "c": 10, "d": 10}
LATER = {"same": 90, "a": 15, "b": 6, "c": 13, "d": 8, "new": 1}
CHANGES = {
    "links": [links(TABLE), links(TABLE + 1)],
    "links_alike": [
        comparison(
            links=(
                link("cpu[0]", "gpu[3]", 0, 150),
                *(link("cpu[0]", f"gpu[{at}]", 200, 100) for at in (0, 1)),
                *(link(f"gpu[{at}]", "cpu[0]", None, 10) for at in (0, 1)),
                link("gpu[2]", "cpu[1]", None, 10),
                LinkChange(
                    *("cpu[0]", "gpu[4]"),
                    MapTransfer("cpu[0]", "gpu[4]", 1, 64, 0),
                    MapTransfer("cpu[0]", "gpu[4]", 2, 64, 1),
                ),
            )
        )
    ],
    "variables": [
        variables(TABLE),
        variables(TABLE + 1),
        comparison(variables=(Change("n" * 100, "n", None, (), ("gpu[0]",), 8),)),
        in_pieces("logits/kernel", 2, 40),
        in_pieces("n" * 100, 40, 60),
    ],
    "names": [names(0), names(-1)],
    "devices": [
        of_tasks(TABLE),
        of_tasks(TABLE + 1),
        comparison(
            devices=(
                DeviceChange(
                    "gpu[0]", Totals(1, 2048, 3, 100, 5, 0, 7, 0), Totals(1, 1024, 4, None, 6, 0, 9)
                ),
            )
        ),
    ],
    "times": [
        in_time(on_path(0.1, SCOPES), on_path(0.1, LATER), LISTED + 1),
        *(
            in_time(on_path(0.1, {}, estimate=one), on_path(0.05, {}, estimate=other))
            for one, other in ((False, False), (True, False), (False, True))
        ),
    ],
    "ops": [
        comparison(
            ops=tuple(
                went(f"clone_{clone}/{layer}/op_{op}", clone, f"gpu[{clone}]", target)
                for clone in (0, 1)
                for layer, target in (("encoder", "gpu[2]"), ("decoder", "gpu[3]"))
                for op in range(3)
            )
        ),
        comparison(ops=tuple(went(f"a/b/c/op_{at}", None, "cpu[0]", "gpu[0]") for at in range(5))),
    ],
    "thousands_of_ops": [
        comparison(
            ops=tuple(
                went(f"clone_{clone}/layer_{layer}/op_{op}", clone, f"gpu[{clone}]", f"gpu[{turned}]")
                for clone in range(8)
                for layer in range(150)
                for op in range(25)
                for turned in [(clone + layer % 3) % 8]
            )
        )
    ],
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_listed_of_differences(name: str, golden: Callable[[str, str], None]) -> None:
    """As much as there is room for, the largest first, and how many are left out; never many lines."""
    texts = [diff_text(each, Ink()) for each in CHANGES[name]]
    golden(f"diff/of_{name}.txt", "\n".join(texts))
    assert max(text.count("\n") for text in texts) <= LINES + TABLE
    assert max(len(line) for text in texts for line in text.splitlines()) <= WIDTH
