"""Ops of a step as records, those of fragments too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf
from attrs import frozen

from compiler.graph.adapters.tensorflow_private import op_definition
from compiler.graph.fragments import made_by
from compiler.reasons import Placed, Reason
from compiler.step.edges import Edges, in_order
from compiler.step.record import Fragment, Op, Shape, Tensor, Use
from compiler.topology import Device


def edges_of(written: Iterable[Op | Use]) -> Edges:
    """Return ops in the order in which TensorFlow has them, with the tensors between them."""
    found = list[Op]()
    for each in written:
        if isinstance(each, Op):
            found.append(each)
        else:
            found += used_ops(each)
    return in_order(found)


_NOWHERE = Placed(Device("cpu", 0), Reason("", "default"))


def record_of(op: tf.Operation) -> Op:
    """Return the record of an op, whose place does not matter."""
    return Op(
        op.name,
        op.type,
        tuple(_made(each.op)[each.value_index] for each in op.inputs),
        _NOWHERE,
        "forward",
        _made(op),
        NodeAttributes(op.type, op.node_def.attr),
        tuple(each.name for each in op.control_inputs),
    )


def _made(op: tf.Operation) -> tuple[Tensor, ...]:
    """Return what an op makes."""
    holds = None
    if op.type == "VarHandleOp":
        shape = tf.TensorShape(op.get_attr("shape"))
        holds = (_dtype(op.get_attr("dtype")), (None,) if shape.rank is None else tuple(shape.as_list()))
    return tuple(Tensor(op.name, *each, at, holds=holds) for at, each in enumerate(made_by(op)))


@frozen
class _Node:
    """What all uses of an op of a fragment have in common, with own names of what it takes and makes."""

    type: str
    takes: Sequence[str]
    makes: Sequence[tuple[str, tuple[str, Shape | None, int]]]
    waits: bool
    attributes: Mapping[str, Any]


_nodes: WeakKeyDictionary[Fragment, dict[str, _Node]] = WeakKeyDictionary()


def _nodes_of(fragment: Fragment) -> Mapping[str, _Node]:
    found = _nodes.get(fragment)
    if found is None:
        found = _nodes[fragment] = {}
        for own, node in fragment.node.items():
            takes = [each for each in node.input if not each.startswith("^")]
            makes = [
                (f"{own}:{at}" if at else own, (*each, at)) for at, each in enumerate(fragment.made[own])
            ]
            waits = len(takes) < len(node.input)
            found[own] = _Node(node.op, takes, makes, waits, NodeAttributes(node.op, node.attr))
    return found


def used_ops(use: Use) -> Iterator[Op]:
    """Yield the records of the ops of a fragment in a step."""
    nodes, names, instead, given = _nodes_of(use.fragment), use.names, use.instead, use.given
    placed, role, waits = use.placed, use.role, use.waits
    tensors = dict(given)  # and those that are made in the step
    for own in use.ops:
        node, name, makes = nodes[own], names[own], list[Tensor]()
        takes = [tensors.get(each) or tensors.setdefault(each, use.tensor(each)) for each in node.takes]
        if instead:
            takes = [instead.get((own, at), each) for at, each in enumerate(takes)]
        for key, made in node.makes:
            found = None if key in given else tensors.get(key)
            if found is None:
                found = Tensor(name, *made)
                tensors.setdefault(key, found)
            makes.append(found)
        yield Op(
            name,
            node.type,
            tuple(takes),
            placed if isinstance(placed, Placed) else placed[own],
            role if isinstance(role, str) else role[own],
            tuple(makes),
            node.attributes,
            tuple(use.waits_of(own)) if node.waits or own in waits else (),
            use.clone,
        )


class NodeAttributes(Mapping[str, Any]):
    """The attributes of a node, which are decoded when they are asked for."""

    __slots__ = ("_defaults", "given")

    def __init__(self, kind: str, attributes: Any) -> None:
        self.given, self._defaults = attributes, _defaults_of(kind)

    def __getitem__(self, name: str) -> Any:
        if name in self.given:
            return _plain(self.given[name])
        return _plain(self._defaults[name])

    def __contains__(self, name: object) -> bool:
        return name in self.given or name in self._defaults

    def __iter__(self) -> Iterator[str]:
        yield from {**self._defaults, **self.given}

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache
def _defaults_of(kind: str) -> Mapping[str, Any]:
    """Return the defaults of the attributes of a type of ops; none for a function called under its name."""
    definition = op_definition(kind)
    given = () if definition is None else definition.attr
    return {each.name: each.default_value for each in given if each.HasField("default_value")}


def _plain(value: Any) -> Any:
    """Return the value of an attribute as records have it."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    found = getattr(value, kind)
    if kind == "list":
        lists = [(field.name, each) for field, each in found.ListFields()]
        return [_element(name, each) for name, values in lists for each in values]
    return _element(kind, found)


def _element(kind: str, value: Any) -> Any:
    if kind == "s":
        return value.decode(errors="replace")
    if kind == "type":
        return _dtype(value)
    if kind == "shape":
        return _shape(value)
    if kind == "tensor":
        elements = tf.make_ndarray(value)
        return elements.item() if elements.ndim == 0 else elements
    return value


@cache
def _dtype(number: Any) -> str:
    return str(tf.as_dtype(number).name)


def _shape(value: Any) -> Shape | None:
    shape = tf.TensorShape(value)
    return None if shape.rank is None else tuple(shape.as_list())
