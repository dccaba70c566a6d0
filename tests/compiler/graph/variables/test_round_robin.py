"""`round_robin` is what `tf.compat.v1.train.replica_device_setter` does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import keras
import pytest
import tensorflow as tf

from compiler.plan import VariableInfo
from tests.compiler.placement.places import places


def chosen_by_tensorflow(infos: Sequence[VariableInfo], tasks: int) -> list[str]:
    """Return the device that TensorFlow's setter gives each resource variable, made in their order."""
    with tf.Graph().as_default():
        made = []
        with tf.compat.v1.device(tf.compat.v1.train.replica_device_setter(ps_tasks=tasks)):
            for info in infos:
                initial = tf.zeros(info.shape, info.dtype)
                made.append(tf.compat.v1.Variable(initial, use_resource=True, name=info.name))
        return [each.handle.op.device for each in made]


@cache
def variables_of_resnet50() -> tuple[VariableInfo, ...]:
    """Return the variables of the model in the order in which Keras makes them."""
    model = keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=10)
    return tuple(VariableInfo(each.path, each.shape, each.dtype, 4) for each in model.variables)


@pytest.mark.full
@pytest.mark.parametrize("tasks", [3, 2, 1, 8])
@pytest.mark.parametrize("rule", ["", "variables -> round_robin(ps[*])"])
def test_resnet50_goes_where_replica_device_setter_puts_it(tasks: int, rule: str) -> None:
    """Every variable of ResNet-50, in order of creation, by default and by the rule."""
    infos = variables_of_resnet50()
    found = places(
        f'devices {{\n job "ps" {{ tasks = {tasks} }}\n job "worker" {{ tasks = 1 }}\n }}\n'
        f"clones {{ batch = 2 }}\n place {{\n {rule}\n }}"
    )
    ours = [each.placed.device for each in found.variables(infos)]
    assert [f"/job:{each.job}/task:{each.task}" for each in ours] == chosen_by_tensorflow(infos, tasks)
    assert {(each.kind, each.index) for each in ours} == {("cpu", 0)}
