"""What the page has: devices, links, variables, the model, ops as a tree, and the timeline of a step."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from compiler.kinds.kind_map import AnyMap
from compiler.mapping.records import LinkTime, MapOp, MapSlot, MapSpec, MapTensor, PlacementMap
from compiler.report.compare import compare
from compiler.report.page.data import (
    Side,
    diff_data,
    lines_of,
    page_data,
    places_of,
    rules_of,
    texts_of,
    texts_on_disk,
)
from compiler.report.page.timeline import NAMED, ROWS, TOLD, timeline_data
from compiler.report.page.tree import Details
from compiler.time.forecast import forecast_step
from compiler.time.measured_trace import RunTrace, TraceEvent
from compiler.topology import Device
from dsl import ir
from dsl.source import Source, Span
from tests.compiler.report.page.pages import LINES, model, timed_step
from tests.compiler.report.test_compare import MAPS
from tests.compiler.time.steps import Machine, op, step
from tests.placement_maps import CLONES, SPEC, VARIABLES, make_kinds, make_map
from tests.support import classifier, spec_of


def whole() -> PlacementMap:
    """Return a map of which all figures of a device, a variable and a link are known, and the time."""
    placement = make_map(2)
    tensors = MapTensor("a:0", 4), MapTensor("b:0", 3)
    cpu, *gpus = placement.devices
    cpu = evolve(cpu, other_bytes=7, step_bytes=8, memory_bytes=9, memory_limit=10, largest=tensors)
    first, second = placement.variables
    copied = evolve(first, copies=("gpu[0]", "gpu[1]"), group="*/kernel", slots=(MapSlot("a", 5, "gpu[1]"),))
    lists = [(MapTensor(f"clone_{at}/x:0", 64), MapTensor(f"clone_{at}/y:0", 8)) for at in (0, 1)]
    lists += [(MapTensor("clone_0/x:0", 64), MapTensor("clone_1/x:0", 64)), (MapTensor("clone_1", 4),)]
    links = [evolve(each, largest=own) for each, own in zip(placement.transfers, lists, strict=True)]
    time = evolve(timed_step().for_map(), links=(LinkTime("cpu[0]", "gpu[1]", 0.01, 0.123456, 64),))
    return evolve(
        placement, devices=(cpu, *gpus), variables=(copied, second), transfers=tuple(links), time=time
    )


def details() -> Details:
    """Return the time and the model, with a layer of each kind."""
    found = model()
    weight = evolve(found.layers[1], kind="weight", call=ir.Call("weight"))
    assert [each.begin.line for each in places_of(found)] == [12, 12]
    return Details(time=timed_step(), model=evolve(found, layers=(found.layers[0], weight, found.layers[2])))


def written(data: dict[str, Any]) -> str:
    """Return the data of a page with a line for each item of its parts."""
    lines = []
    for name, value in data.items():
        parts = value.items() if isinstance(value, dict) else value if isinstance(value, list) else [value]
        lines += [name, *(f"  {json.dumps(each)}" for each in parts)]
    return "".join(f"{line}\n" for line in lines)


PAGES: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": lambda: page_data(make_map(2), LINES, Details()),
    "whole": lambda: page_data(whole(), LINES, details()),
    "kinds": lambda: page_data(make_kinds(3, 2), LINES, Details()),
    **{
        f"diff_{name}": lambda name=name: diff_data(  # type: ignore[misc]  # the name of this turn
            *(Side(label, each, LINES) for label, each in zip("ab", MAPS[name], strict=True)),
            compare(*MAPS[name]),
        )
        for name in ("a_variable_moved", "one_clone_to_two", "cut", "another_axis", "the_mode")
    },
}


@pytest.mark.parametrize("name", PAGES)
def test_data_of_a_page(name: str, golden: Callable[[str, str], None]) -> None:
    """All that scripts read; what is not known is null, and of many clones' tensors one list is there."""
    golden(f"page/{name}.txt", written(PAGES[name]()))


