"""Ops of a step as records, those of fragments too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from heapq import heappop, heappush
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from compiler.graph.adapters.tensorflow_private import op_definition
from compiler.graph.fragments import made_by
from compiler.reasons import Placed, Reason
from compiler.step.record import Fragment, Op, Shape, Tensor, Use
from compiler.topology import Device


def ops_of(written: Iterable[Op | Use]) -> dict[str, Op]:
    """Return ops by name, in the order in which TensorFlow has them."""
    found: dict[str, Op] = {}
    for each in written:
        records = (each,) if isinstance(each, Op) else (used_op(each, own) for own in each.ops)
        found |= {op.name: op for op in records}
    return _in_order(found)


def _in_order(ops: Mapping[str, Op]) -> dict[str, Op]:
    """Return ops as they were written, but each after all that it takes and waits for."""
    names, numbers = [*ops], {name: at for at, name in enumerate(ops)}
    users: dict[str, list[str]] = {}
    missing: dict[str, int] = {}
    for op in ops.values():
        before = {*op.waits, *(each.op for each in op.inputs)}
        if op.type == "Merge":  # which begins before the first iteration has ended
            before = {each for each in before if ops[each].type != "NextIteration"}
        missing[op.name] = len(before)
        for each in before:
            users.setdefault(each, []).append(op.name)
    ready, found = [numbers[name] for name in names if not missing[name]], dict[str, Op]()
    while ready:
        name = names[heappop(ready)]
        found[name] = ops[name]
        for each in users.get(name, ()):
            missing[each] -= 1
            if not missing[each]:
                heappush(ready, numbers[each])
    return found


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


def used_op(use: Use, own: str) -> Op:
    """Return the record of an op of a fragment in a step."""
    attributes, node, name = _attributes.setdefault(use.fragment, {}), use.fragment.node[own], use.names[own]
    if own not in attributes:
        attributes[own] = NodeAttributes(node.op, node.attr)
    return Op(
        name,
        node.op,
        tuple(
            use.instead[own, at] if (own, at) in use.instead else use.tensor(each)
            for at, each in enumerate(node.input)
            if not each.startswith("^")
        ),
        use.place_of(own),
        use.role_of(own),
        tuple(Tensor(name, *each, at) for at, each in enumerate(use.fragment.made[own])),
        attributes[own],
        tuple(use.waits_of(own)),
        use.clone,
    )


class NodeAttributes(Mapping[str, Any]):
    """The attributes of a node, which are decoded when they are asked for."""

    __slots__ = ("_attributes", "_defaults")

    def __init__(self, kind: str, attributes: Any) -> None:
        self._attributes, self._defaults = attributes, _defaults_of(kind)

    def __getitem__(self, name: str) -> Any:
        if name in self._attributes:
            return _plain(self._attributes[name])
        return _plain(self._defaults[name])

    def __contains__(self, name: object) -> bool:
        return name in self._attributes or name in self._defaults

    def __iter__(self) -> Iterator[str]:
        yield from {**self._defaults, **self._attributes}

    def __len__(self) -> int:
        return sum(1 for _ in self)


_attributes: WeakKeyDictionary[Fragment, dict[str, NodeAttributes]] = WeakKeyDictionary()


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
