"""The order of ops within an update: what comes before a change, and what nobody may disturb."""

from pathlib import Path
from typing import Any

import pytest

from dsl import ir
from tests.graphs import graph_of
from tests.support import cloned, ops_before, spec_of

LINEAR = """
import keras


class Linear(keras.layers.Dense):
    def call(self, inputs):
        outputs = super().call(inputs)
        self.add_loss(keras.ops.mean(outputs))
        return keras.ops.stop_gradient(outputs)


def linear():
    return Linear(2, use_bias=False)
"""
SPEC = """
  x = input(float32, [3])
  label = input(int32, [])
  y = x -> {first} -> BatchNormalization(renorm = true, name = "norm") -> Dense(2, name = "last")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
"""
CHANGES = ("ResourceApply", "Assign", "ResourceScatter")  # how the types begin of ops that change variables


def spec(first: str, optimizer: str = "SGD(0.1)", update: str = "mode = sync", **train: str) -> ir.Spec:
    """Return the spec of two clones of a small model that begins with the layer `first`."""
    update = f"optimizer = {optimizer}, {update}"
    return spec_of(cloned(SPEC.format(first=first), place="clones -> cpu[*]", update=update, seed=1), **train)


def changes_of(handle: Any, scope: str) -> list[Any]:
    """Return the ops within a scope that change the variable of a handle."""
    return [op for op in handle.consumers() if op.type.startswith(CHANGES) and op.name.startswith(scope)]


def test_a_variable_changes_after_every_tower_has_read_it(tmp_path: Path) -> None:
    """Also if no gradient depends on the read: that of a linear penalty, and clone 1's of a statistic."""
    (tmp_path / "own.py").write_text(LINEAR)
    graph = graph_of(spec('python("own:linear")'), base=str(tmp_path))
    waited = 0
    for name, variable in graph.variables.items():
        handle = variable.copies[0].handle
        reads = {
            op.name
            for op in handle.consumers()
            if op.type == "ReadVariableOp" and op.name.startswith("clone_")
        }
        changes = changes_of(handle, "update/")
        assert changes, name
        for op in changes:
            assert reads <= ops_before(op), name
            waited += len(reads)
    counted = graph.graph.get_operation_by_name("train_step")
    assert [op.name for op in changes_of(graph.global_step.handle, "train_step")] == [counted.name]
    assert waited >= 2 * 6  # both clones have read every weight, and the statistics that renorm looks at


@pytest.mark.parametrize("optimizer", ["SGD(0.1, weight_decay = 0.5)", "AdamW(0.1, weight_decay = 0.5)"])
def test_decay_and_update_are_one_for_other_clones(optimizer: str) -> None:
    """Under `async` what decays a weight and what applies its gradient lie within one turn at a lock."""
    graph = graph_of(spec('Dense(3, name = "first")', optimizer, "mode = async"))
    for clone in (0, 1):
        scope = f"update/clone_{clone}/"
        done = ops_before(graph.train_loops[clone].train_op)
        for name, variable in graph.variables.items():
            if not variable.info.trainable:
                continue
            (lock,) = (
                op
                for op in graph.graph.get_operations()
                if op.name == f"{scope}{name}/enter" and op.type == "MutexLock"
            )
            (end,) = (each for each in lock.outputs[0].consumers() if each.type == "ConsumeMutexLock")
            touching = [op for op in variable.copies[0].handle.consumers() if op.name.startswith(scope)]
            assert len(changes_of(variable.copies[0].handle, scope)) == 2
            for op in touching:  # reads of the weight that decays among them
                assert lock.name in ops_before(op), op.name
            for op in changes_of(variable.copies[0].handle, scope):
                assert op.name in ops_before(end), op.name
            assert end.name in done


@pytest.mark.family(every=3)
@pytest.mark.parametrize("update", ["mode = sync", "mode = async", "mode = local, average_every = 2"])
def test_what_is_reported_is_read_before_the_update(update: str) -> None:
    """The penalty in the loss, and the weights in summaries, are of the weights that the step began with."""
    first = 'Dense(3, kernel_regularizer = L2(0.1), name = "first")'
    graph = graph_of(spec(first, update=update, train__summaries="all"))
    scope = "update/" if update == "mode = sync" else "update/clone_0/"
    for name, variable in graph.variables.items():
        handle, roles = variable.copies[0].handle, {"summary", "metric"}
        readers = [op for op in handle.consumers() if op.type == "ReadVariableOp"]
        reads = {op.name for op in readers if graph.ledger.entries[op.name].role in roles}
        assert len(reads) == 1 + (name == "first/kernel"), name
        changes = changes_of(handle, scope)
        assert changes or not variable.info.trainable, name
        for op in changes:
            assert reads <= ops_before(op), op.name
