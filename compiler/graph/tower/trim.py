"""Make a template from a traced graph: the necessary nodes, named after the model, each with its role."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs
import tensorflow as tf
from attrs import define, evolve, field

from compiler.graph.adapters.tensorflow_private import python_functions
from compiler.graph.fragments import ancestors, made_by, map_tensors, recorded
from compiler.graph.tower.template import CopiedRows, Gradient, Template, TowerResults, nodes_before
from compiler.step.record import Fragment, Made, Role

_GRADIENT = re.compile(r"^gradients/(?:part_\d+/)?(?:(?P<forward>.+)_grad/)?")
_GRADIENTS = re.compile(r"^gradients/(?:part_\d+/)?")


def trim(
    graph: tf.Graph, traced: TowerResults, paths: Mapping[str, str], *, share_constants: bool = True
) -> Template:
    """Return the template of a traced tower.

    Args:
        paths: The path in the model of each layer, by the name that Keras has for it.
        share_constants: Whether equal constants become one node. They must not if rules place parts of a
            tower.
    """
    used: list[Any] = traced.used
    needed = ancestors(each.op for each in used)
    graph_def = graph.as_graph_def()
    simplifier = Simplifier(lambda tensor: _shape(graph, tensor), share_constants)
    simple = simplifier.run(node for node in graph_def.node if node.name in needed)

    def resolved(tensor: tf.Tensor) -> str:
        base = tensor.op.name
        return simplifier.resolve(base if tensor.value_index == 0 else f"{base}:{tensor.value_index}")

    wanted = nodes_before({node.name: node for node in simple}, map(resolved, used))
    kept = [node for node in simple if node.name in wanted]
    rename = _Renamer(paths)
    names = {node.name: rename(node.name) for node in kept}
    for node in kept:
        _rewrite(node, names)
    for function in graph_def.library.function:
        for node in function.node_def:
            _free(node)
    trimmed = tf.compat.v1.GraphDef(node=kept, library=graph_def.library, versions=graph_def.versions)

    def name(tensor: tf.Tensor) -> str | None:
        base, colon, index = resolved(tensor).partition(":")
        return f"{names[base]}{colon}{index}" if base in names else None

    by_name, before = {node.name: node for node in trimmed.node}, {new: old for old, new in names.items()}

    def shape_of(tensor: str) -> Shape | None:
        base, colon, index = tensor.partition(":")
        return _shape(graph, f"{before[base]}{colon}{index}")

    def with_copied(each: Gradient) -> Gradient:
        if each.indices is None:
            return each
        return evolve(each, copied=copied_rows(each.values, by_name, shape_of))

    made = {
        new: made_by(graph.get_operation_by_name(old)) if old in needed else _of_constant(by_name[new])
        for new, old in before.items()
    }
    fields = {each.name: getattr(traced, each.name) for each in attrs.fields(TowerResults)}
    found = {
        key: value if key == "metrics" else map_tensors(value, name, tf.Tensor)
        for key, value in fields.items()
    }
    found["losses"] = tuple(
        evolve(part, gradients={own: with_copied(each) for own, each in part.gradients.items()})
        for part in found["losses"]
    )
    for ports in ("weights", "inputs"):
        found[ports] = {own: port for own, port in found[ports].items() if port is not None}
    return Template(
        fragment=Fragment(trimmed, made=made, functions=python_functions(graph)),
        roles={node.name: _role(node.name) for node in trimmed.node},
        follows=_follows(trimmed),
        results={name(each) or "": recorded(each) for each in used},
        **found,
    )


def _of_constant(node: Any) -> Made:
    """Return the type and shape of a constant that takes the place of ops."""
    value = node.attr["value"].tensor
    return [(tf.as_dtype(value.dtype).name, tuple(each.size for each in value.tensor_shape.dim))]


def _shape(graph: tf.Graph, tensor: str) -> Shape:
    base, _, index = tensor.partition(":")
    shape = graph.get_operation_by_name(base).outputs[int(index or 0)].shape
    return None if shape.rank is None else tuple(shape.as_list())


class _Renamer:
    """Gives nodes the names of the model's layers: `encoder_query/MatMul` -> `encoder/query/MatMul`."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = {keras: path for keras, path in paths.items() if keras != path}

    def __call__(self, name: str) -> str:
        if not self._paths:
            return name
        match = _GRADIENTS.match(name)
        own = match.group() if match is not None else ""
        scope, slash, rest = name.removeprefix(own).partition("/")
        path = self._paths.get(scope)
        if path is None:  # a layer called for the second time: `query_1`
            base, _, number = scope.rpartition("_")
            path = f"{self._paths[base]}_{number}" if base in self._paths and number.isdigit() else None
        return f"{own}{path}{slash}{rest}" if path is not None else name


