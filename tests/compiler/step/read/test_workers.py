"""The work of several workers from that of the chief: whose ops run where, and what waits for what."""

from __future__ import annotations

import pytest

from compiler.pipeline import make_plan
from compiler.plan import WorkerPlan
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
from tests.support import CLASSIFIER, CONVOLUTION, classifier, spec_of

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
    assert {("scale@0", f"{AGAIN}@0"), (f"{AGAIN}@0", f"{WAITING}@0"), ("apply@0", "scale@0")} <= found
    assert {source for target, source in found if target == f"{WAITING}@0"} == {
        f"{ENDED}@{each}" for each in needed
    }
    for worker in (1, 2):
        assert {source for target, source in found if target == f"{WAITING}@{worker}"} == {
            f"{ENDED}@{worker}",
            "apply@0",
        }
    waiting = [each for each in work.ops if each.name == WAITING]
    assert [each.device.ref for each in waiting] == [f"worker[{worker}].cpu[0]" for worker in range(3)]
    assert {(each.scope, each.rule) for each in waiting} == {("(waiting for others)", "(none)")}
    assert [each.name for each in work.ops if each.begins] == [AGAIN]
    assert not work.loops
