"""Stamp towers: write the nodes of a template once per clone, with names, devices and inputs of their own.

All clones go into one GraphDef, which is imported once. Ports are replaced on the way: a weight by a read of
its variable on the variable's device, an input, seed or scale by the tensor that the rest of the graph gives
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.importing import import_nodes
from compiler.graph.ledger import Entry, Ledger
from compiler.graph.template import Role, Template
from compiler.plan import Placed, Tower, Why
from compiler.rules import Rulebook


@frozen
class WeightSource:
    """A variable as one tower reads it: the tensor of its handle, and where it lives."""

    handle: tf.Tensor
    placed: Placed


@frozen
class Bindings:
    """What takes the place of a template's ports in one tower.

    `scale` is the factor on the tower's loss (its share of the global batch, for a mean); `inverse_share` is
    one over that share.
    """

    tower: Tower
    weights: Mapping[str, WeightSource]
    inputs: Mapping[str, tf.Tensor]
    seed: tf.Tensor | None = None
    scale: float | None = None
    inverse_share: float | None = None
    role: Role | None = None  # where all ops of the tower have one role: evaluation


@define
class StampedTower:
    """A tower in the graph: tensors by their names in the template."""

    graph: tf.Graph = field(repr=False)
    template: Template = field(repr=False)
    bindings: Bindings = field(repr=False)

    @property
    def tower(self) -> Tower:
        """The tower's place in the plan."""
        return self.bindings.tower

    def tensor(self, name: str) -> tf.Tensor:
        """Return the tensor that the template calls `name`."""
        base, _, index = name.partition(":")
        if base in self.template.inputs.values():  # a model whose output is an input, say
            given = next(key for key, port in self.template.inputs.items() if port == base)
            return self.bindings.inputs[given]
        return self.graph.get_tensor_by_name(f"{self.tower.op_name(base)}:{index or 0}")

    def gradient(self, weight: str) -> tf.Tensor | tf.IndexedSlices:
        """Return the gradient of the tower's (scaled) loss by a weight; sparse ones stay sparse."""
        found = self.template.gradients[weight]
        if found.indices is None:
            return self.tensor(found.values)
        return tf.IndexedSlices(self.tensor(found.values), self.tensor(found.indices))

    def read(self, weight: str) -> tf.Operation:
        """Return the op by which the tower reads a weight."""
        return self.graph.get_operation_by_name(read_name(self.tower, weight))


def read_name(tower: Tower, weight: str) -> str:
    """Return the name of the op by which a tower reads a weight."""
    return tower.op_name(f"{weight}/read")


def stamp(
    graph: tf.Graph, stamps: Sequence[tuple[Template, Bindings]], rulebook: Rulebook, ledger: Ledger
) -> list[StampedTower]:
    """Write each template with its bindings into `graph`, entering every op into the ledger."""
    assembled = tf.compat.v1.GraphDef()
    outside: dict[str, tf.Tensor] = {}
    for template, bindings in stamps:
        _Writer(template, bindings, rulebook, ledger, assembled, outside).write()
    for template in {id(each): each for each, _ in stamps}.values():
        assembled.library.MergeFrom(template.graph_def.library)
        assembled.versions.CopyFrom(template.graph_def.versions)
    import_nodes(graph, assembled, outside)
    return [StampedTower(graph, template, bindings) for template, bindings in stamps]


@define
class _Writer:
    template: Template
    bindings: Bindings
    rulebook: Rulebook
    ledger: Ledger
    target: Any
    outside: dict[str, tf.Tensor]
    _names: dict[str, str] = field(factory=dict)

    def write(self) -> None:
        tower = self.bindings.tower
        for node in self.template.graph_def.node:
            self._names[node.name] = tower.op_name(node.name)
        self._replace_ports()
        ports = {*self.template.weights.values(), *self.template.inputs.values(), self.template.seed}
        for node in self.template.graph_def.node:
            if node.name == self.template.scale:
                self._constant(node.name, self.bindings.scale)
            elif node.name == self.template.inverse_share:
                self._constant(node.name, self.bindings.inverse_share)
            elif node.name not in ports:
                self._copy(node)

    def _replace_ports(self) -> None:
        template, bindings = self.template, self.bindings
        for name, port in template.inputs.items():
            self._names[port] = self._outside(bindings.inputs[name])
        if template.seed is not None and bindings.seed is not None:
            self._names[template.seed] = self._outside(bindings.seed)
        for weight, port in template.weights.items():
            self._names[port] = self._read(weight, bindings.weights[weight])

    def _outside(self, tensor: tf.Tensor) -> str:
        self.outside[tensor.name] = tensor
        return str(tensor.name).removesuffix(":0")

    def _read(self, weight: str, source: WeightSource) -> str:
        tower = self.bindings.tower
        name = read_name(tower, weight)
        node = self.target.node.add(name=name, op="ReadVariableOp")
        node.input.append(self._outside(source.handle))
        port = self.template.weights[weight]
        dtype = next(each.attr["dtype"] for each in self.template.graph_def.node if each.name == port)
        node.attr["dtype"].CopyFrom(dtype)
        why = Why(weight, "follows")
        self._enter(node, Placed(source.placed.device, why), "read")
        return name

    def _constant(self, port: str, value: float | None) -> None:
        name = self._names[port]
        node = self.target.node.add(name=name, op="Const")
        node.attr["dtype"].type = tf.float32.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1.0 if value is None else value, tf.float32))
        self._enter(node, self._own_place(), "forward")

    def _copy(self, template_node: Any) -> None:
        node = self.target.node.add()
        node.CopyFrom(template_node)
        inner = template_node.name
        node.name = self._names[inner]
        for at, each in enumerate(template_node.input):
            node.input[at] = self._input(each)
        role = self.template.roles[inner]
        self._enter(node, self._placed(inner), role)

    def _input(self, name: str) -> str:
        control = "^" if name.startswith("^") else ""
        base, _, index = name.removeprefix("^").partition(":")
        target = self._names[base]
        if control:
            return f"^{target.partition(':')[0]}"
        return f"{target}:{index}" if index else target

    def _placed(self, inner: str) -> Placed:
        """Return where an op goes: by a rule on its own or its forward op's name, else with its tower."""
        forward = self.template.follows.get(inner, inner)
        ruled = self.rulebook.op(forward, self.bindings.tower)
        if ruled is None:
            return self._own_place()
        return ruled if forward == inner else Placed(ruled.device, Why(forward, "follows", ruled.why.rule))

    def _own_place(self) -> Placed:
        return Placed(self.bindings.tower.device, self.bindings.tower.why)

    def _enter(self, node: Any, placed: Placed, role: Role) -> None:
        node.device = self.ledger.plan.tensorflow_device(placed.device)
        clone = None if self.bindings.role is not None else self.bindings.tower.index
        self.ledger.enter(node.name, Entry(placed, self.bindings.role or role, clone))
