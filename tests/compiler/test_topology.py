"""The devices that a `devices` block declares, and the towers on them."""

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from compiler.plan import Tower
from compiler.topology import Device, declare
from compiler.towers import batches, clone_count, lay_out_towers, towers_of_worker, workers_of
from dsl import ir
from tests.compiler.placement.places import Places, places


@pytest.mark.parametrize(
    ("devices", "names"),
    [
        (ir.Devices(), ["cpu[0]", "gpu[0]", "gpu[1]"]),
        (ir.Devices(cpu=2), ["cpu[0]", "cpu[1]"]),
        (ir.Devices(gpu=1), ["cpu[0]", "gpu[0]"]),
        (ir.Devices(cpu=1, gpu=0), ["cpu[0]"]),
        (ir.Devices(cpu=0, gpu=1), ["cpu[0]", "gpu[0]"]),  # somebody has to run what no GPU can
        (ir.Devices(jobs=(ir.Job("worker", cpu=0),)), ["worker[0].cpu[0]"]),
        (
            ir.Devices(jobs=(ir.Job("ps", 1), ir.Job("worker", 2, gpu=1))),
            ["ps[0].cpu[0]", *(f"worker[{at}].{each}[0]" for at in range(2) for each in ("cpu", "gpu"))],
        ),
    ],
)
def test_declared_devices(devices: ir.Devices, names: list[str]) -> None:
    """The GPUs of the machine count only if nothing is said; every task has a CPU."""
    found = declare(devices, 2).devices
    assert [each.ref for each in found] == names
    assert [each.ordinal for each in found] == list(range(len(names)))


CLUSTER = declare(
    ir.Devices(jobs=(ir.Job("ps", 2, cpu=2), ir.Job("worker", 3, gpu=2), ir.Job("extra", 1, cpu=2, gpu=1))),
    8,
)
"""Two parameter servers, and two jobs of workers; the GPUs of this machine are not among them."""


def refs(devices: Sequence[Device]) -> str:
    """Return the names of devices in one text."""
    return " ".join(each.ref for each in devices)


def test_names_of_devices_in_tensorflow() -> None:
    """This machine is `localhost`; an emulated device is the CPU that has its place among all devices."""
    plain = declare(ir.Devices(cpu=1, gpu=2), 0).devices[2]
    assert plain.tensorflow_name == "/job:localhost/replica:0/task:0/device:GPU:1"
    assert plain.emulated_name == "/job:localhost/replica:0/task:0/device:CPU:2"
    (there,) = (each for each in CLUSTER.devices if each.ref == "worker[2].gpu[1]")
    assert there.host == ("worker", 2)
    assert there.tensorflow_name == "/job:worker/replica:0/task:2/device:GPU:1"
    assert there.emulated_name == "/job:localhost/replica:0/task:0/device:CPU:12"


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (ir.DevicePattern("cpu", (0,)), "worker[0].cpu[0] worker[1].cpu[0] worker[2].cpu[0] extra[0].cpu[0]"),
        (ir.DevicePattern("gpu", None, "extra"), "extra[0].gpu[0]"),
        (ir.DevicePattern("cpu", None, "ps"), "ps[0].cpu[0] ps[0].cpu[1] ps[1].cpu[0] ps[1].cpu[1]"),
        (
            ir.DevicePattern("gpu", None, "worker", (2, 0)),
            "worker[2].gpu[0] worker[2].gpu[1] worker[0].gpu[0] worker[0].gpu[1]",
        ),
        (
            ir.DevicePattern("gpu", (1, 0), "worker", (2, 0)),
            "worker[2].gpu[1] worker[2].gpu[0] worker[0].gpu[1] worker[0].gpu[0]",
        ),
        (ir.DevicePattern("gpu", (1, 5), "worker", (1, 7)), "worker[1].gpu[1]"),
        (ir.DevicePattern("gpu", (3,)), ""),
    ],
)
def test_the_devices_of_a_pattern(pattern: ir.DevicePattern, names: str) -> None:
    """Tasks and indices count in the order of the pattern, and devices that are not there are left out.

    A pattern without a job means all workers, and never parameter servers.
    """
    assert refs(CLUSTER.resolve(pattern)) == names


def test_a_set_has_the_devices_of_its_patterns_one_after_the_other() -> None:
    """What two patterns name is used twice as often. Parameter servers are the first CPUs of their tasks."""
    first, second = ir.DevicePattern("gpu", (0,), "extra"), ir.DevicePattern("cpu", None, "extra")
    found = CLUSTER.resolve_set(ir.DeviceSet((first, second, first)))
    assert refs(found) == "extra[0].gpu[0] extra[0].cpu[0] extra[0].cpu[1] extra[0].gpu[0]"
    assert refs(CLUSTER.parameter_servers) == "ps[0].cpu[0] ps[1].cpu[0]"
    assert declare(ir.Devices(cpu=2), 0).parameter_servers == ()


