"""Simplify a traced tower before it is stamped. What is removed here is saved for each clone, at every step.

Keras layers leave three kinds of needless ops in large numbers: equal constants, reshapes back to the shape
before, and shapes that are computed at run time although they are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import tensorflow as tf
from attrs import define, field

Shape: TypeAlias = tuple[int | None, ...] | None

_RESHAPES = frozenset({"Reshape", "Squeeze", "ExpandDims"})
_SHAPES = frozenset({"Shape", "ShapeN"})


@define
class Simplifier:
    """Goes once through the nodes in topological order.

    Attributes:
        shape_of: Returns the static shape of a tensor by its name, or None if its rank is not known.
        share_constants: Whether equal constants become one node.
    """

    shape_of: Callable[[str], Shape]
    share_constants: bool = True
    _instead: dict[str, str] = field(factory=dict)  # tensor -> the tensor to use instead
    _constants: dict[bytes, str] = field(factory=dict)
    _sources: dict[str, str] = field(
        factory=dict
    )  # result of a reshape -> the tensor that was first reshaped

    def run(self, nodes: Iterable[Any]) -> list[Any]:
        """Return the nodes that remain, with their inputs changed accordingly."""
        return [kept for node in nodes for kept in self._node(node)]

    def resolve(self, tensor: str) -> str:
        """Return the tensor by which a tensor has been replaced, or the tensor itself."""
        return self._instead.get(tensor, tensor)

    def _node(self, node: Any) -> Iterator[Any]:
        for at, each in enumerate(node.input):
            base, _, _ = each.removeprefix("^").partition(":")
            if each in self._instead:
                node.input[at] = self._instead[each]
            elif each.startswith("^") and base in self._instead:
                node.input[at] = "^" + self._instead[base].partition(":")[0]
        if node.op == "Const":
            yield from self._constant(node)
        elif node.op in _SHAPES:
            yield from self._shape(node)
        elif node.op in _RESHAPES:
            yield from self._reshape(node)
        else:
            yield node

    def _constant(self, node: Any) -> Iterator[Any]:
        del node.input[:]  # only control inputs, which a constant does not need
        if self.share_constants:
            key = node.attr["value"].SerializeToString(deterministic=True)
            first = self._constants.setdefault(key, node.name)
            if first != node.name:
                self._instead[node.name] = first
                return
        yield node

    def _shape(self, node: Any) -> Iterator[Any]:
        """Replace shapes that are known by constants."""
        shapes = [self.shape_of(each) for each in node.input if not each.startswith("^")]
        known = [shape for shape in shapes if shape is not None and None not in shape]
        if len(known) < len(shapes):
            yield node
            return
        dtype = tf.as_dtype(node.attr["out_type"].type or tf.int32)
        for at, shape in enumerate(known):
            name = node.name if at == 0 else f"{node.name}/{at}"
            constant = tf.compat.v1.NodeDef(name=name, op="Const")
            constant.attr["dtype"].type = dtype.as_datatype_enum
            constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(shape, dtype, [len(shape)]))
            kept = list(self._constant(constant))
            if at > 0:
                self._instead[f"{node.name}:{at}"] = self.resolve(name)
            yield from kept

    def _reshape(self, node: Any) -> Iterator[Any]:
        """Remove a reshape if its result has the shape that the first of a chain of reshapes began with."""
        source = self._sources.get(node.input[0], node.input[0])
        shape = self.shape_of(node.name)
        if shape is not None and None not in shape and shape == self.shape_of(source):
            self._instead[node.name] = source
            return
        self._sources[node.name] = source
        yield node
