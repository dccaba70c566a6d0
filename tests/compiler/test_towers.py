"""The towers of a spec: how many there are, where each is, and how many examples it takes."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.plan import Tower
from compiler.towers import batches, clone_count, lay_out_towers, towers_of_worker, workers_of
from dsl import ir
from tests.compiler.placement.places import Places, places

CLUSTER = 'devices {\n job "ps" { tasks = 1 }\n job "worker" { tasks = 3, gpu = 2 }\n }\n'


def shown(towers: tuple[Tower, ...]) -> list[tuple[int, int, str, str]]:
    """Return index, number, scope and device of each tower."""
    return [(each.index, each.number, each.scope, each.device.ref) for each in towers]


def on_the_cluster(clones: str, place: str = "") -> Places:
    """Return the towers on three workers with two GPUs each."""
    return places(f"{CLUSTER} clones {{ {clones} }}\n place {{ {place} }}\n")


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
