"""A forecast of the memory that a step needs on each device, which need not exist.

TensorFlow's virtual cluster goes through the ops of a step in an order in which they could run, with the
static shapes of their outputs, and finds the largest sum of tensors alive on each device. It does not know
that reading a resource variable copies nothing. It is therefore given plain variables instead, which it
counts as always there. It counts neither what an op needs internally nor what a loop keeps between its
iterations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import define, field

from compiler.figures import size
from compiler.graph.adapters.tensorflow_private import (
    DeviceProperties,
    GrapplerItem,
    NamedDevice,
    VirtualCluster,
)
from compiler.machine_memory import memory_left
from compiler.mapping.records import MapTensor
from compiler.step.read.map import StepMemory
from compiler.step.read.ops import step_ops
from dsl.diagnostics import SpecError
from dsl.errors.plan import forecast_without_room

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph

LARGEST = 5
_PLENTY = 1 << 62  # bytes of memory: the simulated devices never run out of it
TAKEN = "Unstage"
BYTES_OF_OP = 40_000
"""The memory that the simulation takes for each op."""


def forecast_step_memory(compiled: CompiledGraph) -> dict[str, StepMemory]:
    """Return the peak of a step on each device, without variables, by the device's name in specs.

    Args:
        compiled: The graph.

    Raises:
        SpecError: If the simulation would take more memory than is left on this machine.
    """
    plan = compiled.plan
    _require_room(compiled)
    names = {plan.tensorflow_device(each): each for each in plan.topology.devices}
    devices = [NamedDevice(name=name, properties=_properties(each.kind)) for name, each in names.items()]
    step = _Step.of(compiled)
    peaks = VirtualCluster(devices=devices).DeterminePeakMemoryUsage(GrapplerItem(step.meta_graph()))
    return {each.ref: step.peak(name, peaks.get(name, (0, ()))) for name, each in names.items()}


def _require_room(compiled: CompiledGraph) -> None:
    ops = len(step_ops(compiled.step))
    needed, left = ops * BYTES_OF_OP, memory_left()
    if needed > left:
        spec = compiled.plan.spec
        span = spec.clones.span_of("count") or spec.devices.span
        raise SpecError([forecast_without_room(span, ops=ops, needed=size(needed), left=size(left))])


def _properties(kind: str) -> Any:
    return DeviceProperties(
        type=kind.upper(), num_cores=1, frequency=1000, bandwidth=1_000_000, memory_size=_PLENTY
    )


def _known(taken: Any) -> list[Any]:
    """Return a node to use instead of a read from a staging area, whose shapes TensorFlow does not know."""
    shapes = taken.attr["_output_shapes"].list.shape
    known = []
    for at, (dtype, shape) in enumerate(zip(taken.attr["dtypes"].list.type, shapes, strict=True)):
        node = tf.compat.v1.NodeDef(name=f"{taken.name}/{at}", op="Placeholder", device=taken.device)
        node.attr["dtype"].type = dtype
        node.attr["shape"].shape.CopyFrom(shape)
        known.append(node)
    return known


@define
class _Step:
    """The nodes that a step runs, with the shapes of their outputs; variables are plain ones."""

    results: list[str]
    whole: Any = field(repr=False)
    nodes: dict[str, Any] = field(repr=False)
    variables: dict[str, Any] = field(factory=dict, repr=False)  # by the names of their handles
    reads: dict[str, str] = field(factory=dict, repr=False)  # name of a read -> name of the node used instead

    @classmethod
    def of(cls, compiled: CompiledGraph) -> _Step:
        """Return the nodes that a step of `compiled` runs."""
        needed = {op.name for op in step_ops(compiled.step)}
        whole = compiled.ledger.graph_def()
        nodes = {node.name: node for node in whole.node if node.name in needed}
        step = cls(list(compiled.step.ends.all), whole, nodes)
        for node in nodes.values():
            if node.op == "ReadVariableOp" and len(node.input) == 1:
                step.reads[node.name] = step.stand_in(nodes[node.input[0].partition(":")[0]])
        return step

    def stand_in(self, handle: Any) -> str:
        """Return the name of the plain variable that is used instead of the one with this handle."""
        name = f"{handle.name}/value"
        if handle.name not in self.variables:
            node = tf.compat.v1.NodeDef(name=name, op="VariableV2", device=handle.device)
            for each in ("dtype", "shape"):
                node.attr[each].CopyFrom(handle.attr[each])
            self.variables[handle.name] = node
        return name

    def meta_graph(self) -> Any:
        """Return the step as a MetaGraphDef for grappler."""
        step = tf.compat.v1.MetaGraphDef()
        step.graph_def.node.extend(self.variables.values())
        for name, node in self.nodes.items():
            if node.op == TAKEN:
                step.graph_def.node.extend(_known(node))
            elif name not in self.reads:
                kept = step.graph_def.node.add()
                kept.CopyFrom(node)
                for at, each in enumerate(node.input):
                    kept.input[at] = self._input(each)
        step.graph_def.library.CopyFrom(self.whole.library)
        step.graph_def.versions.CopyFrom(self.whole.versions)
        step.collection_def["train_op"].node_list.value.extend(self.results)
        return step

    def _input(self, name: str) -> str:
        control = "^" if name.startswith("^") else ""
        base, _, output = name.removeprefix("^").partition(":")
        if base in self.nodes and self.nodes[base].op == TAKEN:
            return f"{control}{base}/{output or 0}"
        return control + self.reads[base] if base in self.reads else name

    def peak(self, device: str, found: Any) -> StepMemory:
        """Return the peak of a device from the answer of the virtual cluster.

        Args:
            device: The name of the device.
            found: Its bytes, and (op, output, bytes, ...) of each tensor alive.
        """
        total, alive = max(found[0], 0), found[1]  # the cluster gives -1 for a device on which nothing runs
        own = {node.name: node for node in self.variables.values() if node.device == device}
        held = sum(size for name, _, size, *_ in alive if name in own)
        step = [each for each in alive if each[0] not in own]
        ordered = sorted(step, key=lambda each: (-each[2], each[0], each[1]))
        tensors = tuple(MapTensor(f"{name}:{output}", int(size)) for name, output, size, *_ in ordered)
        return StepMemory(int(total) - int(held), tensors[:LARGEST], tensors)
