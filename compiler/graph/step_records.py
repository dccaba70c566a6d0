"""Ops of a step as records, those of fragments too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from heapq import heappop, heappush
from itertools import chain, count
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import tensorflow as tf
from attrs import frozen

from compiler.graph.adapters.tensorflow_private import op_definition
from compiler.graph.fragments import made_by
from compiler.reasons import Placed, Reason
from compiler.step.record import Fragment, Op, Shape, Tensor, Use
from compiler.topology import Device


def ops_of(written: Iterable[Op | Use]) -> dict[str, Op]:
    """Return ops by name, in the order in which TensorFlow has them."""
    found: dict[str, Op] = {}
    for each in written:
        if isinstance(each, Op):
            found[each.name] = each
        else:
            found.update([(op.name, op) for op in used_ops(each)])
    return _in_order(found)


_MAKER, _INPUTS = attrgetter("op"), attrgetter("inputs")


def _in_order(ops: Mapping[str, Op]) -> dict[str, Op]:
    """Return ops as they were written, but each after all that it takes and waits for."""
    late = _late(ops)
    users: dict[str, list[str]] = {}  # of what is not there yet, those that were written before it
    missing: dict[str, int] = {}
    numbers: dict[str, int] = {}
    found: dict[str, Op] = {}

    def add(first: str) -> None:
        """Add an op, and those that were written too early and may come now."""
        ready = [(0, first)]
        while ready:
            _, name = heappop(ready)
            found[name] = ops[name]
            for each in users.pop(name, ()):
                missing[each] -= 1
                if not missing[each]:
                    heappush(ready, (numbers[each], each))

    for at, (name, op) in enumerate(ops.items()):
        needed = _lacking(op, ops, found) if name in late else ()
        if needed:
            numbers[name], missing[name] = at, len(needed)
            for each in needed:
                users.setdefault(each, []).append(name)
        elif name in users:
            add(name)
        else:
            found[name] = op
    return found


def _late(ops: Mapping[str, Op]) -> Collection[str]:
    """Return the names of ops that may have to come later, because they need what was written after them.

    Those that only need something of which that is true are among them.
    """
    names, records = [*ops], [*ops.values()]
    numbers = dict(zip(names, count(), strict=False))
    takes = [*map(_INPUTS, records)]
    before = np.fromiter(map(numbers.__getitem__, map(_MAKER, chain.from_iterable(takes))), np.int32)
    after = np.repeat(np.arange(len(names), dtype=np.int32), np.fromiter(map(len, takes), np.int32))
    waits = [(at, numbers[each]) for at, op in enumerate(records) if op.waits for each in op.waits]
    more = np.array(waits, np.int32).reshape(-1, 2).T
    after, before = np.concatenate((after, more[0])), np.concatenate((before, more[1]))
    late, new = np.zeros(len(names), bool), after[before > after]
    while len(new):
        late[new] = True
        new = after[late[before] & ~late[after]]
    return {names[at] for at in np.flatnonzero(late).tolist()}


def _lacking(op: Op, ops: Mapping[str, Op], found: Collection[str]) -> Collection[str]:
    """Return the names of what an op takes and waits for that is not there yet."""
    before = [each.op for each in op.inputs if each.op not in found]
    before += [each for each in op.waits if each not in found]
    if not before:
        return before
    if op.type == "Merge":  # which begins before the first iteration has ended
        before = [each for each in before if ops[each].type != "NextIteration"]
    return set(before)


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
