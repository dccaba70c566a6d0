"""The map and the work of workers that have graphs of their own, read from the graph of the chief."""

from collections import Counter
from typing import Any

import pytest

from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.many_clones import map_many
from compiler.kinds.grid import NotAlikeError
from compiler.mapping.records import PlacementMap
from compiler.pipeline import make_plan
from compiler.plan import WorkerPlan
from compiler.step.read.held import held_variables
from compiler.step.read.transfers import list_transfers
from compiler.step.read.work import timed_step
from compiler.step.read.workers import (
    AGAIN,
    ENDED,
    WAITING,
    GraphPart,
    StepParts,
    of_worker,
    steps_of_all,
    work_of,
)
from compiler.time.work import Arrow, Signature, StepWork, TimedOp
from compiler.topology import Device
from tests.graphs import graph_of, map_of
from tests.support import CLASSIFIER, CONVOLUTION, classifier, cloned, spec_of

CLUSTER = CLASSIFIER.format(clones=3, batch=4, optimizer="SGD(0.1)", layers=CONVOLUTION).replace(
    "cpu = 3", 'job "ps" {}\n job "worker" { tasks = 3 }'
)


def plan_of(**more: str) -> WorkerPlan:
    """Return the plan of the chief of three workers with a server."""
    plan = make_plan(spec_of(CLUSTER, update__replication="between_graph", **more), worker=0)
    assert isinstance(plan, WorkerPlan)
    return plan


def op(name: str, device: Device, clone: int | None = None) -> TimedOp:
    """Return an op."""
    return TimedOp(name, Signature("Op", ()), device, 0, 0, clone=clone)


def part(plan: WorkerPlan) -> GraphPart:
    """Return a read on the server, a product of the chief's clone, and what it leaves at the server."""
    devices = {each.ref: each for each in plan.topology.devices}
    server, worker = devices["ps[0].cpu[0]"], devices["worker[0].cpu[0]"]
    ops = (op("read", server), op("product", worker, 0), op("left", server))
    return GraphPart(ops, (Arrow(0, 1, "read:0", 8), Arrow(1, 2, "product:0", 8)), frozenset({1}))


def waits(work: StepWork) -> set[tuple[str, str]]:
    """Return which op waits for which, by their names and tasks."""
    shown = [f"{each.name}@{each.device.task}" for each in work.ops]
    return {(shown[each.target], shown[each.source]) for each in work.arrows}


def test_threads_of_one_process_look_for_work() -> None:
    """Those of several processes on one machine take the cores from each other, and do not."""
    alone = work_of(make_plan(classifier(clones=2)), GraphPart((), ()))
    assert (alone.looking, alone.task_threads, alone.one_process, alone.one_machine) == (True, {}, True, True)
    several = work_of(plan_of(), GraphPart((), ()))
    assert (several.looking, several.one_process, several.one_machine) == (False, False, True)
    assert several.task_threads


def test_the_ends_of_a_part() -> None:
    """What waits for nothing, and what nothing waits for."""
    found = part(plan_of(update__mode='"async"'))
    assert (found.first, found.last) == ((0,), (2,))
    assert (GraphPart(found.ops, ()).first, GraphPart(found.ops, ()).last) == ((0, 1, 2), (0, 1, 2))


def test_another_worker_has_its_own_ops_on_its_own_devices() -> None:
    """Those beside variables stay; the chief's part is as it is."""
    plan = plan_of(update__mode='"async"')
    chief = part(plan)
    assert of_worker(plan, chief, 0) is chief
    other = of_worker(plan, chief, 2)
    assert [each.device.ref for each in other.ops] == ["ps[0].cpu[0]", "worker[2].cpu[0]", "ps[0].cpu[0]"]
    assert other.arrows == chief.arrows
    not_own = GraphPart(chief.ops, chief.arrows)
    assert [each.device.ref for each in of_worker(plan, not_own, 2).ops][1] == "worker[0].cpu[0]"


