"""What the text of a comparison lists, in which order, and how much of it."""

from __future__ import annotations

import pytest
from attrs import evolve

from compiler.mapping.records import MapPathPart, MapTime, MapTransfer
from compiler.report.compare import (
    Change,
    Comparison,
    DeviceChange,
    LinkChange,
    LinkTimeChange,
    TimeChange,
    compare,
)
from compiler.report.devices import Totals
from compiler.report.diff_text import PARTS, ROWS, WIDTH, diff_text
from compiler.report.view import Ink
from tests.placement_maps import make_map

EQUAL = compare(make_map(2), make_map(2))


def lines_of(found: Comparison) -> list[str]:
    """Return the lines of the text."""
    return diff_text(found, Ink()).splitlines()


def link(source: str, target: str, before: int | None, after: int | None) -> LinkChange:
    """Return a link that sends one tensor of so many bytes before and after, or nothing."""
    sent = [None if size is None else MapTransfer(source, target, 1, size, 0) for size in (before, after)]
    return LinkChange(source, target, *sent)


def held(name: str, size: int, after: str) -> Change:
    """Return the move of a variable away from `cpu[0]`."""
    return Change(name, name, None, ("cpu[0]",), (after,), size)


@pytest.mark.parametrize(("more", "told"), [(0, []), (1, ["and 1 more links with smaller changes"])])
def test_the_links_with_the_largest_changes_are_listed(more: int, told: list[str]) -> None:
    """As many as there are rows; of one more, the one with the smallest change is counted only."""
    changes = [link("cpu[0]", f"gpu[{at}]", None, 100 + at) for at in range(ROWS + more)]
    head, *rows = lines_of(evolve(EQUAL, links=tuple(changes)))
    assert head.split() == ["from", "to", "before", "after", "change"]
    assert [row.split()[1] for row in rows[:ROWS]] == [
        f"gpu[{at}]" for at in reversed(range(more, ROWS + more))
    ]
    assert rows[ROWS:] == told


def test_links_alike_are_one_that_counts_as_all_of_them() -> None:
    """Two links of 100 bytes come before one of 150, and whether bytes are more or less does not matter."""
    changes = (
        link("cpu[0]", "gpu[3]", 0, 150),
        link("cpu[0]", "gpu[0]", 200, 100),
        link("cpu[0]", "gpu[1]", 200, 100),
        link("gpu[0]", "cpu[0]", None, 10),
        link("gpu[1]", "cpu[0]", None, 10),
        link("gpu[2]", "cpu[1]", None, 10),
    )
    assert [" ".join(row.split()) for row in lines_of(evolve(EQUAL, links=changes))[1:]] == [
        "cpu[0] gpu[0..1] each of 2 200 B in 1 100 B in 1 -100 B",
        "cpu[0] gpu[3] . in 1 150 B in 1 +150 B",
        "gpu[0..1] cpu[0] each of 2 . 10 B in 1 +10 B",
        "gpu[2] cpu[1] . 10 B in 1 +10 B",
    ]


def test_a_link_with_as_many_bytes_in_other_tensors_has_no_change() -> None:
    """The numbers of tensors say what differs."""
    one, two = MapTransfer("cpu[0]", "gpu[0]", 1, 64, 0), MapTransfer("cpu[0]", "gpu[0]", 2, 64, 1)
    (row,) = lines_of(evolve(EQUAL, links=(LinkChange("cpu[0]", "gpu[0]", one, two),)))[1:]
    assert " ".join(row.split()) == "cpu[0] gpu[0] 64 B in 1 64 B+ in 2"


@pytest.mark.parametrize(("more", "told"), [(0, []), (1, ["  and 1 more ways"])])
def test_the_ways_of_most_bytes_are_listed(more: int, told: list[str]) -> None:
    """Variables that moved between the same devices share a line; as many lines as there are rows."""
    moves = [held(f"v_{at}", at + 1, f"gpu[{at}]") for at in range(ROWS + more)]
    head, *rows = lines_of(evolve(EQUAL, variables=tuple(moves)))
    total = (ROWS + more) * (ROWS + more + 1) // 2
    assert head == f"variables and slots: {ROWS + more}, {total} B"
    assert rows[0] == f"  cpu[0] -> gpu[{ROWS + more - 1}]  {ROWS + more} B in 1: v_{ROWS + more - 1}"
    assert rows[ROWS - 1] == f"  cpu[0] -> gpu[{more}]  {more + 1} B in 1: v_{more}"
    assert rows[ROWS:] == told


@pytest.mark.parametrize(("spare", "shown"), [(0, 3), (-1, 2)])
def test_as_many_names_are_shown_as_a_line_has_room_for(spare: int, shown: int) -> None:
    """Three names of which the third ends where there is still room for the dots; of the rest, nothing."""
    start = "  cpu[0] -> gpu[0]  4 B in 4: "
    room = WIDTH - len(start) - len(", ...") - len("a, b, ") - spare
    names = ["a", "b", "c" * room, "d"]
    (_, row) = lines_of(evolve(EQUAL, variables=tuple(held(name, 1, "gpu[0]") for name in names)))
    assert row == start + ", ".join([*names[:shown], "..."])
    assert len(row) <= WIDTH


