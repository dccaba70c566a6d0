"""The default placement is that of slim, and `round_robin` is what `replica_device_setter` does."""

from collections.abc import Sequence
from functools import cache
from itertools import product

import keras
import pytest
import tensorflow as tf
from attrs import frozen

from compiler.plan import VariableInfo
from compiler.topology import Device
from compiler.towers import towers_of_worker
from tests.compiler.placement.places import Places, places, variables

VARIABLES = 7


@frozen
class Deployment:
    """The arguments of slim's `DeploymentConfig`."""

    num_clones: int
    clone_on_cpu: bool
    num_replicas: int
    num_ps_tasks: int

    @property
    def clustered(self) -> bool:
        """Whether slim names jobs."""
        return self.num_ps_tasks > 0

    def spec(self, *, gpus: bool) -> str:
        """Return the blocks that say the same here; `gpus` declares GPUs that CPU clones leave alone."""
        gpu = f"gpu = {self.num_clones}" if gpus else ""
        devices = f"cpu = 1\n {gpu}"
        if self.clustered:
            devices = f"""
              job "ps" {{ tasks = {self.num_ps_tasks} }}
              job "worker" {{\n tasks = {self.num_replicas}\n {gpu}\n }}
            """
        rule = "clones -> cpu[*]" if self.clone_on_cpu and gpus else ""
        return f"""
          devices {{\n {devices}\n }}
          clones {{ count = {self.num_clones * self.num_replicas}, batch = 2 }}
          place {{\n {rule}\n }}
        """


DEPLOYMENTS = [
    Deployment(*each)
    for each in product((1, 2, 3, 8), (False, True), (1, 2, 5), (0, 1, 2, 3))
    if each[2] == 1 or each[3] > 0  # slim: several replicas need a parameter server
]


def slim_clone(deployment: Deployment, index: int) -> tuple[str | None, str, int]:
    """Return job, kind and index of slim's `clone_device(index)`."""
    job = "worker" if deployment.clustered else None
    return (job, "cpu", 0) if deployment.clone_on_cpu else (job, "gpu", index)


def slim_variable(deployment: Deployment, index: int) -> tuple[str | None, int, str, int]:
    """Return job, task, kind and index of the device that slim gives variable number `index`."""
    if not deployment.clustered:
        return (None, 0, "cpu", 0)
    return ("ps", index % deployment.num_ps_tasks, "cpu", 0)


def located(device: Device) -> tuple[str | None, int, str, int]:
    """Return job, task, kind and index of a device."""
    return (device.job, device.task, device.kind, device.index)


def of(deployment: Deployment) -> list[Places]:
    """Return our placements that say the same as a deployment of slim."""
    declared = (False, True) if deployment.clone_on_cpu else (True,)
    return [places(deployment.spec(gpus=gpus)) for gpus in declared]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=str)
def test_default_placement_is_that_of_slim(deployment: Deployment) -> None:
    """Clones and their scopes, variables, inputs and the optimizer are where slim has them."""
    for found in of(deployment):
        for replica in range(deployment.num_replicas):
            host = ("worker" if deployment.clustered else None, replica)
            own = towers_of_worker(found.towers, host)
            assert [(each.device.job, each.device.kind, each.device.index) for each in own] == [
                slim_clone(deployment, index) for index in range(deployment.num_clones)
            ]
            assert [each.scope for each in own] == (
                [f"clone_{index}" for index in range(deployment.num_clones)]
                if deployment.num_clones > 1
                else [""]
            )
            assert {located(found.book.inputs(each).device) for each in own} == {(*host, "cpu", 0)}
        placed = found.variables(variables(*[8] * VARIABLES))
        assert [located(each.placed.device) for each in placed] == [
            slim_variable(deployment, index) for index in range(VARIABLES)
        ]
        assert [each.updates and each.updates.device for each in placed] == [
            each.placed.device for each in placed
        ]
        assert located(found.book.global_step().device) == slim_variable(deployment, 0)
        assert located(found.book.optimizer().device) == (
            "worker" if deployment.clustered else None,
            0,
            "cpu",
            0,
        )


def test_a_single_clone_has_no_scope_in_the_whole_graph() -> None:
    """One graph over several workers numbers its clones through; a graph of one clone has plain names."""
    one = places("devices { gpu = 1 }\n clones { count = 1, batch = 2 }")
    assert [each.scope for each in one.towers] == [""]
    assert one.towers[0].op_name("conv1/Conv2D") == "conv1/Conv2D"
    cluster = places(
        'devices {\n job "ps" { tasks = 1 }\n job "worker" { tasks = 2, gpu = 2 }\n }\n clones { batch = 2 }'
    )
    assert [each.scope for each in cluster.towers] == ["clone_0", "clone_1", "clone_2", "clone_3"]
    assert [each.device.ref for each in cluster.towers] == [
        "worker[0].gpu[0]",
        "worker[0].gpu[1]",
        "worker[1].gpu[0]",
        "worker[1].gpu[1]",
    ]


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
