"""The map of clones that are alike is that of their own graph: op for op, link for link."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from compiler.conditions import check_expectations
from compiler.graph.build import compile_graph
from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.many_clones import ManyClones, map_many
from compiler.kinds.grid import NotAlikeError
from compiler.kinds.grow_step import has_same_work
from compiler.kinds.kind_map import AnyMap, KindMap
from compiler.kinds.layout import Extras
from compiler.kinds.reading import read_map
from compiler.kinds.step_kinds import step_kinds
from compiler.kinds.why import explain_many
from compiler.mapping.records import LinkTime, MapDevice, PlacementMap
from compiler.pipeline import make_plan
from compiler.plan import Plan
from compiler.report.dot import dot
from compiler.report.page.data import page_data
from compiler.report.page.tree import Details, cost_of, measures
from compiler.report.scopes import CountedScopes, Scope, build, folded
from compiler.report.terminal import device_table, headline, terminal_map
from compiler.report.view import View
from compiler.step.read.memory import forecast_memory
from compiler.step.read.why import explain_placement
from compiler.step.read.work import forecast_time, timed_step
from compiler.time.forecast import StepForecast
from tests.support import cloned, spec_of

MODEL = """
  x = input(float32, [6])
  label = input(int32, [])
  y = x -> Dense(5, name = "fc1") -> BatchNormalization(name = "norm") -> Dense(3, name = "fc2")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
  metrics { accuracy = [label, y] -> SparseCategoricalAccuracy() }