def test_a_variable_that_only_one_map_has() -> None:
    """It is said to have been nowhere, and a first name is shown however long it is."""
    added = Change("n" * 100, "n", None, (), ("gpu[0]",), 8)
    assert lines_of(evolve(EQUAL, variables=(added,)))[1] == f"  (none) -> gpu[0]  8 B in 1: {'n' * 100}"


@pytest.mark.parametrize("more", [0, 1])
def test_devices_of_a_job_are_added_up_if_there_are_too_many(more: int) -> None:
    """Hosts have lines of their own as long as that takes no more lines than there are rows."""
    changes = tuple(
        DeviceChange(f"worker[{task}].gpu[{at}]", None, Totals(ops=1 + task + at))
        for task in range(ROWS + more)
        for at in range(2)
    )
    _, *rows = lines_of(evolve(EQUAL, devices=changes))
    number = ROWS + more
    if more:
        every = sum(1 + task + at for task in range(number) for at in range(2))
        assert [row.split() for row in rows] == [
            [
                f"worker[0..{number - 1}].gpu[0..1]",
                "(sum",
                "of",
                f"{2 * number})",
                "ops",
                ".",
                f"{every}",
                f"+{every}",
            ]
        ]
    else:
        assert len(rows) == ROWS
        assert " ".join(rows[1].split()) == "worker[1].gpu[0..1] (sum of 2) ops . 5 +5"


def test_each_figure_of_a_device_that_differs_has_a_line() -> None:
    """The name of the device stands in the first of them; what is equal is left out."""
    before = Totals(1, 2048, 3, 100, 5, 0, 7, 0)
    after = Totals(1, 1024, 4, None, 6, 0, 9, 0)
    _, *rows = lines_of(evolve(EQUAL, devices=(DeviceChange("gpu[0]", before, after),)))
    assert [" ".join(row.split()) for row in rows] == [
        "gpu[0] variables 2.00 KiB 1.00 KiB -1.00 KiB",
        "slots 3 B 4 B +1 B",
        "memory 100 B . -100 B",
        "in/step 5 B 6 B +1 B",
        "out/step 7 B 9 B +2 B",
    ]


def timed(seconds: float, scopes: dict[str, float], *, estimate: bool = False) -> MapTime:
    """Return the time of a step with so many milliseconds of scopes on its critical path."""
    parts = tuple(MapPathPart(name, each * 1e-3) for name, each in scopes.items())
    return MapTime(seconds, estimate, 1.0, "p", (), (), parts, ())


def test_the_parts_of_a_step_that_differ_most_come_first() -> None:
    """Five scopes and five links; what takes as long as before is left out, however long that is."""
    before = {"same": 90, "gone": 6, "a": 10, "b": 10, "c": 10, "d": 10}
    after = {"same": 90, "a": 15, "b": 6, "c": 13, "d": 8, "new": 1}
    links = tuple(LinkTimeChange("cpu[0]", f"gpu[{at}]", 0.002, 0.001) for at in range(PARTS + 1))
    change = TimeChange(timed(0.1, before), timed(0.1, after), links)
    different = evolve(EQUAL, mode_after=evolve(EQUAL.mode_after, reduce="sum"))
    rows = [line.split() for line in lines_of(evolve(different, time=change))[2:]]
    assert " ".join(rows[0]) == "a step: 100 ms -> 100 ms, the same"
    assert [(row[0], row[-2]) for row in rows[2 : 2 + PARTS]] == [
        ("gone", "-6.00"),
        ("a", "+5.00"),
        ("b", "-4.00"),
        ("c", "+3.00"),
        ("d", "-2.00"),
    ]
    assert rows[2 + PARTS] == ["link", "before", "after", "change"]
    assert [row[2] for row in rows[3 + PARTS :]] == [f"gpu[{at}]" for at in range(PARTS)]


@pytest.mark.parametrize(
    ("sides", "told"),
    [((False, False), ""), ((True, False), " (an estimate)"), ((False, True), " (an estimate)")],
)
def test_a_time_of_which_one_is_an_estimate_is_one(sides: tuple[bool, bool], told: str) -> None:
    """A step without any difference on its critical path and links is a line only."""
    change = TimeChange(
        *(timed(at, {}, estimate=each) for at, each in zip((0.1, 0.05), sides, strict=True)), ()
    )
    different = evolve(EQUAL, mode_after=evolve(EQUAL.mode_after, reduce="sum"))
    assert lines_of(evolve(different, time=change))[2:] == [f"a step: 100 ms -> 50.0 ms, 50% shorter{told}"]
