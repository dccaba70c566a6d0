"""How much each view of a terminal shows: as much as is promised, and one thing more is counted or cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from compiler.figures import duration
from compiler.mapping.explanation import Explanation, Link
from compiler.mapping.records import LinkTime, MapPathPart, MapTime
from compiler.reasons import Reason
from compiler.report.devices import pools
from compiler.report.terminal import SHOWN as PARTS
from compiler.report.terminal import fullness, matrix, op_list, step_time
from compiler.report.timeline import LONGEST, SHOWN, beneath_text
from compiler.report.view import Ink, View
from compiler.report.why import NAMED, why_text
from compiler.shards import Shard
from compiler.time.measured_trace import Beneath, OpTimes
from tests.placement_maps import CLONES, make_map, with_counts

if TYPE_CHECKING:
    from compiler.mapping.records import PlacementMap

DEFAULT = Reason("inputs -> cpu[0]", "default")


def explained(name: str, **more: Any) -> Explanation:
    """Return the explanation of an op that was placed by a default."""
    return Explanation(
        "op", name, "Op", "forward", None, "cpu[0]", None, (Link("op", name, "cpu[0]", DEFAULT),), **more
    )


@pytest.mark.parametrize(
    ("more", "told"), [(0, []), (1, ["  and 1 more; plan --ops --filter lists them all"])]
)
def test_why_names_the_first_things(more: int, told: list[str]) -> None:
    """Eight of them have lines; if there are more, their number follows."""
    lines = why_text([explained(f"op_{at}") for at in range(NAMED + more)], Ink()).splitlines()
    assert lines[0] == f"{NAMED + more} ops placed by `inputs -> cpu[0]`"
    assert lines[1 : NAMED + 1] == [f"  cpu[0]  op_{at}" for at in range(NAMED)]
    assert lines[NAMED + 1 : -1] == told


def test_why_tells_of_pieces() -> None:
    """Rows are counted from 0, and both ends are included; other axes have their numbers."""
    pieces = [
        explained(f"v/shard_{at}", shard=Shard("v", at, 2, axis, at * 1500, 1500, (3000, 8, 3000)))
        for at, axis in ((0, 0), (1, 2))
    ]
    assert why_text(pieces, Ink()).splitlines()[:3] == [
        "2 pieces placed by `inputs -> cpu[0]`",
        "  cpu[0]  v/shard_0 piece 0 of 2: rows 0..1,499",
        "  cpu[0]  v/shard_1 piece 1 of 2: axis 2 1,500..2,999",
    ]
    assert why_text(pieces[1:], Ink()).splitlines()[2] == "  piece 1 of 2: axis 2 1,500..2,999 of v"
    assert why_text([*pieces, explained("op")], Ink()).startswith("3 ops placed by")


def beneath(*seconds: float) -> Beneath:
    """Return ops that were forecast to take 10 seconds and took so many more."""
    named = [("n" * LONGEST + f"_{at}", each) for at, each in enumerate(seconds)]
    return Beneath(1, tuple(OpTimes(10.0, 10.0 + each, name, "", "cpu[0]") for name, each in named), 0.0)


@pytest.mark.parametrize("more", [0, 1])
def test_as_many_ops_are_named_beneath_a_forecast(more: int) -> None:
    """Ten, with a sign, and with names that are cut in the middle."""
    first, head, *rows = beneath_text(beneath(*[-1.0] * 9, *[1.0] * (1 + more)), View())
    took, forecast = (duration(each) for each in (9 * 9 + 11 * (1 + more), 10 * (10 + more)))
    assert first == f"measured in 1 step: its ops took {took} together, forecast {forecast}"
    assert head.startswith("largest differences")
    assert len(rows) == SHOWN
    assert rows[0].split()[2:] == ["10.0", "s", "9.00", "s", "-1.00", "s"]
    assert rows[9].split()[2:] == ["10.0", "s", "11.0", "s", "+1.00", "s"]
    assert all(len(row.split()[0]) == LONGEST for row in rows)


def test_an_op_that_took_as_long_as_forecast_is_not_named() -> None:
    """The head of the table stays without rows."""
    assert len(beneath_text(beneath(0.0, 0.0), View())) == 2


def timed(measured: float = 1.0, **more: Any) -> PlacementMap:
    """Return a map with a forecast of ten parts of the step and ten links."""
    parts = tuple(MapPathPart(f"part_{at}", 0.01) for at in range(10))
    links = tuple(LinkTime("cpu[0]", f"gpu[{at}]", 0.01, 0.5 - at / 100, 64) for at in range(10))
    return evolve(make_map(1), time=MapTime(0.1, False, measured, "p", (), links, parts, parts[:1]), **more)


def test_the_longest_parts_of_a_step_are_shown() -> None:
    """Five scopes and rules, and the five links that are busiest."""
    rows = [line.split() for line in step_time(timed(), View())]
    assert [row[0] for row in rows[2 : 2 + PARTS]] == [f"part_{at}" for at in range(PARTS)]
    assert rows[2 + PARTS][:2] == ["by", "rule"]
    assert rows[3 + PARTS] == ["part_0", "10.0", "ms", "10%"]
    assert rows[4 + PARTS] == ["link", "bytes", "time", "busy"]
    assert [row[2] for row in rows[5 + PARTS :]] == [f"gpu[{at}]" for at in range(PARTS)]


@pytest.mark.parametrize(
    ("measured", "told"),
    [
        (1.0, "forecast by p"),
        (0.9951, "forecast by p"),
        (0.9949, "forecast by p, which has 99% of the time of its ops"),
        (0.0, "forecast by p, which has 0% of the time of its ops"),
    ],
)
def test_how_much_of_a_step_was_measured(measured: float, told: str) -> None:
    """Half of a percent that was not is not worth a word."""
    assert step_time(timed(measured), View())[0] == f"a step takes 100 ms, {told}"


def test_the_time_of_clones_that_update_by_themselves() -> None:
    """It is that from one update, of any of them, to the next."""
    mode = evolve(make_map(1).mode, update="async")
    assert step_time(timed(mode=mode), View())[0].startswith("there is an update every 100 ms")


def test_memory_of_gpus_and_of_machines() -> None:
    """A GPU has its own, the CPU devices of a machine share theirs; what is unknown is left out."""
    cpu, *gpus = make_map(4).devices
    other = evolve(cpu, ref="cpu[1]")
    devices = [evolve(each, memory_bytes=300, memory_limit=1000) for each in (cpu, other, *gpus[:2])]
    devices += [evolve(gpus[2], memory_bytes=300), evolve(gpus[3], memory_limit=1000)]
    placement = evolve(make_map(4), devices=tuple(devices))
    assert [(len(each.devices), each.needed, each.limit, each.excess) for each in pools(placement)] == [
        (2, 600, 1000, -400),
        (1, 300, 1000, -700),
        (1, 300, 1000, -700),
    ]
    assert [" ".join(line.split()) for line in fullness(placement, View())[1:]] == [
        "cpu[0..1] 600 B 1000 B 60.0%",
        "gpu[0..1] (each of 2) 300 B 1000 B 30.0%",
    ]
    unknown = evolve(placement, devices=(devices[0], evolve(other, memory_limit=1000), *gpus))
    assert pools(unknown) == ()
    assert fullness(unknown, View()) == []


def test_columns_are_as_many_as_a_line_has_room_for() -> None:
    """Each GPU has a column in a line that is just wide enough for all; in a narrower one they share it."""
    placement = make_map(8)

    def lines(width: int) -> list[str]:
        return matrix(placement, View(depth=1, every_clone=True, width=width))

    wide = next(width for width in range(40, 200) if "gpu[7]" in lines(width)[0].split())
    assert max(map(len, lines(wide))) == wide
    for width in range(60, wide + 20):
        assert max(map(len, lines(width)[:-1])) <= width
    assert "gpu[7]" not in lines(wide - 1)[0].split()


@pytest.mark.parametrize("width", [50, 61, 90])
def test_long_names_of_scopes_fill_the_width(width: int) -> None:
    """They are cut so that the longest line is as wide as there is room."""
    placement = make_map(1)
    long = with_counts(
        evolve(
            placement, ops=tuple(evolve(each, name=f"{'long' * 30}/{each.name}") for each in placement.ops)
        )
    )
    lines = matrix(long, View(depth=1, width=width))
    assert max(map(len, lines)) == width


def test_devices_without_ops_are_told_of() -> None:
    """None is told of if all have some; of chosen ops it is said that none is there."""
    placement = make_map(1)
    idle = with_counts(
        evolve(placement, devices=(*placement.devices, evolve(placement.devices[1], ref="gpu[1]")))
    )
    assert matrix(placement, View(depth=9))[-1].startswith("all ")
    assert matrix(idle, View(depth=9))[-1] == "no ops on gpu[1]"
    assert matrix(idle, View(depth=9, glob="input"))[-1] == "none of these on gpu[0..1]"
    assert matrix(idle, View(only_misplaced=True)) == ["no misplaced op"]


def test_the_reason_of_an_op_names_another_file() -> None:
    """A rule of the spec has its line; one of an included file has that file too."""
    op = make_map(1).ops[0]
    places = [CLONES, evolve(CLONES, file="more.tfdeploy"), evolve(CLONES, file=None, line=None, column=None)]
    ops = tuple(evolve(op, name=f"op_{at}", rule=rule) for at, rule in enumerate(places))
    ops += (evolve(op, name="op_3", rule=evolve(CLONES, reason="follows", text="v", decided_by=None)),)
    listed = list(op_list(evolve(make_map(1), ops=ops), View()))
    assert [line.partition("op_")[2] for line in listed] == [
        "0  clones -> gpu[*] (line 12)",
        "1  clones -> gpu[*] (more.tfdeploy:12)",
        "2  clones -> gpu[*] (default)",
        "3  follows v",
    ]