def test_the_cpu_of_a_task() -> None:
    """Without a job it is that of the chief, and in the graph of a worker that of the worker."""
    own = evolve(CLUSTER, home=("worker", 1))
    servers = declare(ir.Devices(jobs=(ir.Job("ps", 2),)), 0)
    found = {
        "chief": CLUSTER.first_cpu(),
        "worker": CLUSTER.first_cpu("worker", 2),
        "no such task": CLUSTER.first_cpu("extra", 4),
        "own": own.first_cpu(),
        "server": own.first_cpu("ps", 1),
        "chief for all": own.chief_cpu,
        "servers alone": servers.first_cpu(),
    }
    assert {name: each.ref for name, each in found.items()} == {
        "chief": "worker[0].cpu[0]",
        "worker": "worker[2].cpu[0]",
        "no such task": "extra[0].cpu[0]",
        "own": "worker[1].cpu[0]",
        "server": "ps[1].cpu[0]",
        "chief for all": "worker[0].cpu[0]",
        "servers alone": "ps[0].cpu[0]",
    }


def test_near_are_the_devices_of_the_own_worker() -> None:
    """If there are none among the devices, or if one graph has all workers, all of them are meant."""
    gpus, own = CLUSTER.select("gpu", "worker"), evolve(CLUSTER, home=("worker", 1))
    assert refs(own.near(gpus)) == "worker[1].gpu[0] worker[1].gpu[1]"
    assert own.near(CLUSTER.parameter_servers) == CLUSTER.parameter_servers
    assert CLUSTER.near(gpus) == gpus


TASKS = 'devices {\n job "ps" { tasks = 1 }\n job "worker" { tasks = 3, gpu = 2 }\n }\n'


def shown(towers: tuple[Tower, ...]) -> list[tuple[int, int, str, str]]:
    """Return index, number, scope and device of each tower."""
    return [(each.index, each.number, each.scope, each.device.ref) for each in towers]


def on_the_cluster(clones: str, place: str = "") -> Places:
    """Return the towers on three workers with two GPUs each."""
    return places(f"{TASKS} clones {{ {clones} }}\n place {{ {place} }}\n")


@pytest.mark.parametrize(
    ("written", "micro_batches", "sizes"),
    [
        ({}, 1, (32, 32)),
        ({"batch": 5}, 3, (5, 5)),
        ({"batch": (3, 8)}, 2, (3, 8)),
        ({"global_batch": 24}, 1, (12, 12)),
        ({"global_batch": 24}, 3, (4, 4)),
        ({"batch": 5, "global_batch": 24}, 1, (5, 5)),
    ],
)
def test_the_examples_of_a_clone(written: dict[str, Any], micro_batches: int, sizes: tuple[int, ...]) -> None:
    """A global batch is of all clones and micro-batches; a batch is that of one clone in one of them."""
    assert batches(ir.Clones(**written), 2, micro_batches) == sizes


@pytest.mark.parametrize(
    ("clones", "place", "count"),
    [
        ("count = 4", "", 4),
        ("batch = 2", "", 6),
        ("batch = 2", "clones -> worker[1].gpu[*]", 2),
        ("batch = 2", "clones -> groups(gpu[*], size = 4)", 1),
        ("count = 5", "clones -> groups(gpu[*], size = 2)", 5),
    ],
)
def test_the_number_of_clones(clones: str, place: str, count: int) -> None:
    """Without a number there is a clone for each device or group."""
    found = on_the_cluster(clones, place)
    assert clone_count(found.spec, found.topology) == count
    assert len(found.towers) == count


def test_each_tower_has_its_batch_and_the_rule_that_put_it_there() -> None:
    """A list of batches is in the order of the clones."""
    found = on_the_cluster("batch = [3, 8]", "clones -> worker[2].gpu[*]")
    assert [(each.device.ref, each.batch) for each in found.towers] == [
        ("worker[2].gpu[0]", 3),
        ("worker[2].gpu[1]", 8),
    ]
    assert {each.reason.text for each in found.towers} == {"clones -> worker[2].gpu[*]"}
    assert {each.reason.text for each in on_the_cluster("batch = 2").towers} == {"clones -> gpu[*]"}


def test_the_towers_of_a_worker_are_numbered_anew_and_keep_their_number_among_all() -> None:
    """A tower that is alone on its worker has no scope there, whatever there is elsewhere."""
    found = on_the_cluster("count = 4")
    assert shown(towers_of_worker(found.towers, ("worker", 1))) == [
        (0, 2, "clone_0", "worker[1].gpu[0]"),
        (1, 3, "clone_1", "worker[1].gpu[1]"),
    ]
    odd = on_the_cluster("count = 3")
    assert shown(towers_of_worker(odd.towers, ("worker", 1))) == [(0, 2, "", "worker[1].gpu[0]")]
    assert towers_of_worker(odd.towers, ("worker", 2)) == ()


def test_workers_are_in_the_order_of_their_declaration() -> None:
    """The chief is the first task that has a tower, whatever the rule for clones names first."""
    found = on_the_cluster("count = 3", "clones -> [worker[2].gpu[0], worker[1].gpu[*]]")
    workers = workers_of(found.towers, found.topology)
    assert [host for host, _ in workers] == [("worker", 1), ("worker", 2)]
    assert [[each.number for each in own] for _, own in workers] == [[1, 2], [0]]


def test_names_of_ops_in_a_tower() -> None:
    """The ops of one of several towers are in its scope."""
    found = on_the_cluster("count = 2")
    assert [each.op_name("fc/MatMul") for each in found.towers] == ["clone_0/fc/MatMul", "clone_1/fc/MatMul"]
    (alone,) = lay_out_towers(on_the_cluster("count = 1").spec, found.topology)
    assert alone.op_name("fc/MatMul") == "fc/MatMul"