def _rewrite(node: Any, names: Mapping[str, str]) -> None:
    node.name = names[node.name]
    _free(node)
    for at, each in enumerate(node.input):
        control = "^" if each.startswith("^") else ""
        base, colon, index = each.removeprefix("^").partition(":")
        node.input[at] = f"{control}{names[base]}{colon}{index}"


def _free(node: Any) -> None:
    """Remove a node's device and colocations: devices are given op by op, and a loop's body runs with its op.

    The colocations of a loop's body would join the bodies of all clones.
    """
    node.device = ""
    if "_class" in node.attr:
        del node.attr["_class"]


def _role(name: str) -> Role:
    if name.startswith("gradients/"):
        return "gradient"
    if name.startswith("metrics/"):
        return "metric"
    return "forward"


def _follows(graph_def: Any) -> dict[str, str]:
    """Map gradient ops to the forward op that they differentiate.

    Other ops among them (sums of gradients, zeros for missing ones) follow the op that made their first
    input.
    """
    follows: dict[str, str] = {}
    for node in graph_def.node:
        match = _GRADIENT.match(node.name)
        if match is None:
            continue
        forward = match.group("forward")
        if forward is None and node.input:
            first = node.input[0].removeprefix("^").partition(":")[0]
            own = _role(first) == "forward" and not first.startswith("ports/")
            forward = follows.get(first, first if own else None)
        if forward is not None:
            follows[node.name] = forward
    return follows


_SUMMED = (tf.float32, tf.float64)
"""The types of which rows are added up without copies; sums of others are rounded at other times."""


def copied_rows(
    values: str, nodes: Mapping[str, Any], shape_of: Callable[[str], Shape | None]
) -> CopiedRows | None:
    """Return the rows of which others are copies, or None if it is not certain that they are copies.

    A mean divides the copies by their number.

    Args:
        values: The tensor of the copies, of shape [n, width].
        shape_of: Returns the static shape of a tensor, or None if its rank is unknown.
    """
    made = nodes[values.partition(":")[0]]
    if made.op != "Reshape" or made.attr["T"].type not in [each.as_datatype_enum for each in _SUMMED]:
        return None

    def input_of(node: Any, number: int) -> Any:
        return nodes[node.input[number].partition(":")[0]]

    divisor, copies = None, input_of(made, 0)
    if copies.op == "RealDiv" and shape_of(copies.input[1]) == ():
        if input_of(copies, 1).op == "Placeholder":  # a port, which the ops of a tower do not have
            return None
        divisor, copies = copies.input[1], input_of(copies, 0)
    if copies.op != "Tile" or input_of(copies, 1).op != "Const":
        return None
    times = tf.make_ndarray(input_of(copies, 1).attr["value"].tensor)
    shape, of_rows = shape_of(copies.input[0]), shape_of(values)
    sizes = tuple(each for each in shape or () if each is not None)
    if not sizes or sizes != shape or any(each != 1 for each in sizes[1:-1]):
        return None
    if times[0] != 1 or times[-1] != 1 or of_rows is None or of_rows[-1] != sizes[-1]:
        return None
    return CopiedRows(copies.input[0], int(times.prod()), divisor, sizes, copies.name)


# --- equal constants and needless reshapes ----------------------------------------------------------------
#
# Keras layers leave three kinds of needless ops in large numbers: equal constants, reshapes back to the shape
# before, and shapes that are computed at run time although they are known.


Shape: TypeAlias = tuple[int | None, ...] | None

_RESHAPES = frozenset({"Reshape", "Squeeze", "ExpandDims"})
_SHAPES = frozenset({"Shape", "ShapeN"})


@define
class Simplifier:
    """Goes once through the nodes in topological order."""

    # Returns the static shape of a tensor by its name, or None if its rank is not known.
    shape_of: Callable[[str], Shape]
    share_constants: bool = True  # whether equal constants become one node
    _instead: dict[str, str] = field(factory=dict)  # tensor -> the tensor to use instead
    _constants: dict[bytes, str] = field(factory=dict)
    _sources: dict[str, str] = field(factory=dict)  # result of a reshape -> the tensor reshaped first

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
