"""The placement map in a terminal, and what views are made of; whole texts stand in tests/golden/plan/."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from attrs import evolve

from compiler.figures import count, size, size_of_known
from compiler.mapping.records import (
    DeviceTime,
    LinkTime,
    MapOp,
    MapPathPart,
    MapTime,
    MapWorker,
    PlacementMap,
)
from compiler.report import scopes
from compiler.report.devices import Totals, add_up, device_label, device_totals, first_that_fits
from compiler.report.scopes import cut, finder
from compiler.report.terminal import device_table, fullness, matrix, op_list, step_time, terminal_map
from compiler.report.view import View, shorten
from tests.placement_maps import CLONES, make_kinds, make_map, with_counts

ONE, TWO, FOUR, EIGHT = map(make_map, (1, 2, 4, 8))
SCREEN, DEEP = View(depth=1), View(depth=9)


def told(*blocks: Iterable[str]) -> str:
    """Return blocks of lines with an empty line between them."""
    return "\n".join("".join(f"{line}\n" for line in block) for block in blocks)


def of_ops(placement: PlacementMap, **fields: Callable[[MapOp], Any]) -> PlacementMap:
    """Return a map with other fields of its ops, as functions of these make them."""
    ops = [evolve(each, **{name: made(each) for name, made in fields.items()}) for each in placement.ops]
    return with_counts(evolve(placement, ops=tuple(ops)))


def moved(placement: PlacementMap) -> PlacementMap:
    """Return the map after a step that put products of `logits` on the CPU."""
    return of_ops(placement, assigned=lambda op: "cpu[0]" if "/logits/MatMul" in op.name else op.requested)


def forecast(placement: PlacementMap) -> PlacementMap:
    """Return the map with a forecast of memory on every device."""
    devices = [
        evolve(each, step_bytes=1 << 20, memory_bytes=(1 << 20) + each.variable_bytes + each.slot_bytes)
        for each in placement.devices
    ]
    return evolve(placement, devices=tuple(devices))


def of_names(*names: str) -> PlacementMap:
    """Return a map of ops with these names."""
    ops = [evolve(ONE.ops[0], name=name) for name in names]
    return with_counts(evolve(ONE, ops=tuple(ops)))


def without(placement: PlacementMap, *names: str) -> PlacementMap:
    """Return a map that lacks some ops."""
    return with_counts(evolve(placement, ops=tuple(op for op in placement.ops if op.name not in names)))


def timed(**more: Any) -> PlacementMap:
    """Return a map with ten scopes, rules and links that take time, of which five are shown."""
    parts = tuple(MapPathPart(f"part_{at}", 0.01) for at in range(10))
    links = tuple(LinkTime("cpu[0]", f"gpu[{at}]", 0.01, 0.5 - at / 100, 64) for at in range(10))
    time = MapTime(0.1, False, 1.0, "p", (DeviceTime("gpu[0]", 0.004, 0.4),), links, parts, parts[:1])
    return evolve(ONE, time=evolve(time, **more))


def with_limits() -> PlacementMap:
    """Return a map with forecasts and limits of some devices: those of one machine share its memory."""
    cpu, *gpus = FOUR.devices
    known = [
        evolve(each, memory_bytes=300, memory_limit=1000) for each in (cpu, evolve(cpu, ref="cpu[1]"), *gpus)
    ]
    known[4] = evolve(known[4], memory_limit=None)
    known[5] = evolve(known[5], memory_bytes=None)
    return evolve(FOUR, devices=tuple(known))


def of_workers() -> PlacementMap:
    """Return the map of two workers with five clones each, of which the first is listed."""
    first = make_map(5)
    others = [evolve(each, index=each.index + 5) for each in first.clones]
    workers = MapWorker("worker:0", (0, 1, 2, 3, 4), True), MapWorker("worker:1", (5, 6, 7, 8, 9), False)
    return evolve(first, clones=(*first.clones, *others), workers=workers)


FIRST, SECOND = "clone_2/conv1/Relu", "clone_4/conv1/Relu"
IDLE = with_counts(evolve(ONE, devices=(*ONE.devices, evolve(ONE.devices[1], ref="gpu[1]"))))
LIMITED = with_limits()
UNKNOWN = evolve(LIMITED, devices=(evolve(LIMITED.devices[0], memory_bytes=None), *LIMITED.devices[1:]))
LONG = of_ops(ONE, name=lambda op: f"{'long' * 30}/{op.name}")
LONG_DEVICE = evolve(
    TWO, devices=(TWO.devices[0], evolve(TWO.devices[1], ref="worker[0].gpu[123456789]")), transfers=()
)
VIEWS = {
    "two_clones": (TWO, View()),
    "one_clone": (ONE, View()),
    "four_clones": (FOUR, View()),
    "five_clones": (make_map(5), SCREEN),
    "memory": (forecast(TWO), SCREEN),
    "deep": (TWO, View(depth=9, glob="clone_1")),
    "misplaced": (moved(TWO), SCREEN),
    "many_misplaced": (moved(EIGHT), SCREEN),
    "only_misplaced": (moved(TWO), View(only_misplaced=True)),
    "all_in_place": (of_ops(ONE, assigned=lambda op: op.requested), SCREEN),
    "nothing_matches": (TWO, View(glob="conv9")),
    "eight_gpus": (EIGHT, SCREEN),
    "sixteen_devices": (make_map(15), SCREEN),
    "seventeen_devices": (make_map(16), SCREEN),
    "every_clone": (EIGHT, View(depth=1, every_clone=True)),
    "64_gpus_of_a_cluster": (make_map(64, host="worker[{}]."), View(depth=2)),
    "64_gpus_each_on_its_own": (make_map(64), View(depth=1, every_clone=True, glob="clone_1*")),
    "kinds": (make_kinds(3, 2), SCREEN),
    "every_clone_of_kinds": (make_kinds(3, 2), View(depth=1, every_clone=True)),
    "twenty_scopes": (of_names(*(f"scope_{at}/inside/op" for at in range(20))), View()),
    "more_scopes": (of_names(*(f"scope_{at}/inside/op" for at in range(20)), "other/op"), View()),
    "clones_that_differ": (without(make_map(5), FIRST), SCREEN),
    "two_kinds_of_clones": (without(make_map(5), FIRST, SECOND), SCREEN),
    "workers": (of_workers(), SCREEN),
    "limits": (LIMITED, SCREEN),
    "unknown_memory": (UNKNOWN, SCREEN),
    "time": (timed(), SCREEN),
    "one_device": (evolve(ONE, devices=ONE.devices[:1], transfers=()), SCREEN),
}


@pytest.mark.parametrize("name", VIEWS)
def test_terminal_map(name: str, golden: Callable[[str, str], None]) -> None:
    """The map tells what it is of, what each device holds, and how many ops of each scope are where."""
    placement, view = VIEWS[name]
    text = terminal_map(placement, view)
    golden(f"plan/{name}.txt", text)
    assert max(map(len, text.splitlines())) <= 80
    assert text.isascii()


def test_colour_adds_nothing_to_what_is_said() -> None:
    """Without its escape sequences the coloured map is the plain one."""
    plain, coloured = (terminal_map(moved(TWO), View(color=color)) for color in (False, True))
    assert coloured != plain
    assert re.sub("\x1b" + r"\[\d*m", "", coloured) == plain


def reasons() -> PlacementMap:
    """Return ops placed by a rule of the spec, by one of another file, by a default, and by another thing."""
    rules = [CLONES, evolve(CLONES, file="more.tfdeploy"), evolve(CLONES, file=None, line=None, column=None)]
    rules.append(evolve(CLONES, reason="follows", text="v", decided_by=None))
    ops = [evolve(ONE.ops[0], name=f"op_{at}", rule=rule) for at, rule in enumerate(rules)]
    return evolve(ONE, ops=tuple(ops))


@pytest.mark.parametrize(
    ("name", "blocks"),
    {
        "ops": [op_list(moved(TWO), View(glob="clone_1"))],
        "reasons": [op_list(reasons(), View()), op_list(TWO, View(glob="conv9/*"))],
        "columns": [matrix(EIGHT, View(1, every_clone=True, width=width)) for width in (80, 79, 60)],
        "columns_of_hosts": [
            matrix(make_map(24, host="worker[{}]."), View(1, glob="*_1?/*", every_clone=True, width=width))
            for width in (300, 100, 60)
        ],
        "long_names": [matrix(LONG, View(depth=1, width=width)) for width in (50, 61, 90)],
        "long_devices": [device_table(LONG_DEVICE, View(width=width)) for width in (69, 68)],
        "idle_devices": [
            matrix(IDLE, each) for each in (DEEP, View(depth=9, glob="input"), View(only_misplaced=True))
        ],
        "times": [
            step_time(timed(measured=each, by_scope=(), by_rule=(), links=()), View())
            for each in (1.0, 0.9951, 0.9949, 0.0)
        ],
        "estimate": [
            step_time(timed(estimate=True, bubble=0.25), View()),
            step_time(evolve(timed(), mode=evolve(ONE.mode, update="async")), View()),
            step_time(TWO, View()),
        ],
        "full": [fullness(UNKNOWN, View()), fullness(forecast(TWO), View())],
    }.items(),
)
def test_parts_of_a_map(name: str, blocks: list[Iterable[str]], golden: Callable[[str, str], None]) -> None:
    """Lists of ops with their reasons, tables in lines of several widths, and what is said of time."""
    golden(f"plan/{name}.txt", told(*blocks))


@pytest.mark.parametrize(
    ("glob", "number"),
    [("clone_1/*", 9), ("clone_1", 9), ("conv1/kernel", 4), ("*/Relu", 2), ("Relu", 0), ("gradients", 4)],
)
def test_choosing_ops(glob: str, number: int) -> None:
    """A glob takes whole names, in the graph or inside a tower, and whole scopes."""
    assert len(list(View(glob=glob).chosen(TWO))) == number


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (size(0), "."),
        (size(1023), "1023 B"),
        (size(1024), "1.00 KiB"),
        (size(1024 * 1024 - 1), "1024 KiB"),
        (size(25_600_000), "24.4 MiB"),
        (size(123 * 1024**3), "123 GiB"),
        (size(1024**6), "1024 PiB"),
        (count(0), "."),
        (count(1234567), "1,234,567"),
        (size_of_known(2048, 3), "2.00 KiB+"),
        (size_of_known(0, 0), "."),
        (shorten("conv2_block1_1_conv/kernel", 16), "conv2_b...kernel"),
        (shorten("abcdefgh", 8), "abcdefgh"),
        (shorten("abcdefgh", 7), "ab...gh"),
        (shorten("abcdefgh", 6), "ab...h"),
        (shorten("abcdefgh", 1), "a...h"),
    ],
)
def test_figures_and_names(text: str, wanted: str) -> None:
    """Bytes have three digits and a unit of 1024, thousands stand apart, long names keep both ends."""
    assert text == wanted


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (["gpu[0]"], "gpu[0]"),
        (["gpu[3]", "gpu[0]", "gpu[1]"], "gpu[0..1,3]"),
        (["cpu[0]", "gpu[0]", "gpu[1]"], "cpu[0], gpu[0..1]"),
        ([f"worker[{t}].gpu[{i}]" for t in range(2) for i in range(4)], "worker[0..1].gpu[0..3]"),
        (["w[0].gpu[0]", "w[1].gpu[0]", "w[1].gpu[1]"], "w[0].gpu[0], w[1].gpu[0..1]"),
        (["/job:x/device:TPU:0", "gpu[0]"], "/job:x/device:TPU:0[0], gpu[0]"),
    ],
)
def test_labels_of_several_devices(names: list[str], label: str) -> None:
    """Several devices have one name, with ranges that include both ends, as in specs."""
    assert device_label(names) == label


@pytest.mark.parametrize(
    ("most", "figures", "titles"),
    [
        (8, str, None),
        (7, str, [f"{job}[{task}].gpu[0..1] (sum of 2)" for job in "ab" for task in range(2)]),
        (3, str, [f"{job}[0..1].gpu[0..1] (sum of 4)" for job in "ab"]),
        (1, str, [f"{job}[0..1].gpu[0..1] (sum of 4)" for job in "ab"]),
        (2, lambda _: 0, [f"{job}[0..1].gpu[0..1] (each of 4)" for job in "ab"]),
    ],
)
def test_grouping_goes_only_as_far_as_it_must(most: int, figures: Any, titles: list[str] | None) -> None:
    """Devices are shown one by one if there is room, then alike ones together, then sums by host and job."""
    devices = [f"{job}[{task}].gpu[{index}]" for job in "ab" for task in range(2) for index in range(2)]
    groups = first_that_fits(devices, figures, lambda found: len(found) <= most)
    assert [each.title for each in groups] == (titles or devices)


def test_figures_of_devices_are_sums() -> None:
    """In a map by kinds they are those of the records of each clone; busy shares have no sum."""
    kinds = make_kinds(3, 2)
    assert device_totals(kinds) == device_totals(kinds.expanded())
    one, other = Totals(1, 2, 3, 4, 5, 6, 7, 8, 0.5), Totals(10, 20, 30, None, 50, 60, 70, 80, 0.25)
    assert add_up([one, other]) == Totals(11, 22, 33, 4, 55, 66, 77, 88, None)
    assert add_up([other, other]).memory is None


def tree_of(ops: Iterable[MapOp]) -> scopes.Scope:
    """Return the tree of ops, counted by the device asked for."""
    return scopes.build(ops, lambda op: op.name, lambda op: op.requested)


def test_cutting_uses_all_of_the_limit_and_no_more() -> None:
    """Parts together hold every op, their keys stay within the limit, and every op is found in its part."""
    ops = make_map(4).ops
    root = tree_of(ops)
    inside = sum(len(part.counts) for part in cut(root, 20))
    for limit in (10, inside - 1, inside, 20, 40):
        parts = cut(root, limit)
        keys = sum(len(part.counts) for part in parts)
        assert keys <= limit
        assert (keys == inside) == (inside <= limit <= 20)
        find = finder(parts)
        held = {id(part): 0 for part in parts}
        for op in ops:
            part = find(op.name)
            assert part is not None
            held[id(part)] += 1
        assert [held[id(part)] for part in parts] == [part.counts.total() for part in parts]
        assert sum(held.values()) == len(ops)


def test_the_largest_scope_is_opened_first() -> None:
    """Also if one that comes before it, or is smaller, could be opened as well."""
    rule = make_map(1).ops[0].rule
    names = [f"{scope}/{at}/x" for scope, count in (("little", 2), ("large", 5)) for at in "ab" * count]
    ops = [MapOp(name, "Const", None, "init", "cpu[0]", None, rule) for name in names]
    paths = [part.scope.path for part in cut(tree_of(ops), 3)]
    assert paths == ["little", "large/a", "large/b"]


def test_cutting_names_little_things_together() -> None:
    """A scope with more inside than there is room for shows what is large, and the rest under one name."""
    ops = [op for op in make_map(1).ops if op.role == "forward"] * 40
    small = [
        MapOp(f"Fill_{at}/dims", "Const", None, "init", "cpu[0]", None, op.rule)
        for at, op in enumerate(ops[:9])
    ]
    parts = cut(tree_of([*ops, *small]), 6)
    assert [(part.scope.path, part.counts.total()) for part in parts] == [
        ("conv1", 120),
        ("logits", 80),
        ("(9 others)", 9),
    ]
    assert finder(parts)("Fill_3/dims") is parts[2]
