"""The memory of a step of many clones, from what is alive at the peaks of a few."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from attrs import evolve

from compiler.kinds.forecasts import Peak, Peaks, with_memory
from compiler.kinds.grid import MapGrid
from compiler.kinds.kind_map import KindMap
from compiler.kinds.kinds import DeviceKind, TransferKind
from compiler.kinds.patterns import Patterns
from compiler.mapping.records import MapTensor, MapTransfer
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


def peaks(name: str = "clone_{}/y:0", *, of_worker: bool = False) -> dict[str, Peak]:
    """Return the peaks of four clones: on each device something of its clone, on the server one of all."""
    numbers = [0, 1, 0, 1] if of_worker else range(4)
    alive = [MapTensor(name.format(number), 8) for number in numbers]
    places = [(task, at) for task in (0, 1) for at in (0, 1)]
    found = {
        f"worker[{task}].gpu[{at}]": Peak(50 + 10 * task + at, (tensor,))
        for (task, at), tensor in zip(places, alive, strict=True)
    }
    on_server = (MapTensor("fc1/kernel/read:0", 64), *(alive[:2] if of_worker else alive))
    return {SERVER: Peak(100, on_server), **found}


def not_needed() -> Peaks:
    """Stand for the peaks of fewer clones where all of the few have the same."""
    raise AssertionError("the peaks of fewer clones are asked for")


def forecast(
    placement: KindMap,
    known: Mapping[str, Peak],
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
        peak = Peak(sum(each.bytes for each in alive), alive)
        nothing = {f"worker[0].gpu[{at}]": Peak(0, ()) for at in (0, 1)}
        texts = [f"mail/g/worker_{{task}}/{each}" for each in ("zeros", "mul")]
        names = by_task(texts, MapGrid("worker", "gpu", hosts, 2, 1), of_worker=True)
        return Peaks({SERVER: peak, **nothing}, names)

    many = evolve(make_kinds(5, 2), listed="worker:0")
    more = known(3, [0, 1])
    found = forecast(many, more.of, more.patterns, lambda: known(2, of_two))[SERVER]
    products = [f"mail/g/worker_{at}/mul:0" for at in range(5)]
    assert found[0] == 8 + most
    assert [each for each in found[2:] if each in products] == products[: (most - 32) // 20]
