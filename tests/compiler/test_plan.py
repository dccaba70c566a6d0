"""What a plan says of its batches, updates and workers, and the plans of single workers."""

import pytest

from compiler.pipeline import for_worker, make_plan
from compiler.plan import Plan, VariableInfo
from compiler.shards import cut
from tests.specs import CLASSES
from tests.support import spec_of

CLUSTER = """
devices {
  job "ps" { tasks = 1 }
  job "worker" { tasks = 3, cpu = 2, gpu = 2 }
}
clones { batch = [2, 3, 4, 5, 6, 7] }
"""
MACHINE = "devices { cpu = 1, gpu = 2 }\nclones { batch = [2, 6] }\n"


def planned(devices: str, *, worker: int = 0, emulate: bool = False, **overrides: str) -> Plan:
    """Return the plan of a small model on some devices."""
    text = f"{CLASSES}{devices}update {{ optimizer = SGD(0.1) }}\n"
    return make_plan(spec_of(text, **overrides), worker=worker, emulate=emulate)


@pytest.mark.parametrize(
    ("devices", "overrides", "batches"),
    [
        (MACHINE, {}, (8, 8, 8)),
        (MACHINE, {"update__accumulate": "3"}, (24, 24, 24)),
        (MACHINE, {"update__mode": "async"}, (8, 8, 8)),
        (CLUSTER, {}, (27, 27, 27)),
        (CLUSTER, {"update__replication": "between_graph"}, (27, 9, 27)),
        (CLUSTER, {"update__mode": "async"}, (27, 9, 9)),
        (CLUSTER, {"update__mode": "async", "update__accumulate": "2"}, (54, 18, 18)),
    ],
)
def test_the_examples_of_a_step(devices: str, overrides: dict[str, str], batches: tuple[int, ...]) -> None:
    """Of all clones, of the clones of the graph, and of one update.

    Workers that have graphs of their own sum their gradients under `sync`, and update alone under `async`.
    """
    plan = planned(devices, worker=1, **overrides)
    assert (plan.global_batch, plan.own_batch, plan.step_batch) == batches
    assert sum(plan.share(each) for each in plan.towers) == pytest.approx(batches[1] / batches[2])


def test_a_share_is_the_part_of_a_clone_in_the_batch() -> None:
    """Micro-batches belong to their clone, so that they change no share."""
    for accumulate in ("1", "4"):
        plan = planned(MACHINE, update__accumulate=accumulate)
        assert [plan.share(each) for each in plan.towers] == [0.25, 0.75]


@pytest.mark.parametrize(
    ("devices", "overrides", "alone", "steps"),
    [
        (MACHINE, {}, False, 1),
        (MACHINE, {"update__mode": "async"}, True, 2),
        (MACHINE, {"update__mode": "local", "update__average_every": "2"}, False, 1),
        (CLUSTER, {}, False, 1),
        (CLUSTER, {"update__replication": "between_graph"}, False, 1),
        (CLUSTER, {"update__mode": "async"}, False, 3),
        (CLUSTER, {"update__mode": "async", "update__replication": "in_graph"}, True, 6),
    ],
)
def test_who_updates_alone(devices: str, overrides: dict[str, str], steps: int, *, alone: bool) -> None:
    """Under `async` it is each clone of one graph, or each worker that has a graph of its own."""
    plan = planned(devices, **overrides)
    assert (plan.clones_update_alone, plan.concurrent_steps) == (alone, steps)


def test_the_plan_of_a_worker() -> None:
    """It has the towers of one task, knows those of all, and names its devices in place of others'."""
    plan = planned(CLUSTER, worker=1, update__mode="async")
    assert [each.device.ref for each in plan.towers] == ["worker[1].gpu[0]", "worker[1].gpu[1]"]
    assert [each.batch for each in plan.all_towers] == [2, 3, 4, 5, 6, 7]
    assert plan.topology.home == plan.worker.host == ("worker", 1)
    assert (plan.worker.index, plan.worker.count, plan.worker.is_chief) == (1, 3, False)
    assert [plan.worker.task(at) for at in range(3)] == ["worker:0", "worker:1", "worker:2"]
    assert plan.twins == {
        f"worker[{task}].{device}": f"worker[1].{device}"
        for task in (0, 2)
        for device in ("cpu[0]", "cpu[1]", "gpu[0]", "gpu[1]")
    }


def test_devices_that_a_worker_lacks_have_no_twin() -> None:
    """Parameter servers, tasks without towers, and further GPUs of another worker."""
    jobs = 'job "ps" { tasks = 1 }\n job "a" { gpu = 1 }\n job "b" { gpu = 2 }'
    text = f"{CLASSES}devices {{\n {jobs}\n }}\nclones {{ batch = 2 }}\nupdate {{ mode = async }}\n"
    plan = make_plan(spec_of(text))
    assert plan.twins == {"b[0].cpu[0]": "a[0].cpu[0]", "b[0].gpu[0]": "a[0].gpu[0]"}


def test_the_plan_of_another_worker_is_that_which_is_made_for_it() -> None:
    """All that does not depend on the worker stays, such as the emulation."""
    first, last = (planned(CLUSTER, worker=at, emulate=True, update__mode="async") for at in (0, 2))
    assert first.worker.is_chief
    other = for_worker(first, 2)
    assert other == last
    assert other.emulate
    assert [each.number for each in other.towers] == [4, 5]
    assert [each.index for each in other.towers] == [0, 1]


@pytest.mark.parametrize(("emulate", "name"), [(False, "task:0/device:GPU:1"), (True, "task:0/device:CPU:2")])
def test_the_device_of_a_session(name: str, *, emulate: bool) -> None:
    """With `--emulate`, a CPU of this process is used in its place."""
    plan = planned(MACHINE, emulate=emulate)
    assert plan.tensorflow_device(plan.towers[1].device) == f"/job:localhost/replica:0/{name}"


def test_gpus_of_this_machine_count_if_the_spec_declares_no_devices() -> None:
    """Otherwise the spec says what there is."""
    plain = spec_of(f"{CLASSES}clones {{ batch = 2 }}\n")
    assert [each.device.ref for each in make_plan(plain, visible_gpus=2).towers] == ["gpu[0]", "gpu[1]"]
    assert [each.device.ref for each in make_plan(plain).towers] == ["cpu[0]"]
    declared = spec_of(f"{CLASSES}devices {{ gpu = 1 }}\nclones {{ batch = 2 }}\n")
    assert [each.device.ref for each in make_plan(declared, visible_gpus=2).towers] == ["gpu[0]"]


def test_a_piece_is_selected_by_the_name_of_its_variable() -> None:
    """Rules are written for variables, which the compiler cuts."""
    (first, _) = cut("table", (8,), 32, 2)
    assert VariableInfo(first.name, first.shape, "float32", 16, shard=first).weight == "table"
    assert VariableInfo("table", (8,), "float32", 32).weight == "table"
