"""The memory, the tensors and the times of many clones, and of workers, from those of a few."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from attrs import evolve

from compiler.kinds.forecasts import Peaks, with_memory, with_time
from compiler.kinds.grid import MapGrid, NotAlikeError, Spot
from compiler.kinds.kind_map import KindMap
from compiler.kinds.kinds import DeviceKind, TransferKind
from compiler.kinds.patterns import Patterns
from compiler.kinds.templates import Numbers, parse
from compiler.kinds.tensors import LARGEST, compared, largest_at, largest_of, named, orbits_of
from compiler.kinds.workers import Held, at_first, held_for_each
from compiler.mapping.records import DeviceTime, LinkTime, MapPathPart, MapTensor, MapTime, MapTransfer
from compiler.step.read.memory import StepMemory
from tests.compiler.kinds.fitted import by_task, patterns
from tests.placement_maps import make_kinds

NAMES = patterns("clone_{clone}/y", "clone_{clone}/g")[0]
SERVER, GPU = "ps[0].cpu[0]", "worker[{task}].gpu[{device}]"
HELD = 64 + 64 + 5  # by the server: its variable, its slot and something else


def deployment(gradient: int = 1, name: str = "clone_{clone}/g") -> KindMap:
    """Return the map of three tasks with two clones, each of which sends a gradient to a server."""
    placement = make_kinds(3, 2)
    server, *gpus = placement.device_kinds
    devices = (DeviceKind(0, evolve(server.like, other_bytes=5)), *gpus)
    links = tuple(
        TransferKind(of, MapTransfer(GPU, SERVER, 1, gradient, 0, (MapTensor(f"{name}:0", gradient),)))
        for of in range(1, 5)
    )
    return evolve(placement, device_kinds=devices, transfer_kinds=(*placement.transfer_kinds, *links))


def peaks(name: str = "clone_{}/y:0", *, of_worker: bool = False) -> dict[str, StepMemory]:
    """Return the peaks of four clones: on each device something of its clone, on the server one of all."""
    numbers = [0, 1, 0, 1] if of_worker else range(4)
    alive = [MapTensor(name.format(number), 8) for number in numbers]
    places = [(task, at) for task in (0, 1) for at in (0, 1)]
    found = {
        f"worker[{task}].gpu[{at}]": StepMemory(50 + 10 * task + at, (tensor,))
        for (task, at), tensor in zip(places, alive, strict=True)
    }
    on_server = (MapTensor("fc1/kernel/read:0", 64), *(alive[:2] if of_worker else alive))
    return {SERVER: StepMemory(100, on_server), **found}


def not_needed() -> Peaks:
    """Stand for the peaks of fewer clones where all of the few have the same."""
    raise AssertionError("the peaks of fewer clones are asked for")


def forecast(
    placement: KindMap,
    known: Mapping[str, StepMemory],
    names: Patterns,
    fewer: Callable[[], Peaks] = not_needed,
) -> dict[str, list[object]]:
    """Return the bytes of a step, those of all that is held, and the largest tensors, by device."""
    return {
        each.ref: [each.step_bytes, each.memory_bytes, *(tensor.name for tensor in each.largest)]
        for each in with_memory(placement, Peaks(known, names), fewer).expanded().devices
    }


def test_each_clone_needs_what_the_one_needs_that_it_is_like() -> None:
    """A device that all use keeps a tensor of each of them: two more with six clones instead of four."""
    found = forecast(deployment(), peaks(), NAMES)
    ofs = [f"clone_{number}/y:0" for number in range(6)]
    assert found == {
        SERVER: [116, 116 + HELD, "fc1/kernel/read:0", *ofs[:4]],
        "worker[0].gpu[0]": [50, 50, ofs[0]],
        "worker[0].gpu[1]": [51, 51, ofs[1]],
        "worker[1].gpu[0]": [60, 60, ofs[2]],
        "worker[1].gpu[1]": [61, 61, ofs[3]],
        "worker[2].gpu[0]": [60, 60, ofs[4]],
        "worker[2].gpu[1]": [61, 61, ofs[5]],
    }


@pytest.mark.parametrize(("gradient", "most"), [(23, 116), (24, 120)])
def test_what_arrives_from_all_clones_but_the_first_is_there_at_once(gradient: int, most: int) -> None:
    """It is the peak if five gradients are more than what the few have at theirs."""
    found = forecast(deployment(gradient), peaks(), NAMES)[SERVER]
    assert found[:2] == [most, most + HELD]
    received = [f"clone_{at}/g:0" for at in range(1, 6)]
    assert (found[2:] == received) == (most == 120)


@pytest.mark.parametrize("name", ["other/g", "clone_1/g"])
def test_what_is_not_of_the_last_clone_does_not_arrive_from_all(name: str) -> None:
    """Clones send it that are summed before, for example."""
    assert forecast(deployment(1000, name), peaks(), NAMES)[SERVER][0] == 116


def test_clones_that_do_not_step_together_do_not_send_together() -> None:
    """In mode `async` each updates by itself."""
    placement = deployment(1000)
    alone = evolve(placement, mode=evolve(placement.mode, update="async"))
    assert forecast(alone, peaks(), NAMES)[SERVER][0] == 116


def test_workers_with_graphs_of_their_own_need_what_the_first_does() -> None:
    """The names there are those of the first, and gradients are taken out of boxes one after the other."""
    placement = evolve(deployment(1000), listed="worker:0")
    name = "clone_{}/y/at_worker_0_gpu_0:0"
    known = peaks(name, of_worker=True)
    names = by_task(["clone_{clone}/y/at_worker_0_gpu_0"], NAMES.grid, of_worker=True)
    found = forecast(placement, known, names)
    assert found[SERVER][0] == 100
    for task in range(3):
        for at in (0, 1):
            assert found[f"worker[{task}].gpu[{at}]"] == [50 + at, 50 + at, name.format(at)]


@pytest.mark.parametrize(
    ("of_two", "most"), [([0, 1], 4 * 8 + 2 * 20), ([0], 4 * 8 + 4 * 20), ([], 4 * 8 + 4 * 20)]
)
def test_what_one_worker_after_the_other_has_does_not_grow(of_two: list[int], most: int) -> None:
    """Two of three workers have a tensor: one beside the first, as of two, or all but one of these."""

    def known(hosts: int, products: list[int]) -> Peaks:
        zeros = [MapTensor(f"mail/g/worker_{at}/zeros:0", 8) for at in range(hosts)]
        made = [MapTensor(f"mail/g/worker_{at}/mul:0", 20) for at in products]
        alive = (*zeros, *made)
        peak = StepMemory(sum(each.bytes for each in alive), alive)
        nothing = {f"worker[0].gpu[{at}]": StepMemory(0, ()) for at in (0, 1)}
        texts = [f"mail/g/worker_{{task}}/{each}" for each in ("zeros", "mul")]
        names = by_task(texts, MapGrid("worker", "gpu", hosts, 2, 1), of_worker=True)
        return Peaks({SERVER: peak, **nothing}, names)

    many = evolve(make_kinds(5, 2), listed="worker:0")
    more = known(3, [0, 1])
    found = forecast(many, more.of, more.patterns, lambda: known(2, of_two))[SERVER]
    products = [f"mail/g/worker_{at}/mul:0" for at in range(5)]
    assert found[0] == 8 + most
    assert [each for each in found[2:] if each in products] == products[: (most - 32) // 20]


FEW, MANY = MapGrid("worker", "gpu", 3, 3, 1), MapGrid("worker", "gpu", 12, 4, 1)
TENSORS = patterns(
    *(f"clone_{{clone}}/{each}" for each in "bxyz"),
    "input/{task}/next",
    few=FEW,
    more=MapGrid("worker", "gpu", 4, 4, 1),
)[0]


def tensors(names: list[str], size: int = 8) -> list[MapTensor]:
    """Return tensors of one size."""
    return [MapTensor(f"{each}:0", size) for each in names]


def of_all(grid: MapGrid, name: str = "clone_{}/y") -> list[str]:
    """Return a name for each clone of a grid."""
    return [name.format(at) for at in range(grid.clones)]


@pytest.mark.parametrize("missing", [0, 1])
def test_what_a_server_gets_from_all_clones(missing: int) -> None:
    """Each clone has one, or all but the last."""
    few = tensors(of_all(FEW)[: FEW.clones - missing])
    orbits = orbits_of(few, Spot(), TENSORS)
    assert sum(each.count(MANY) for each in orbits) == MANY.clones - missing
    numbers = Numbers(MANY)
    names = {each.at(numbers, 0, 0) for orbit in orbits for each in orbit.templates(MANY)}
    assert names == {f"{each}:0" for each in of_all(MANY)[: MANY.clones - missing]}


def test_what_some_clones_have_grows_unless_fewer_have_as_much_of_it() -> None:
    """One of two other clones on a task has it: as the only other one of fewer has, or all but the last."""
    fewer, three = MapGrid(None, "gpu", 1, 2, 1), MapGrid(None, "gpu", 1, 3, 1)
    of_two, of_three = patterns("clone_{clone}/y", "clone_{clone}/z", few=fewer, more=three)
    orbits = orbits_of(tensors(["clone_0/y", "clone_1/y"]), Spot(), of_three)
    for names, count in ((["clone_0/y", "clone_1/y"], 1), (["clone_0/y"], 8), (["clone_1/z"], 8)):
        of_fewer = orbits_of(tensors(names), Spot(), of_two)
        first, others = compared(orbits, of_fewer, (fewer, three))
        assert first.count(MapGrid(None, "gpu", 1, 10, 1)) == 1
        assert others.count(MapGrid(None, "gpu", 1, 10, 1)) == count
        assert len(list(others.templates(MapGrid(None, "gpu", 1, 10, 1)))) == count
    whole = orbits_of(tensors(["clone_1/y", "clone_2/y"]), Spot(), of_three)
    (same,) = compared(whole, orbits_of(tensors(["clone_1/y"]), Spot(), of_two), (fewer, three))
    assert same.count(MapGrid(None, "gpu", 1, 10, 1)) == 9


@pytest.mark.parametrize(
    ("here", "names", "count", "grown"),
    [
        (Spot(), ["fc/kernel/read"], 1, "fc/kernel/read:0"),
        (Spot(1, 1), ["clone_4/y"], 1, "clone_21/y:0"),
        (Spot(1, 1), ["clone_0/y"], 1, "clone_0/y:0"),
        (Spot(1, 1), ["clone_3/y"], 1, "clone_20/y:0"),
        (Spot(1), ["clone_3/y"], 1, "clone_20/y:0"),
        (Spot(1), ["input/1/next"], 1, "input/5/next:0"),
        (Spot(1), ["clone_4/y", "clone_5/y"], 3, "clone_21/y:0"),
    ],
)
def test_what_is_beside_a_thing_is_there_once_for_it(
    here: Spot, names: list[str], count: int, grown: str
) -> None:
    """It is of the task or the clone of the thing, of the first, or of none."""
    (orbit,) = orbits_of(tensors(names), here, TENSORS)
    assert orbit.count(MANY) == count
    first = next(orbit.templates(MANY))
    assert first.at(Numbers(MANY), 5 if here.host else 0, 1 if here.group else 0) == grown


def test_the_largest_tensors_are_from_the_largest_orbits() -> None:
    """From as many as hold the largest five, and from others of the same size as the last of these."""
    sizes = {"a": 90, "clone_{}/b": 80, "c": 80, "d": 70}
    few = [
        each
        for name, size in sizes.items()
        for each in tensors(of_all(FEW, name) if "{}" in name else [name], size)
    ]
    orbits = orbits_of(few, Spot(), TENSORS)
    assert [each.bytes for each in orbits] == [90, *[80] * 5, 70]
    assert [each.bytes for each in largest_of(orbits, MANY)] == [90, *[80] * 5]
    single = orbits_of([tensor for at in range(7) for tensor in tensors([f"x{at}"], 9 - at)], Spot(), TENSORS)
    assert [each.bytes for each in largest_of(single, MANY)] == [9, 8, 7, 6, 5]
    assert largest_of(orbits[:1], MANY) == tuple(orbits[:1])


@pytest.mark.parametrize(
    "names",
    [
        {"clone_{}/y": 8},
        {"clone_{}/y": 8, "z": 9, "a": 8},
        {"clone_{}/y": 8, "clone_{}/x": 8},
        {"clone_{}/y": 7, "clone_{}/x": 8, "a": 7, "b": 7, "z": 7},
        {"a": 5, "b": 4, "c": 3, "d": 2, "e": 1, "clone_{}/y": 1},
        {"x_clone": 8, "clone": 8, "clone_{}/y": 8, "clone1": 8, "clone_{}/z": 8, "d": 8},
    ],
)
def test_the_five_largest_of_each_clone_are_named(names: dict[str, int]) -> None:
    """Those of one size are in the order of their names, which depends on the digits of numbers in them."""
    here = Spot(1, 1)
    few = [MapTensor(f"{name.format(4)}:0", size) for name, size in names.items()]
    kept = [(each.bytes, parse(each.name, 1)) for each in named(orbits_of(few, here, TENSORS), MANY)]
    for host in range(1, MANY.hosts):
        for group in range(1, MANY.groups):
            clone = MANY.number(host, group)
            own = sorted((-size, f"{name.format(clone)}:0") for name, size in names.items())[:LARGEST]
            found = largest_at(kept, Numbers(MANY), host, group)
            assert [(-each.bytes, each.name) for each in found] == own


BOX = "mail/fc1/kernel/worker_{task}/value_box"
PATTERNS = by_task([BOX], MapGrid("worker", "gpu", 2, 8, 1), of_worker=True)


def _held(workers: int, number: int = 8) -> list[Held]:
    """Return the boxes of workers, a number of eight bytes for each of them, and another one."""
    boxes = [Held(BOX.format(task=at), "ps[1].cpu[0]", 40) for at in range(workers)]
    return [
        *boxes,
        Held("cluster/arrived", "ps[0].cpu[0]", number * workers),
        Held("global_step", "ps[0].cpu[0]", 8),
    ]


def test_boxes_and_numbers_grow_with_workers() -> None:
    """A worker has a box of its own, and a place among the numbers."""
    found = held_for_each(_held(2), _held(3), PATTERNS, (2, 3))
    assert found == {"ps[1].cpu[0]": 40, "ps[0].cpu[0]": 8}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (_held(3)[1:], "only few workers have mail/fc1/kernel/worker_0/value_box"),
        (_held(3, number=9), "cluster/arrived does not grow"),
        ([*_held(3), Held("other", "ps[1].cpu[0]", 4)], "what ps\\[1\\].cpu\\[0\\] holds does not grow"),
    ],
)
def test_what_grows_otherwise_has_no_kind(more: list[Held], words: str) -> None:
    """Then the graph of all clones has to be built."""
    with pytest.raises(NotAlikeError, match=words):
        held_for_each(_held(2), more, PATTERNS, (2, 3))


def test_other_workers_have_the_names_of_the_first() -> None:
    """Their graphs do not say of which worker they are."""
    assert at_first("worker[{task}].gpu[3]") == ("worker[0].gpu[3]")


def forecast_of_time(*, folded: bool) -> MapTime:
    """Return the time of three tasks with two clones, with all of them or without the one in between."""
    tasks = (0, 2) if folded else (0, 1, 2)
    gpus = {f"worker[{task}].gpu[{at}]": 10.0 * task + at for task in tasks for at in (0, 1)}
    return MapTime(
        seconds=40.0,
        estimate=True,
        measured=0.25,
        source="v100",
        devices=(DeviceTime(SERVER, 30.0, 0.75), *(DeviceTime(ref, at, at / 40) for ref, at in gpus.items())),
        links=(
            *(LinkTime(SERVER, ref, at + 1, (at + 1) / 40, 64) for ref, at in gpus.items()),
            *(LinkTime(ref, SERVER, 1.0, 0.1, 0) for ref in gpus),  # which the map does not have
        ),
        by_scope=(MapPathPart("fc1", 20.0),),
        by_rule=(MapPathPart("clones -> worker[*].gpu[*]", 10.0),),
    )


@pytest.mark.parametrize(("folded", "means"), [(False, (15.0, 16.0)), (True, (20.0, 21.0))])
def test_times_of_a_kind_are_the_means_of_those_that_are_known(
    means: tuple[float, float], *, folded: bool
) -> None:
    """Clones on the first task are kinds of their own, and the last task may stand for those between."""
    time = forecast_of_time(folded=folded)
    found = with_time(make_kinds(3, 2), time).time
    assert found is not None
    assert (found.seconds, found.estimate, found.measured, found.source) == (40.0, True, 0.25, "v100")
    assert (found.by_scope, found.by_rule) == (time.by_scope, time.by_rule)
    expected = [0.0, 1.0, *means]
    assert [each.of for each in found.device_kinds] == [0, 1, 2, 3, 4]
    assert [each.like.ref for each in found.device_kinds] == [SERVER, *[GPU] * 4]
    assert [each.like.seconds for each in found.device_kinds] == pytest.approx([30.0, *expected])
    assert [each.like.busy for each in found.device_kinds] == pytest.approx(
        [0.75, *(each / 40 for each in expected)]
    )
    assert [each.of for each in found.link_kinds] == [1, 2, 3, 4]
    assert {(each.like.from_device, each.like.to_device) for each in found.link_kinds} == {(SERVER, GPU)}
    assert [each.like.seconds for each in found.link_kinds] == pytest.approx([each + 1 for each in expected])
    assert [each.like.busy for each in found.link_kinds] == pytest.approx(
        [(each + 1) / 40 for each in expected]
    )
    assert {each.like.bytes for each in found.link_kinds} == {64}


def test_what_the_forecast_does_not_have_is_left_out() -> None:
    """No device and no link of the kind is known."""
    time = forecast_of_time(folded=False)
    placement = make_kinds(3, 2)
    known = MapTime(1.0, False, 1.0, "a", time.devices[:2], time.links[:1], (), ())
    found = with_time(placement, known).time
    assert found is not None
    assert [each.of for each in found.device_kinds] == [0, 1]
    assert [each.of for each in found.link_kinds] == [1]