def test_clones_that_another_worker_does_not_have_are_left_out() -> None:
    """With all that they send and wait for; the numbers of the others move up."""
    plan = plan_of(update__mode='"async"')
    one = part(plan)
    worker = one.ops[1].device
    ops = (one.ops[0], op("second", worker, 1), *one.ops[1:])
    arrows = (Arrow(0, 1), Arrow(0, 2), Arrow(1, 3), Arrow(2, 3))
    other = of_worker(plan, GraphPart(ops, arrows, frozenset({1, 2})), 1)
    assert [each.name for each in other.ops] == ["read", "product", "left"]
    assert [(each.source, each.target) for each in other.arrows] == [(0, 1), (1, 2)]


def test_workers_that_update_alone_repeat_their_own_ops() -> None:
    """No op of a worker waits for one of another."""
    plan = plan_of(update__mode='"async"')
    work = steps_of_all(plan, StepParts(part(plan)))
    assert work.loops == ((0, 1, 2), (3, 4, 5), (6, 7, 8))
    assert [work.ops[at].device.task for at in (1, 4, 7)] == [0, 1, 2]
    assert {(each.source // 3, each.target // 3) for each in work.arrows} == {(0, 0), (1, 1), (2, 2)}


def test_of_workers_that_update_alone_the_last_stands_for_others() -> None:
    """Only the first and the last repeat their ops, on the devices that remain."""
    text = CLUSTER.replace("count = 3", "count = 5").replace("tasks = 3", "tasks = 5")
    plan = make_plan(spec_of(text, update__replication="between_graph", update__mode='"async"'), worker=0)
    assert isinstance(plan, WorkerPlan)
    work = steps_of_all(plan, StepParts(part(plan)), fold=True)
    assert work.loops == ((0, 1, 2), (3, 4, 5))
    assert [work.ops[at].device.task for at in (1, 4)] == [0, 4]
    assert work.alike == {("worker", 4): 4}
    assert {each.host for each in work.devices} == {("ps", 0), ("worker", 0), ("worker", 4)}


def test_a_folded_step_has_every_worker_beside_the_variables() -> None:
    """Of all but the first and the last, there is what they do on the server, and nothing else."""
    text = CLUSTER.replace("count = 3", "count = 5").replace("tasks = 3", "tasks = 5")
    plan = make_plan(spec_of(text, update__replication="between_graph"), worker=0)
    assert isinstance(plan, WorkerPlan)
    server = plan.topology.devices[0]
    work = steps_of_all(plan, StepParts(part(plan), GraphPart((op("apply", server),), ())), fold=True)
    names = [each.name for each in work.ops]
    assert (names.count("read"), names.count("left"), names.count("product")) == (5, 5, 2)
    assert {each.device.task for each in work.ops if each.name == "product"} == {0, 4}


@pytest.mark.parametrize(("backup", "needed"), [("0", {0, 1, 2}), ("1", {0, 1}), ("2", {0})])
def test_the_chief_applies_what_enough_workers_have_left(backup: str, needed: set[int]) -> None:
    """It waits for all but the spare ones; the others go on when it has applied, and have left their own."""
    plan = plan_of(update__mode='"sync"', update__backup=backup)
    server = plan.topology.devices[0]
    applied = GraphPart((op("scale", server), op("apply", server)), (Arrow(0, 1),))
    work = steps_of_all(plan, StepParts(part(plan), applied))
    found = waits(work)
    begun = {("scale@0", f"{AGAIN}@0"), (f"{AGAIN}@0", f"{WAITING}@0")}
    assert {("apply@0", "scale@0"), *(begun if backup != "0" else {("scale@0", f"{WAITING}@0")})} <= found
    assert {source for target, source in found if target == f"{WAITING}@0"} == {
        f"{ENDED}@{each}" for each in needed
    }
    for worker in (1, 2):
        assert {source for target, source in found if target == f"{WAITING}@{worker}"} == {
            f"{ENDED}@{worker}",
            "apply@0",
        }
    waiting = [each for each in work.ops if each.name == WAITING]
    begins = "ps[0].cpu[0]" if backup == "0" else "worker[0].cpu[0]"
    assert [each.device.ref for each in waiting] == [begins, "worker[1].cpu[0]", "worker[2].cpu[0]"]
    assert {(each.scope, each.rule) for each in waiting} == {("(waiting for others)", "(none)")}
    assert [each.name for each in work.ops if each.begins] == [AGAIN] * (backup != "0")
    assert not work.loops


MODEL = """
  x = input(float32, [6])
  label = input(int32, [])
  y = x -> Dense(50, name = "fc1") -> Dense(3, name = "fc2")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
"""
DATA = "data { train = synthetic(64, x = feature(float32, [6]), label = feature(int32, classes = 3)) }"
SERVERS, ON_GPUS, ON_SERVERS = 'job "ps" { tasks = 1 }', "worker[*].gpu[*]", "variables -> balanced(ps[*])"

LAYOUTS = {
    "on servers": (SERVERS, ON_GPUS, ON_SERVERS),
    "on the chief": (SERVERS, ON_GPUS, "variables -> worker[0].cpu[0]"),
    "beside the clones of the chief": (SERVERS, "worker[*].cpu[0]", "variables -> worker[0].cpu[0]"),
    "without servers": ("", ON_GPUS, ""),
    "on another worker": (SERVERS, ON_GPUS, "variables -> worker[1].cpu[0]"),
    "on all workers": (SERVERS, ON_GPUS, "variables -> balanced(worker[*].cpu[*])"),
    "slots on the chief": (SERVERS, ON_GPUS, f"{ON_SERVERS}\n  slots -> worker[0].cpu[0]"),
    "sums on the chief": (SERVERS, ON_GPUS, f"{ON_SERVERS}\n  updates -> worker[0].cpu[0]"),
}


def _text(servers: str, clones: str, place: str, *, tasks: int = 3, update: str = "Momentum(0.1)") -> str:
    devices = f'{servers}\njob "worker" {{ tasks = {tasks}, gpu = 2 }}'
    update = f"optimizer = {update}, replication = between_graph"
    return cloned(MODEL, None, devices=devices, place=f"clones -> {clones}\n{place}", update=update) + DATA


def _spec(name: str, tasks: int = 3) -> Any:
    return spec_of(_text(*LAYOUTS[name], tasks=tasks))


def _held(graphs: list[Any]) -> Counter[tuple[str, str]]:
    """Return the bytes of what some graphs hold, by device and kind; what they share is there once."""
    found = {
        (each.name, each.device): (each.kind, each.bytes)
        for own in graphs
        for each in held_variables(own.step)
    }
    held: Counter[tuple[str, str]] = Counter()
    for (_, device), (kind, size) in found.items():
        held[device, kind] += size
    return held


def _held_by_map(placement: PlacementMap) -> Counter[tuple[str, str]]:
    held: Counter[tuple[str, str]] = Counter()
    for each in placement.devices:
        held[each.ref, "variable"] += each.variable_bytes
        held[each.ref, "slot"] += each.slot_bytes
        held[each.ref, "other"] += each.other_bytes
    return held


def _sent(graphs: list[Any]) -> dict[tuple[str, str], tuple[int, int | None]]:
    """Return the number of tensors and the bytes that a step of all sends, by link."""
    numbers: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for index, own in enumerate(graphs):
        for each in list_transfers(own.step, of_worker=own.plan.worker.host if index else None):
            numbers[each.from_device, each.to_device] += each.tensors
            sizes[each.from_device, each.to_device] += each.bytes or 0
    return {link: (number, sizes[link]) for link, number in numbers.items()}


def _mapped(spec: Any) -> tuple[list[Any], PlacementMap]:
    """Return the graphs of three workers and the map of the first, which has what all hold and send."""
    graphs = [graph_of(spec, worker=index, seed=0) for index in range(3)]
    placement = map_placement(graphs[0])
    assert +_held_by_map(placement) == +_held(graphs)
    sent = {(each.from_device, each.to_device): (each.tensors, each.bytes) for each in placement.transfers}
    assert sent == _sent(graphs)
    return graphs, placement


@pytest.mark.family(every=4)
@pytest.mark.parametrize("name", LAYOUTS)
def test_map_has_what_the_graphs_of_all_workers_have(name: str) -> None:
    """What workers share is there once, and others' tensors go there; clones are on their own devices."""
    graphs, placement = _mapped(_spec(name))
    ops = Counter(entry.device.ref for own in graphs for entry in own.ledger.entries.values())
    for device in placement.devices:
        # Of metrics and summaries the chief has six ops more, which its map gives to all.
        more = 6 if device.ref in ("worker[1].cpu[0]", "worker[2].cpu[0]") else 0
        assert device.ops == ops[device.ref] + more, device.ref


def test_map_has_the_parts_of_slots_that_each_worker_has() -> None:
    """Also of different sizes, as 350 elements have no three equal parts; and what workers send others."""
    layout = "variables -> replicated\n  slots -> sharded(clones)"
    text = _text("", "worker[*].cpu[0]", layout, update="Adam(), ema = 0.9")
    graphs, _ = _mapped(spec_of(text))
    kinds = {
        each.signature.type
        for each in timed_step(graphs[0].step).ops
        if each.name.startswith("worker/shared")
    }
    assert {"ConcatV2", "SplitV", "NoOp"} <= kinds  # the third run of a step is timed as well


def test_workers_that_share_what_one_of_them_has_are_not_alike() -> None:
    """One that holds variables for all is not like the others, so that the graph of the chief is read."""
    with pytest.raises(NotAlikeError, match="what workers share is on devices of some of them"):
        map_many(make_plan(_spec("on the chief", tasks=5), worker=0), least=6)


REPLICAS = """
  x = input(float32, [8])
  label = input(int32, [])
  logits = x -> Dense(12, use_bias = false, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
"""


def _replicas(update: str) -> Any:
    devices, update = 'job "worker" { tasks = 3 }', f"optimizer = SGD(0.1), {update}"
    return spec_of(cloned(REPLICAS, None, devices=devices, update=update))


def test_workers_with_all_weights_send_each_other_what_each_of_their_graphs_says() -> None:
    """The map of each worker's graph has the same transfers of all of them; a ring sends alike everywhere."""
    read = _replicas("aggregate = ring")
    maps = [map_of(read, worker=at, seed=0) for at in range(3)]
    sent = [
        {
            (one.from_device, one.to_device): (one.tensors, one.bytes, one.bytes_unknown)
            for one in each.transfers
        }
        for each in maps
    ]
    assert sent[1:] == sent[:-1]
    assert set(sent[0]) == {(f"worker[{at}].cpu[0]", f"worker[{(at + 1) % 3}].cpu[0]") for at in range(3)}
    # a piece a round, and the number of the step
    assert {(tensors, unknown) for tensors, _, unknown in sent[0].values()} == {(5, 0)}
    gradients_and_loss = 4 * (8 * 12 + 1)
    assert sum(size for _, size, _ in sent[0].values()) == 2 * 2 * gradients_and_loss + 3 * 8


def test_what_workers_keep_of_their_gradients_is_held_once_by_each() -> None:
    """Also if the chief has handles of it, too; two thin matrices are sent in place of a kernel."""
    _, placement = _mapped(_replicas("compress = power_sgd(rank = 1)"))
    held = _held_by_map(placement)
    for at in range(3):
        kept = held[f"worker[{at}].cpu[0]", "other"] - held["worker[1].cpu[0]", "other"]
        assert (kept == 0) == (at > 0)  # the chief has the table and the seed of metrics besides
        assert held[f"worker[{at}].cpu[0]", "slot"] == 4 * 12
    sent = {(each.from_device, each.to_device): each.bytes for each in placement.transfers}
    assert sent["worker[1].cpu[0]", "worker[0].cpu[0]"] == 4 * (8 + 1) + 4 * 12 + 8
