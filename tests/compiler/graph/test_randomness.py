"""The random states of towers: one for each clone, step and micro-batch."""

from __future__ import annotations

import zlib
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf
from attrs import evolve

from compiler.graph.ledger import Ledger
from compiler.graph.nodes import import_nodes
from compiler.graph.randomness import DRAWS_PER_STEP, draw_seed, tower_seed
from compiler.pipeline import make_plan
from compiler.reasons import Placed, Reason
from compiler.step.record import Tensor
from tests.support import classifier


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_a_state_is_of_a_clone_and_a_step(micro_batches: int) -> None:
    """A step leaves room for many draws, and micro-batches count like steps; all is beside the tower."""
    plan = make_plan(classifier(clones=2, update__accumulate=str(micro_batches)))
    tower = evolve(plan.towers[1], number=5)  # as of another worker
    ledger, home = Ledger(plan), Placed(plan.topology.devices[0], Reason("test", "default"))
    step = Tensor("step", "resource", (), holds=("int64", ()))
    assembly: Any = SimpleNamespace(
        plan=plan, ledger=ledger, step_place=home, global_step=SimpleNamespace(tensor=step)
    )
    state = tower_seed(assembly, tower, 7)
    graph, nodes = tf.Graph(), ledger.graph_def()
    with tf.Graph().as_default() as other:
        tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=(), shared_name="step", name="step")
    nodes.MergeFrom(other.as_graph_def())
    import_nodes(graph, nodes, {})
    with tf.compat.v1.Session(graph=graph) as session:
        read = graph.get_tensor_by_name("clone_1/seed/ReadVariableOp:0")
        made = {op.name for op in graph.get_operations()} - {"step"}
        found = [session.run(state.name, {read: each}) for each in (0, 10)]
    own = zlib.crc32(b"7/5")
    wanted = [
        [[own, (begin + at) * DRAWS_PER_STEP] for at in range(micro_batches)]
        for begin in (0, 10 * micro_batches)
    ]
    if micro_batches == 1:
        wanted = [each[0] for each in wanted]
    assert [each.tolist() for each in found] == wanted
    assert state.dtype == "uint32"
    assert {(each.role, each.clone) for each in ledger.entries.values()} == {("forward", 1)}
    assert made == set(ledger.entries)
    assert all(name.startswith("clone_1/seed/") for name in made)
    devices = {name: each.device.ref for name, each in ledger.entries.items()}
    assert devices.pop("clone_1/seed/ReadVariableOp") == home.device.ref
    assert set(devices.values()) == {tower.device.ref}


def test_a_seed_that_nobody_gives_is_another_one_each_time() -> None:
    """A number that fits into 31 bits."""
    drawn = {draw_seed() for _ in range(20)}
    assert len(drawn) > 10
    assert all(0 <= each < 2**31 for each in drawn)