"""
DATA = "train = synthetic(64, x = feature(float32, [6]), label = feature(int32, classes = 3))"
ON_SERVERS = "clones -> worker[*].gpu[*]\n  variables -> round_robin(ps[*])"
APART = "replication = between_graph"
COPIED = "clones -> worker[*].gpu[*]\n  variables -> replicated"


def _cluster(tasks: int, gpus: int) -> str:
    return f'job "ps" {{ tasks = 2 }}\n  job "worker" {{\n    tasks = {tasks}\n    gpu = {gpus}\n  }}'


def _plan(devices: str, place: str, update: str = "", *, model: str = "", data: str = "") -> Plan:
    update = f"optimizer = Momentum(0.1)\n{update}"
    text = cloned(f"{MODEL}{model}\n", None, devices=devices, place=place, update=update)
    return make_plan(spec_of(f"{text}data {{ {data}{DATA} }}\n"))


PAIRS, FOURS, SINGLES = _cluster(4, 2), _cluster(4, 4), _cluster(8, 1)
AVERAGED, SUMS = "mode = local\n  average_every = 4", "aggregate = hierarchical()"
CUT = "variables -> sharded(ps[*])"
GROUPED = 'clones -> groups(worker[*].gpu[*], size = 2)\n  ops("fc2/*") -> group[1]'
ALIKE = {
    "servers, by tasks and GPUs": (PAIRS, ON_SERVERS, ""),
    "servers, by tasks": (SINGLES, ON_SERVERS, "clip = global_norm(1.0)"),
    "servers, async in one graph": (PAIRS, ON_SERVERS, "mode = async\n  replication = in_graph"),
    "servers, several micro-batches": (PAIRS, ON_SERVERS, "accumulate = 2"),
    "servers, half precision": (PAIRS, ON_SERVERS, "precision = mixed_float16"),
    "pieces on servers": (PAIRS, CUT, ""),
    "slots beside other tasks": (PAIRS, f"{ON_SERVERS}\n  slots -> worker[0].cpu[0]", ""),
    "one pipe for all": (PAIRS, f"{ON_SERVERS}\n  inputs -> worker[0].cpu[0]", ""),
    "copies on one machine": ("gpu = 8", "variables -> replicated", "aggregate = collective()"),
    "copies in a cluster": (PAIRS, COPIED, ""),
    "copies that are averaged, on one machine": ("gpu = 8", "", f"{AVERAGED}\n  aggregate = collective()"),
    "copies that are averaged, with their slots": (PAIRS, COPIED, f"{AVERAGED}\n  average_slots = true"),
    "copies that are averaged, on servers": (
        PAIRS,
        ON_SERVERS,
        f"{AVERAGED}\n  batch_norm = first\n  ema = 0.9\n  pack = 1KB",
    ),
    "copies of pieces that are averaged": (PAIRS, CUT, AVERAGED),
    "packed gradients": ("gpu = 8", "variables -> replicated", "pack = 1KB"),
    "moments of all clones": (PAIRS, ON_SERVERS, "batch_norm = synchronized"),
    "sums within tasks": (PAIRS, ON_SERVERS, SUMS),
    "sums within tasks of pieces and groups": (
        FOURS,
        "clones -> groups(worker[*].gpu[*], size = 2)\n  variables -> sharded(ps[*])",
        SUMS,
    ),
    "sums within tasks, in pairs": (
        FOURS,
        f"{ON_SERVERS}\n  updates -> ps[1]",
        "aggregate = hierarchical(2)",
    ),
    "sums within tasks, and means of statistics": (PAIRS, ON_SERVERS, f"{SUMS}\n  batch_norm = mean"),
    "sums within tasks, packed": (PAIRS, ON_SERVERS, f"{SUMS}\n  pack = 64B"),
    "sums within tasks, in groups of different sizes": (
        _cluster(4, 5),
        CUT,
        "aggregate = hierarchical(size = 3)\n  clip = global_norm(1.0)",
    ),
    "groups": (FOURS, GROUPED, ""),
    "a graph for each worker with one clone": (SINGLES, ON_SERVERS, f"{APART}\n  clip = global_norm(1.0)"),
    "a graph for each worker, async": (PAIRS, ON_SERVERS, "mode = async\n  replication = between_graph"),
    "a graph for each worker, groups and micro-batches": (FOURS, GROUPED, f"{APART}\n  accumulate = 2"),
    **{
        f"a graph for each worker, aggregate = {each}": (FOURS, ON_SERVERS, f"{APART}\n  aggregate = {each}")
        for each in ("tree", "ring", "hierarchical(3)")
    },
    "a graph for each worker": (PAIRS, ON_SERVERS, APART),
    "a graph for each worker, some of which may be missing": (
        PAIRS,
        ON_SERVERS,
        f"{APART}\n  backup = 3\n  clip = global_norm(1.0)",
    ),
    "a graph for each worker, pieces, and workers that may be missing": (
        SINGLES,
        CUT,
        f"{APART}\n  backup = 1\n  reduce = sum\n  batch_norm = first",
    ),
    "own data": (PAIRS, ON_SERVERS, ""),
    "own data, on one machine": ("gpu = 8", "variables -> replicated", "accumulate = 2"),
    "own data, read on a server": (PAIRS, f"{ON_SERVERS}\n  inputs -> ps[0].cpu[0]", ""),
    "own data, async in one graph": (
        PAIRS,
        ON_SERVERS,
        "mode = async\n  replication = in_graph\n  accumulate = 2",
    ),
    "own data, sums within tasks": (PAIRS, ON_SERVERS, SUMS),
    "own data, local": (PAIRS, COPIED, AVERAGED),
    "own data, a graph for each worker": (PAIRS, ON_SERVERS, f"{APART}\n  backup = 1\n  accumulate = 2"),
}


@pytest.mark.family(every=44)
@pytest.mark.parametrize("name", ALIKE)
def test_map_of_eight_clones_is_that_of_their_graph(name: str, tmp_path: Path) -> None:
    """Everything is equal, in the same order; so is what a file says of it, and what views show."""
    devices, place, update = ALIKE[name]
    model = "regularize = L2(0.01)" if "averaged" in name else ""
    data = "per_clone = shard, " if "own data" in name else ""
    plan = _plan(f"kind = v100\n  {devices}", place, update, model=model, data=data)
    found = map_many(plan, least=8, fold=False, extras=Extras(graph=True))
    many = found.placement.expanded()
    compiled = compile_graph(plan, seed=0)
    time = forecast_time(compiled.step, None)
    whole = map_placement(compiled, memory=forecast_memory(compiled.step), time=time.for_map())
    assert len(whole.clones) >= 8
    assert _without_steps(many) == _without_steps(whole)
    _compare_times(found, whole, compiled)
    assert found.step is not None
    assert dot(found.placement, found.step) == dot(whole, step_kinds(compiled.step))
    assert found.warnings == compiled.warnings
    _compare_steps(many, whole)
    assert _not_met(plan, found.placement) == _not_met(plan, whole) != []
    for glob in ("*", "fc1", "clone_5/fc2/*", "{{node clone_2/fc1/MatMul}} and node 'clone_1/fc2/MatMul'"):
        explained = explain_many(found.reasons, found.placement, glob, None)
        assert explained.found == explain_placement(compiled.step, glob)
    texts = [terminal_map(_without_steps(each), View(every_clone=True)) for each in (many, whole)]
    assert texts[0] == texts[1]
    file = tmp_path / "placement.json"
    file.write_text(found.placement.to_json())
    assert read_map(file) == found.placement
    assert headline(found.placement) == headline(whole)
    assert device_table(found.placement, View()) == device_table(many, View())
    _compare_scopes(found.placement, whole)
    listed = Counter(each.requested for each in whole.ops)
    wanted = {each.ref: listed[each.ref] for each in whole.devices}
    pages = _on_page(found.placement, Details(time=found.time)), _on_page(whole, Details(time=time))
    assert pages[0] == pages[1]
    assert {ref: figures[0] for ref, figures in pages[0].items()} == wanted
    for glob in ("fc1/*", "*/fc2/MatMul", "clone_3/*", "input/*"):
        chosen, listed = (list(View(glob=glob).chosen(each)) for each in (found.placement, whole))
        assert sum(each.count for each in chosen) == len(listed), glob


@pytest.mark.family(every=4)
@pytest.mark.parametrize("name", [*ALIKE][::4])
def test_costs_on_the_page_are_those_of_the_graph_of_all_clones(name: str) -> None:
    """Each op costs the same, though one task stands for others, and though no time is forecast."""
    devices, place, update = ALIKE[name]
    data = "per_clone = shard, " if "own data" in name else ""
    plan = _plan(devices, place, update, data=data)
    assert map_many(plan, least=8).work is None
    found = map_many(plan, least=8, extras=Extras(costs=True))
    compiled = compile_graph(plan, seed=0)
    assert found.time is None
    of_all = Details(work=timed_step(compiled.step))
    of_kinds = Details(work=found.work)
    assert measures(of_kinds) == measures(of_all) == ["ops", "held", "flops", "bytes"]
    kinds, whole = found.placement.named, map_placement(compiled)
    many, wanted = cost_of(found.placement, of_kinds), cost_of(whole, of_all)
    costs = {}
    for kind, counted in zip(found.placement.op_kinds, found.placement.counted(), strict=True):
        cost = many(counted)
        costs |= {kinds.one(kind.like, *member).name: cost for member in kinds.members(kind.of)}
    assert costs == {each.op.name: wanted(each) for each in whole.counted()}


def _not_met(plan: Plan, placement: AnyMap) -> list[str]:
    """Return what is said of conditions that do not hold."""
    conditions = (
        'ops(gpu[*], "fc1/*") == 0',
        'ops(gpu[0], "clone_*/fc2/*") == 0',
        "traffic(gpu[*], cpu[0]) == 0B",
    )
    expected = spec_of(f"{cloned(MODEL, devices='gpu = 2')}expect {{ {', '.join(conditions)} }}")
    asked = evolve(plan, spec=evolve(plan.spec, expect=expected.expect))
    return [each.text for each in check_expectations(asked, placement)]


def _compare_times(found: ManyClones, whole: PlacementMap, compiled: CompiledGraph) -> None:
    """Hold the work of a step against that of the graph, op for op, and the forecast that follows from it."""
    many, time = found.placement.time, whole.time
    assert has_same_work(found.time.work, timed_step(compiled.step))
    assert many.seconds == pytest.approx(time.seconds, rel=1e-9)
    assert (many.source, many.estimate, many.measured) == (time.source, time.estimate, time.measured)
    shown = found.placement.expanded().time
    assert [each.ref for each in shown.devices] == [each.ref for each in time.devices]
    assert _bytes(shown.links, found) == _bytes([each for each in time.links if each.bytes], found)
    assert found.placement.device_times == shown.devices
    links = sorted(shown.links, key=lambda each: -each.busy)
    assert list(found.placement.busiest_links()) == list(found.placement.expanded().busiest_links()) == links
    kinds = found.placement.named
    for kind in many.device_kinds:
        refs = kinds.devices(kind.like.ref, kind.of)
        of_kind = [each.busy for each in time.devices if each.ref in refs]
        assert kind.like.busy == pytest.approx(sum(of_kind) / len(of_kind), rel=1e-9)


def _bytes(links: Sequence[LinkTime], found: ManyClones) -> set[tuple[str, str, int]]:
    """Return what links carry; if clones update by themselves, only which links do.

    In the time that is looked at, clones that are alike can then make one round more or less.
    """
    alone = bool(found.time.work.loops)
    return {(each.from_device, each.to_device, 0 if alone else each.bytes) for each in links}


def _compare_scopes(kinds: KindMap, whole: PlacementMap) -> None:
    """Hold the tree of kinds against that of all ops, in which each op is put where its kind is."""
    name, known = folded(kinds), kinds.named
    labels = {}
    for kind, counted in zip(kinds.op_kinds, kinds.counted(), strict=True):
        for member in known.members(kind.of):
            labels[known.one(kind.like, *member).name] = name(counted)
    tree = CountedScopes.of(kinds.counted(), name)
    wanted = build(whole.ops, lambda op: labels[op.name], lambda op: op.requested)
    pairs = list(zip(_scopes(tree.root), _scopes(wanted), strict=True))
    for found, each in pairs:
        assert found.path == each.path
        assert found.total == each.total
        for device in whole.devices:
            assert tree.number(found, device.ref) == each.counts[device.ref]


def _on_page(placement: AnyMap, details: Details) -> dict[str, tuple[int, ...]]:
    """Return what is on each device by the trees and families of the page: ops, bytes, FLOPs, bytes moved."""
    data = page_data(placement, {}, details)
    found = {at: (0, 0, 0, 0) for at, _ in enumerate(data["devices"])}

    def count(node: list[Any]) -> None:
        is_op = isinstance(node[1], int)
        for device, _ in data["spots"][data["kinds"][node[1]][3]] if is_op else ():
            cost = data["costs"][node[3]]
            found[device] = tuple(map(sum, zip(found[device], (1, *cost[:3]), strict=True)))
        for inner in node[4 if is_op else 1 :]:
            count(inner if isinstance(inner, list) else data["families"][inner["family"]]["tree"])

    count(data["tree"])
    return {data["places"][at]: figures for at, figures in found.items()}


def _scopes(root: Scope) -> list[Scope]:
    return sorted([root, *(scope for _, scope in root.walk(root.depth))], key=lambda scope: scope.path)


def _without_steps(placement: PlacementMap) -> PlacementMap:
    return evolve(
        placement,
        devices=tuple(
            evolve(each, step_bytes=None, memory_bytes=None, largest=()) for each in placement.devices
        ),
        time=None,
    )


def _compare_steps(many: PlacementMap, whole: PlacementMap) -> None:
    """Hold the forecasts of memory: equal on GPUs of single clones, alike on devices that all clones use.

    On the latter it depends on the number of clones in which order things happen.
    """
    for found, wanted in zip(many.devices, whole.devices, strict=True):
        if "gpu" in found.ref and not found.ref.endswith("gpu[0]"):
            assert found == wanted
        else:
            assert 0.5 * _step(wanted) - 64 <= _step(found) <= 2 * _step(wanted) + 64


def _step(device: MapDevice) -> int:
    assert device.step_bytes is not None
    return device.step_bytes


def _forecasts(update: str, *, of_their_own: bool) -> tuple[StepForecast, StepForecast]:
    """Return the forecasts of twelve tasks: with all of them, and with two that stand for others."""
    devices = "kind = v100\n  " + _cluster(12, 2)
    for job, count in (("ps", 2), ("worker", 12)) if of_their_own else ():
        named = ", ".join(f'"{job}{at}:2222"' for at in range(count))
        devices = devices.replace(f"tasks = {count}", f"hosts = [{named}]")
    whole, folded = (map_many(_plan(devices, ON_SERVERS, update), fold=fold).time for fold in (False, True))
    assert whole is not None
    assert folded is not None
    return whole, folded


@pytest.mark.full
@pytest.mark.parametrize("update", ["", APART, f"{APART}\n  backup = 4"])
@pytest.mark.parametrize("of_their_own", [True, False])
def test_one_task_stands_for_those_that_are_like_it(of_their_own: bool, update: str) -> None:
    """The forecast with two of twelve tasks is that with all, whether their machines are their own or one.

    If each has a graph of its own, the others write into their boxes at the same moment as the one that
    stands for them, so that servers are busy for a shorter time.
    """
    whole, folded = _forecasts(update, of_their_own=of_their_own)
    assert folded.work.one_machine != of_their_own
    assert len({each.device.host for each in whole.work.ops}) == 14
    shown = {("ps", 0), ("ps", 1), ("worker", 0), ("worker", 11)}
    assert {each.device.host for each in folded.work.ops} == shown
    assert folded.seconds == pytest.approx(whole.seconds, rel=0.02)
    busy = {each.ref: each.busy for each in whole.devices}
    for each in folded.devices:
        assert each.busy == pytest.approx(busy[each.ref], rel=0.25 if update else 0.05, abs=0.002), each.ref


@pytest.mark.full
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("of_their_own", "near"), [(True, 0.002), (False, 0.05)])
def test_a_task_stands_for_others_that_update_by_themselves(
    of_their_own: bool, near: float, apart: bool
) -> None:
    """The forecast with two of twelve tasks is nearly that with all, though clones are not in step.

    Groups of clones have longer ops on servers than single ones, so that these overlap at other times.
    """
    replication = "between_graph" if apart else "in_graph"
    whole, folded = _forecasts(f"mode = async\n  replication = {replication}", of_their_own=of_their_own)
    assert len(whole.work.loops) == (12 if apart else 24)
    assert len(folded.work.loops) == (2 if apart else 4)
    assert folded.seconds == pytest.approx(whole.seconds, rel=near)
    busy = {each.ref: each.busy for each in whole.devices}
    for each in folded.devices:
        assert each.busy == pytest.approx(busy[each.ref], rel=0.1, abs=0.035)


def test_many_clones_of_one_process_that_update_by_themselves_are_left_to_their_graph() -> None:
    """None of them can stand for others in the forecast of time; without one, their graph is not needed.

    The same is true of clones on processors that tasks share.
    """
    cluster = 'job "ps" {}\n  job "worker" { tasks = 65 }'
    for kind, devices, place in (
        ("v100", "gpu = 65", "variables -> cpu[0]"),
        ("cpu", cluster, "clones -> worker[*]\n  variables -> ps[0]"),
    ):
        update = "mode = async\n  replication = in_graph"
        with pytest.raises(NotAlikeError, match="each makes by itself"):
            map_many(_plan(f"kind = {kind}\n  {devices}", place, update))
        assert map_many(_plan(devices, place, update)).time is None


@pytest.mark.full
def test_servers_need_room_for_what_all_clones_send() -> None:
    """The gradients of the largest variable of a server are there together before they are summed."""
    many = map_many(_plan(_cluster(16, 4), ON_SERVERS)).placement.expanded()
    servers = [each for each in many.devices if each.ref.startswith("ps")]
    received = {
        each.to_device: each.largest[0].bytes
        for each in many.transfers
        if each.from_device == "worker[15].gpu[3]"
    }
    assert len(servers) == 2
    for each in servers:
        assert _step(each) >= 63 * received[each.ref]
        assert each.largest[0].name.startswith("clone_")


@pytest.mark.full
def test_servers_need_room_for_the_sums_of_all_tasks() -> None:
    """The sums of a variable are there together, one from each task, before they are summed."""
    many = map_many(_plan(_cluster(16, 2), ON_SERVERS, "aggregate = hierarchical()")).placement.expanded()
    servers = [each for each in many.devices if each.ref.startswith("ps")]
    assert len(servers) == 2
    for each in servers:
        sums = [
            link for link in many.transfers if link.to_device == each.ref and "worker[15]" in link.from_device
        ]
        assert _step(each) >= 16 * max(tensor.bytes for link in sums for tensor in link.largest)
        assert all(tensor.name.startswith("aggregate/") for tensor in each.largest)


@pytest.mark.full
def test_servers_weight_the_gradients_of_workers_one_after_the_other() -> None:
    """The products of two workers are there at once, with zeros for each: nearly as in the graph of all."""
    plan = _plan(_cluster(12, 2), ON_SERVERS, f"{APART}\n  backup = 2")
    many = map_many(plan).placement.expanded()
    wanted = forecast_memory(compile_graph(plan, seed=0).step)
    fullest = max(many.devices, key=lambda each: _step(each) if each.ref.startswith("ps") else 0)
    assert _step(fullest) == pytest.approx(wanted[fullest.ref].bytes, rel=0.02)


def test_what_few_clones_do_not_show_is_left_to_the_graph() -> None:
    """The graph of more clones has something that does not follow from that of fewer."""
    spread = "clones -> worker[*].gpu[*]\n  variables -> round_robin(worker[*].cpu[0])"
    with pytest.raises(NotAlikeError):
        map_many(_plan(_cluster(16, 2), spread))
