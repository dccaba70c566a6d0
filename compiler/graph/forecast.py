"""How much memory a step needs on every device, before anything runs, whether or not the devices are there.

TensorFlow's virtual cluster goes through the ops of a step in the order in which they could run, with the
static shapes of their outputs, and finds the largest sum of tensors alive on each device. It does not count
resource variables, and neither what an op needs within itself nor what a loop keeps from round to round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import frozen
from tensorflow.core.protobuf import device_properties_pb2 as properties
from tensorflow.python.grappler import cluster as virtual
from tensorflow.python.grappler import item as grappler_item

from compiler.graph.step import step_ops
from compiler.placement_map import MapTensor

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph

LARGEST = 5
_PLENTY = 1 << 50  # bytes of memory: the simulated devices never run out of it


@frozen
class StepMemory:
    """The peak of one device: bytes of the tensors alive at that moment, and the largest of them."""

    bytes: int
    largest: tuple[MapTensor, ...]


def forecast_step_memory(compiled: CompiledGraph) -> dict[str, StepMemory]:
    """Return the peak of a step on every device, by the device's name in specs."""
    plan = compiled.plan
    names = {plan.tensorflow_device(each): each for each in plan.topology.devices}
    devices = [
        properties.NamedDevice(name=name, properties=_properties(each.kind)) for name, each in names.items()
    ]
    peaks = virtual.Cluster(devices=devices).DeterminePeakMemoryUsage(grappler_item.Item(_step(compiled)))
    return {each.ref: _peak(peaks.get(name, (0, ()))) for name, each in names.items()}


def _properties(kind: str) -> Any:
    return properties.DeviceProperties(
        type=kind.upper(), num_cores=1, frequency=1000, bandwidth=1_000_000, memory_size=_PLENTY
    )


def _step(compiled: CompiledGraph) -> Any:
    """Return what a step runs as a MetaGraphDef, with the shapes of all outputs."""
    whole = compiled.graph.as_graph_def(add_shapes=True)
    needed = {op.name for op in step_ops(compiled)}
    step = tf.compat.v1.MetaGraphDef()
    step.graph_def.node.extend(node for node in whole.node if node.name in needed)
    step.graph_def.library.CopyFrom(whole.library)
    step.graph_def.versions.CopyFrom(whole.versions)
    results = [compiled.data_loss.op, *([compiled.train_op] if compiled.train_op is not None else [])]
    step.collection_def["train_op"].node_list.value.extend(each.name for each in results)
    return step


def _peak(found: Any) -> StepMemory:
    """Read what the virtual cluster says of a device: bytes, and (op, output, bytes, ...) of each tensor."""
    total, alive = found
    largest = sorted(alive, key=lambda each: (-each[2], each[0], each[1]))[:LARGEST]
    return StepMemory(
        max(0, int(total)),  # -1 says that no op of the step is there
        tuple(MapTensor(f"{name}:{output}", int(size)) for name, output, size, *_ in largest),
    )
