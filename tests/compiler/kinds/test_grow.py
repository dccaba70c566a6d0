"""The map, the graph and the work of many clones from those of a few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest
from attrs import evolve

from compiler.kinds.grid import MapGrid, NotAlikeError, Spot
from compiler.kinds.grow import joined, kinds_of, of_op, tensorflow_name
from compiler.kinds.grow_graph import FewGraphs, grow_graph
from compiler.kinds.grow_step import FewSteps, grow_step, has_same_work
from compiler.kinds.step_kinds import StepKinds
from compiler.mapping.records import PlacementMap
from compiler.process import threads_on_one_machine
from compiler.report.dot import dot
from compiler.time.work import Arrow, Signature, StepWork, TimedOp
from tests.compiler.kinds.deployments import (
    NAMES,
    OTHER,
    SERVER,
    cpu,
    gpu,
    grid_of,
    map_of,
    pipe,
    plan_of,
)
from tests.compiler.kinds.fitted import patterns
from tests.placement_maps import HANDLE, Sent, step_among


@pytest.mark.parametrize(
    ("spots", "expected"),
    [
        ([], Spot(None, None)),
        ([Spot(0, 0), Spot(0, 1), Spot()], Spot(0, 1)),
        ([Spot(1, 2), Spot(0, 0)], Spot(1, 2)),
    ],
)
def test_ends_at_one_clone_and_the_first(spots: list[Spot], expected: Spot) -> None:
    """The first task and the first clone may be at the other end."""
    assert joined(spots, "a transfer") == expected


@pytest.mark.parametrize("other", [Spot(0, 2), Spot(2, 0)])
def test_ends_at_several_clones_have_no_kind(other: Spot) -> None:
    """Then the graph of all clones has to be built."""
    with pytest.raises(NotAlikeError, match="a transfer is of several tasks or clones"):
        joined([Spot(1, 1), other], "a transfer")


@pytest.mark.parametrize(
    ("ref", "emulate", "name"),
    [
        ("worker[3].gpu[1]", False, "/job:worker/replica:0/task:3/device:GPU:1"),
        ("worker[{host}].gpu[{group}]", False, "/job:worker/replica:0/task:{host}/device:GPU:{group}"),
        ("cpu[0]", False, "/job:localhost/replica:0/task:0/device:CPU:0"),
        ("worker[3].gpu[1]", True, "/job:localhost/replica:0/task:0/device:CPU:{ordinal}"),
    ],
)
def test_names_of_devices_in_tensorflow(ref: str, name: str, *, emulate: bool) -> None:
    """Emulated devices are processors of this process, which are numbered later."""
    assert tensorflow_name(ref, emulate=emulate) == name


@pytest.mark.parametrize(("tasks", "clones"), [(2, 2), (3, 3), (4, 3), (3, 8)])
def test_the_map_of_many_is_grown_from_that_of_few(tasks: int, clones: int) -> None:
    """Every record of every clone is as it is written down, with its names, numbers and reasons."""
    grown = kinds_of(map_of(2, 2), patterns(*NAMES)[0], grid_of(tasks, clones), plan_of(tasks, clones))
    assert grown.expanded() == map_of(tasks, clones)


def test_copies_of_all_clones_on_a_server_are_held_there() -> None:
    """What the server holds of variables and slots grows with the clones, and with nothing else."""

    def on_server(tasks: int, clones: int) -> PlacementMap:
        found = map_of(tasks, clones)
        shared, copied = found.variables
        number = tasks * clones
        slots = tuple(evolve(each, device=SERVER) for each in copied.slots)
        moved = evolve(copied, device=SERVER, copies=(SERVER,) * number, slots=slots)
        devices = tuple(
            evolve(each, variable_bytes=64 + 16 * number, slot_bytes=64 + 16 * number)
            if each.ref == SERVER
            else evolve(each, variable_bytes=0, slot_bytes=0)
            for each in found.devices
        )
        return evolve(found, variables=(shared, moved), devices=devices)

    grown = kinds_of(on_server(2, 2), patterns(*NAMES)[0], grid_of(4, 3), plan_of(4, 3))
    assert grown.expanded() == on_server(4, 3)


def test_emulated_devices_are_numbered_in_their_order() -> None:
    """All of them are processors of this process."""
    plan = evolve(plan_of(3, 3), emulate=True)
    grown = kinds_of(map_of(2, 2), patterns(*NAMES)[0], grid_of(3, 3), plan)
    assert [each.device for each in grown.expanded().devices] == [
        f"/job:localhost/replica:0/task:0/device:CPU:{at}" for at in range(14)
    ]


def test_maps_that_are_not_those_of_clones_that_are_alike() -> None:
    """A copy is missing, or an op is beside another clone than its own."""
    whole = map_of(2, 2)
    shared, copied = whole.variables
    fewer = evolve(copied, copies=copied.copies[1:])
    moved = tuple(
        evolve(each, requested="worker[0].gpu[1]") if each.name == "clone_0/MatMul" else each
        for each in whole.ops
    )
    for wrong, words in (
        (evolve(whole, variables=(shared, fewer)), "there are not as many copies as clones"),
        (evolve(whole, ops=moved), "clone_0/MatMul is on worker.0..gpu.1., and not each of them has one"),
    ):
        with pytest.raises(NotAlikeError, match=words):
            kinds_of(wrong, patterns(*NAMES)[0], grid_of(4, 3), plan_of(4, 3))


@pytest.mark.parametrize(
    ("name", "clone", "spot"),
    [
        ("w", 3, Spot(1, 1)),
        ("clone_0/MatMul", 3, Spot(1, 1)),
        ("clone_3/MatMul", 3, Spot(1, 1)),
        ("clone_3/MatMul", None, Spot(1, 1)),
        ("clone_2/MatMul", 1, None),
        ("clone_1/MatMul", 2, None),
        ("clone_1/MatMul", 0, None),
        ("clone_3/MatMul", 2, None),
    ],
)
def test_an_op_of_a_clone_is_not_named_after_another(name: str, clone: int | None, spot: Spot | None) -> None:
    """But it may be named after the first."""
    if spot is not None:
        assert of_op(name, clone, patterns(*NAMES)[0])[1] == spot
        return
    with pytest.raises(NotAlikeError, match=f"{name} is of several clones"):
        of_op(name, clone, patterns(*NAMES)[0])


def sent_by(tasks: int, clones: int) -> list[Sent]:
    """Return a step: the weight is read, towers get the examples of their task, and gradients are summed."""
    edges = []
    for number in range(tasks * clones):
        name, feed = f"clone_{number}", pipe(number // clones)
        edges += [
            ("w", f"{name}/w/read", "w:0", HANDLE),
            (f"{name}/w/read", f"{name}/MatMul", f"{name}/w/read:0", 64),
            (feed, f"{name}/MatMul", f"{feed}:0", 16 * clones),
            (feed, f"{name}/hash", f"{feed}:1", 7 + number),  # on the same device
            (f"{name}/hash", f"{name}/MatMul", f"{name}/hash:0", None),
            (f"{name}/MatMul", f"{name}/odd{{}}", f"{name}/MatMul:0", 5),
            (f"{name}/MatMul", "update/apply", f"{name}/MatMul:0", 40),
            ("w", f"{name}/mean", "w:1", 4 * tasks * clones),
        ]
    return edges


def graph_of(tasks: int, clones: int) -> StepKinds:
    """Return such a step with its ops."""
    return step_among(map_of(tasks, clones), sent_by(tasks, clones))


def known_of(step_of_more: StepKinds) -> FewGraphs:
    """Return what is known of four and of nine clones."""
    return FewGraphs(graph_of(2, 2), patterns(*NAMES)[0], step_of_more, grid_of(3, 3))


@pytest.mark.parametrize(("tasks", "clones"), [(2, 2), (3, 3), (4, 3), (3, 8)])
def test_many_clones_are_drawn_as_their_graph_is(tasks: int, clones: int) -> None:
    """Sizes grow with all clones or with those of a task, and a tensor for several clones is counted once."""
    grid = grid_of(tasks, clones)
    step = grow_graph(known_of(graph_of(3, 3)), grid)
    kinds = kinds_of(map_of(2, 2), patterns(*NAMES)[0], grid, plan_of(tasks, clones))
    drawn = dot(kinds, step)
    assert drawn == dot(map_of(tasks, clones), graph_of(tasks, clones))
    assert f"{tasks * clones} tensors" in drawn


def test_what_does_not_follow_from_a_few_is_refused() -> None:
    """An edge that is missing, one more, an op that takes no part, and a size that grows otherwise."""
    placement, sent = map_of(3, 3), sent_by(3, 3)
    words = "do not feed each other like those of a few"
    for wrong in (
        sent[:-9],
        [*sent, ("w", "update/apply", "w:0", HANDLE)],
        [each for each in sent if "clone_8/hash" not in each],
    ):
        with pytest.raises(NotAlikeError, match=words):
            grow_graph(known_of(step_among(placement, wrong)), grid_of(4, 3))
    strange = [(*each[:3], 17 if each[2] == "w:1" else each[3]) for each in sent]
    with pytest.raises(NotAlikeError, match="the size of w:1 does not grow in proportion"):
        grow_graph(known_of(step_among(placement, strange)), grid_of(4, 3))


@cache
def work_of(tasks: int, clones: int) -> StepWork:
    """Return the work of a step of clones that share a graph, clone by clone."""
    plan = plan_of(tasks, clones)
    devices = {each.ref: each for each in plan.topology.devices}
    count = tasks * clones
    rows = Signature("IteratorGetNext", (), f"rows={2 * clones}")
    read = Signature("ReadVariableOp", ("resource",))
    product = Signature("MatMul", ("float32[2,4]", "float32[4,4]"))
    total = Signature("AddN", ("int32", *["float32[4,4]"] * count, "float32[]"))
    mean = Signature("Mean", (f"float32[{3 * count}]",))
    ops = [
        TimedOp(pipe(task), rows, devices[cpu(task)], 0, 100 * clones, rule=f"inputs -> {cpu(task)}")
        for task in range(tasks)
    ]
    arrows: list[Arrow] = []
    for number in range(count):
        task, at = divmod(number, clones)
        name = f"clone_{number}"
        ops.append(TimedOp(f"{name}/w/read", read, devices[SERVER], 0, 64, clone=number))
        ops.append(TimedOp(f"{name}/fc/MatMul", product, devices[gpu(task, at)], 128, 192, clone=number))
        target, last = len(ops) - 1, tasks + 2 * count
        arrows.append(Arrow(task, target, f"{pipe(task)}:0", 10 * clones))
        arrows.append(Arrow(target - 1, target, f"{name}/w/read:0", 64))
        arrows.append(Arrow(target, last, f"{name}/fc/MatMul:0", 64))
    ops.append(TimedOp("update/w/AddN", total, devices[SERVER], 16 * count, 64 * count + 64))
    ops.append(TimedOp("loss/all/Mean", mean, devices[OTHER], count, 8))
    arrows += [Arrow(last, last + 1, "update/w/AddN:0", 12 * count), Arrow(0, last + 1)]
    scoped = tuple(evolve(each, scope=_scope(each.name)) for each in ops)
    return StepWork(scoped, tuple(arrows), plan.topology.devices, one_process=False, one_machine=False)


def _scope(name: str) -> str:
    inner = name.partition("/")[2] if name.startswith("clone_") else name
    return inner.rpartition("/")[0]


def known(few: StepWork | None = None, more: StepWork | None = None) -> FewSteps:
    """Return the steps of four and of nine clones, or others in place of them."""
    names = patterns(*NAMES)[0]
    return FewSteps(few or work_of(2, 2), names, more or work_of(3, 3), grid_of(3, 3))


def test_steps_with_other_arrows_or_ops_are_not_the_same() -> None:
    """Arrows may have another order."""
    one = work_of(2, 2)
    assert has_same_work(one, evolve(one, arrows=one.arrows[::-1]))
    assert not has_same_work(one, evolve(one, arrows=one.arrows[1:]))
    assert not has_same_work(one, evolve(one, ops=one.ops[1:]))
    loops = loops_of(2, 2)
    assert not has_same_work(loops, evolve(loops, loops=loops.loops[::-1]))


def test_threads_of_tasks_are_those_of_all_tasks() -> None:
    """If they are known for the few."""
    plan = plan_of(5, 4)
    few = evolve(work_of(2, 2), task_threads={("ps", 0): 1})
    found = grow_step(known(few), grid_of(5, 4), plan)
    assert found.task_threads == threads_on_one_machine(plan.spec.devices) != {}


def test_the_last_task_stands_for_those_before_it() -> None:
    """Its own ops are there once; servers read for two tasks at a time, and send to all."""
    grid, plan = grid_of(20, 2), plan_of(20, 2)
    whole = grow_step(known(), grid, plan)
    folded = grow_step(known(), grid, plan, fold=True)
    shown = {("ps", 0), ("ps", 1), ("worker", 0), ("worker", 19)}
    assert {each.host for each in folded.devices} == {each.device.host for each in folded.ops} == shown
    assert folded.alike == {("worker", 19): 19}
    beside = [each for each in whole.ops if each.device.host in shown and each.device.job == "worker"]
    assert [each for each in folded.ops if each.device.job == "worker"] == beside
    reads = [each for each in folded.ops if each.signature.type == "ReadVariableOp"]
    assert Counter(each.times for each in reads) == {2: 9 * 2, 1: 2 * 2}
    assert {each.name for each in reads if each.times == 1} == {
        f"clone_{number}/w/read" for number in (0, 1, 38, 39)
    }
    others = ("ReadVariableOp", "MatMul", "IteratorGetNext")
    assert [each for each in folded.ops if each.signature.type not in others] == [
        each for each in whole.ops if each.signature.type not in others
    ]
    echoes = [(each.target.ref, each.bytes, each.count) for each in folded.echoes]
    assert Counter(echoes) == {(gpu(19, at), 64, 2): 9 for at in (0, 1)}
    assert {folded.ops[each.source].times for each in folded.echoes} == {2}
    names = [each.name for each in folded.ops]
    last = names.index("clone_39/fc/MatMul")
    sources = {names[each.source] for each in folded.arrows if each.target == last}
    assert sources == {"input/19/next", "clone_39/w/read"}
    total = names.index("update/w/AddN")
    assert {names[each.source] for each in folded.arrows if each.target == total} == {
        f"clone_{number}/fc/MatMul" for number in (0, 1, 38, 39)
    }


NINE = ("int32", *["float32[4,4]"] * 8, "float32[5,5]", "float32[]")
TOTAL, MEAN = "update/w/AddN", "loss/all/Mean"
UNLIKE: dict[str, tuple[str, dict[str, object]]] = {
    "only few clones have clone_4/w/read": ("clone_4/w/read", {"name": "other"}),
    "has inputs of several shapes": (TOTAL, {"signature": Signature("AddN", NINE)}),
    f"a size of {MEAN} does not grow in proportion": (
        MEAN,
        {"signature": Signature("Mean", ("float32[28]",))},
    ),
    "`float32.12.` becomes `half32.27.`": (MEAN, {"signature": Signature("Mean", ("half32[27]",))}),
    f"the work of {TOTAL} does not grow": (TOTAL, {"flops": 146}),
    f"the work of {MEAN} does not grow": (MEAN, {"bytes": 10}),
}


@pytest.mark.parametrize("words", UNLIKE)
def test_a_step_that_grows_otherwise_is_not_grown(words: str) -> None:
    """Then the graph of all clones has to be built."""
    op, changes = UNLIKE[words]
    more = work_of(3, 3)
    ops = tuple(evolve(each, **changes) if each.name == op else each for each in more.ops)
    with pytest.raises(NotAlikeError, match=words):
        grow_step(known(more=evolve(more, ops=ops)), grid_of(5, 4), plan_of(5, 4))


def loops_of(tasks: int, clones: int) -> StepWork:
    """Return the step of clones of which each repeats its read, its product and the mean."""
    work = work_of(tasks, clones)
    names = [each.name for each in work.ops]
    own = [names.index(f"clone_{number}/w/read") for number in range(tasks * clones)]
    return evolve(work, loops=tuple((at, at + 1, len(names) - 1) for at in own))


@pytest.mark.parametrize("work", [work_of, loops_of], ids=["together", "by themselves"])
@pytest.mark.parametrize("grid", [grid_of(2, 2), grid_of(3, 3), grid_of(5, 4), grid_of(2, 6)])
def test_the_step_of_many_is_grown_from_that_of_few(
    grid: MapGrid, work: Callable[[int, int], StepWork]
) -> None:
    """Each op with its costs, on its device, each arrow with its bytes, and what clones repeat alone."""
    found = grow_step(known(work(2, 2), work(3, 3)), grid, plan_of(grid.hosts, grid.groups))
    wanted = work(grid.hosts, grid.groups)
    assert found.ops == wanted.ops
    assert has_same_work(found, wanted)
    assert [each.target for each in found.arrows] == sorted(each.target for each in found.arrows)
    assert evolve(found, arrows=()) == evolve(wanted, arrows=())


def test_of_clones_that_update_by_themselves_two_tasks_are_there() -> None:
    """With all that their clones repeat; the last task stands for the others."""
    grid, plan = grid_of(20, 2), plan_of(20, 2)
    folded = grow_step(known(loops_of(2, 2), loops_of(3, 3)), grid, plan, fold=True)
    assert folded.alike == {("worker", 19): 19}
    assert folded.echoes == ()
    assert {each.host for each in folded.devices} == {("ps", 0), ("ps", 1), ("worker", 0), ("worker", 19)}
    assert [[folded.ops[at].name for at in loop] for loop in folded.loops] == [
        [f"clone_{number}/w/read", f"clone_{number}/fc/MatMul", "loss/all/Mean"] for number in (0, 1, 38, 39)
    ]
    assert {each.clone for each in folded.ops} == {None, 0, 1, 38, 39}
    assert {each.times for each in folded.ops} == {1}