def test_the_lines_around_those_of_rules() -> None:
    """Three before and after, within the text; files that are not known have none."""
    numbered = "".join(f"line {number}\n" for number in range(1, 30))
    placement = make_map(2)
    assert {CLONES, VARIABLES} <= set(rules_of(placement))
    assert {CLONES, VARIABLES} <= set(rules_of(make_kinds()))
    found = lines_of(placement, {SPEC: numbered})
    assert found == {SPEC: {number: f"line {number}" for number in range(9, 17)}}
    assert lines_of(placement, {"other": numbered}) == {}
    short = lines_of(placement, {SPEC: numbered.partition("line 14\n")[0].replace("\n", "\r\n")})
    assert short == {SPEC: {number: f"line {number}" for number in range(9, 14)}}


def test_the_lines_of_other_places() -> None:
    """Their files are known from them, unless another text is given."""
    source = Source("own.tfdeploy", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
    span = Span(source, source.text.index("two"), source.text.index("two") + 3)
    found = lines_of(make_map(1), {}, [span])
    words = ["one", "two", "three", "four", "five"]
    assert found == {"own.tfdeploy": dict(enumerate(words, start=1))}
    given = lines_of(make_map(1), {"own.tfdeploy": "a\nb\n"}, [span])
    assert given == {"own.tfdeploy": {1: "a", 2: "b"}}


def test_texts_that_have_the_rules(tmp_path: Path) -> None:
    """Those of a spec that was read; or the file of a map, if its digest is that of the spec of the map."""
    assert texts_of(classifier()) == {}
    spec = spec_of(
        'tfdeploy = 1\nmodel "m" {\n x = input(float32, [2])\n output = x\n}\nplace { variables -> cpu[0] }\n'
    )
    assert list(texts_of(spec)) == ["test.tfdeploy"]
    assert "variables -> cpu[0]" in texts_of(spec)["test.tfdeploy"]
    file = tmp_path / "a.tfdeploy"
    raw = b"place {} \xff\n"
    placement = evolve(make_map(1), spec=MapSpec(str(file), hashlib.sha256(raw).hexdigest()))
    assert texts_on_disk(placement) == {}
    file.write_bytes(raw)
    assert texts_on_disk(placement) == {str(file): "place {} \ufffd\n"}
    file.write_bytes(raw + b"\n")
    assert texts_on_disk(placement) == {}


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


def trace_of(*runs: tuple[str, float, float]) -> RunTrace:
    """Return the trace of a step, with the start and the length of each op in milliseconds."""
    return RunTrace(
        tuple(TraceEvent("X", long * 1e3, {"name": name}, start * 1e3) for name, start, long in runs)
    )


@pytest.mark.parametrize("more", [0, 2])
def test_the_busiest_devices_have_rows(more: int) -> None:
    """As many as there is room for, in the order of the map; the number of the others is told."""
    devices = [Device("cpu", at, ordinal=at) for at in range(ROWS + more)]
    idle = {0, 7} if more else set()
    ops = [op(f"op{at}={1 if at in idle else 10}", device) for at, device in enumerate(devices)]
    found = timeline_data(forecast_step(step(ops, []), Machine(cores=ROWS + more)))
    assert [row["label"] for row in found["rows"]] == [
        each.ref for at, each in enumerate(devices) if at not in idle
    ]
    assert found["left"] == more
    assert found["beneath"] is None


def test_links_have_rows_of_their_own() -> None:
    """They are kept beside as many devices, and have bytes and a lane."""
    cpus = [Device("cpu", at, ordinal=at) for at in range(ROWS + 2)]
    ops = [op("a=1", cpus[0]), *(op(f"b{at}=1", each) for at, each in enumerate(cpus[1:]))]
    arrows = [("a", f"b{at}") for at in range(len(ops) - 1)]
    work = step(ops, arrows, {"a": 100}, one_process=True)
    found = timeline_data(forecast_step(work, Machine(cores=4, speed=1e5)))
    links = [row for row in found["rows"] if "->" in row["label"]]
    assert (len(links), len(found["rows"]) - len(links), found["left"]) == (ROWS, ROWS, 1 + 2)
    name, *bar = links[0]["bars"][0]
    assert (_named(found, name), bar) == ("a:0", [0, 1000, 1000, 1, 100])
    assert links[0]["lanes"] == 1


def _named(found: dict[str, Any], name: int) -> str:
    """Return a name of the timeline."""
    form, *numbers = found["names"][name]
    return found["forms"][form].replace("#", "{}").format(*numbers)


def test_names_that_differ_in_numbers_have_one_form() -> None:
    """A number that would be written in another way stays as it is; an op off the path has four parts."""
    names = ["mail/unit_2/conv_01/worker_63=4", "mail/unit_2/conv_01/worker_0=5", f"mail/{10**12}/v2=1"]
    found = timeline_data(forecast_step(step([op(each) for each in names], []), Machine(cores=3)))
    assert set(found["forms"]) == {"mail/unit_#/conv_01/worker_#=#", f"mail/{10**12}/v#=#"}
    bars = sorted(found["rows"][0]["bars"], key=lambda bar: bar[3])
    assert [_named(found, name) for name, *_ in bars] == [names[2], *names[:2]]
    assert [bar[2:] for bar in bars] == [[0, 1000], [0, 4000], [0, 5000, 1]]


def test_measured_ops_lie_in_lanes_that_are_free() -> None:
    """An op that starts when another ends takes its lane; busy is the part in which any of them runs."""
    ops = [op(f"{name}=1") for name in "abcd"]
    timed = forecast_step(step(ops, []), Machine())
    timed = evolve(timed, work=evolve(timed.work, ops=tuple(evolve(e, name=e.name[0]) for e in ops)))
    ran = trace_of(("a", 0, 4), ("b", 1, 2), ("c", 3, 2), ("d", 8, 2))
    found = timeline_data(timed, ran)
    (row,) = found["rows"]
    lanes = {_named(found, name): (lane, start, long) for name, lane, start, long in row["measured"]}
    assert lanes == {
        "a": (0, 0.0, 4000.0),
        "b": (1, 1000.0, 2000.0),
        "c": (1, 3000.0, 2000.0),
        "d": (0, 8000.0, 2000.0),
    }
    assert (row["measured_lanes"], row["measured_busy"]) == (2, 0.7)
    assert (found["beneath"]["length"], found["until"]) == (10_000.0, 10_000.0)


@pytest.mark.parametrize("more", [0, 1])
def test_the_ops_that_differ_most_are_compared(more: int) -> None:
    """Fifty in a table, five in sentences; those that took as long as forecast in neither."""
    number = NAMED + more
    ops = [op(f"op{at}=1") for at in range(number + 1)]
    timed = forecast_step(step(ops, []), Machine())
    names = tuple(evolve(each, name=each.name.partition("=")[0]) for each in ops)
    timed = evolve(timed, work=evolve(timed.work, ops=names))
    ran = trace_of(*((f"op{at}", at, 2 + at) for at in range(number)), (f"op{number}", 0, 1))
    beneath: dict[str, Any] = timeline_data(timed, ran)["beneath"]
    assert len(beneath["ops"]) == NAMED
    assert len(beneath["told"]) == TOLD
    differences = [1.0 + at for at in range(number)]
    assert beneath["share"] == pytest.approx(sum(differences[-TOLD:]) / sum(differences))
    assert [round(each[4] - each[3]) for each in beneath["told"]] == [
        1000 * round(each) for each in differences[: -TOLD - 1 : -1]
    ]
    for rows, columns in (("told", slice(3, 5)), ("ops", slice(2, 4))):
        measured = [1000.0 * (2 + at) for at in range(number)][: -len(beneath[rows]) - 1 : -1]
        assert [each[columns] for each in beneath[rows]] == [
            pytest.approx([1000.0, each]) for each in measured
        ]


def test_a_step_that_took_as_long_as_forecast() -> None:
    """Nothing is told of it then."""
    timed = forecast_step(step([op("a=1")], []), Machine())
    timed = evolve(timed, work=evolve(timed.work, ops=(evolve(timed.work.ops[0], name="a"),)))
    beneath = timeline_data(timed, trace_of(("a", 0, 1)))["beneath"]
    assert (beneath["share"], beneath["told"], beneath["ops"]) == (0.0, [], [])
