"""A functional Keras model as bodies of nodes: one for the model, and one for each model inside it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, Literal

import keras
import numpy as np
from attrs import define, evolve, field, frozen
from keras import layers

from compiler.graph.adapters.keras_private import functional_of, get_keras_mask, layers_within, maker_of
from compiler.graph.tower.network.operations import one_of_repeated, plain_weight_of
from dsl import ir
from dsl.schema import signatures
from tfdeploy.onramp.objects import (
    LARGEST_ARRAY,
    MOST_WORDS,
    UnwritableError,
    call_of,
    is_automatic,
    value_of,
)

_OPERATIONS = {name.rpartition(".")[2].replace("_", ""): name for name in signatures.names("operation")}
RESERVED = frozenset(
    {"true", "false", "none", "loss", "regularize", "output", "metrics", "ops", "applications", "repeat"}
    | {"python", "layer", "input", "weight", "parameter", "_"}
)


_ACTIVATED = (
    *(layers.Activation, layers.Conv1D, layers.Conv2D, layers.Conv3D, layers.Dense, layers.EinsumDense),
    *(layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose),
    *(layers.DepthwiseConv1D, layers.DepthwiseConv2D, layers.SeparableConv1D, layers.SeparableConv2D),
)
"""The layers whose activation is the last that they do."""

_ACTIVATIONS = (layers.ELU, layers.LeakyReLU, layers.ReLU, layers.Softmax)
"""The layers that are activations, and have no weights."""


@frozen
class At:
    """Stands for a tensor among the arguments of a node: `number` is its place among the node's inputs."""

    number: int


@define(eq=False)
class Node:
    """A layer, an operation or a block that is called on values, and makes new ones."""

    # As that of a Step; `operation`, `index`, `weight` or `shared` beside it.
    kind: Literal["layer", "python", "block", "shared", "operation", "index", "weight"]
    # What makes the layer, with the name that is written; for an operation, its function with its arguments;
    # for an index, its parts; for a shared layer, its name.
    call: ir.Call
    inputs: tuple[int, ...]  # the values that it is called on, by their numbers in the body
    outputs: tuple[int, ...]
    sources: int = 0  # how many of the inputs flow in; the others are among the arguments
    given: Mapping[str, Any] = field(factory=dict)  # the arguments of the layer's own call
    name: str = ""  # the name of the layer in Keras if somebody has chosen it, else a word for what it does
    chosen: bool = False
    count: int = 1


@define(eq=False)
class Body:
    """The model, or a `layer` block."""

    name: str
    inputs: dict[int, str]
    nodes: list[Node] = field(factory=list)  # the nodes, each after those that make its inputs
    outputs: list[int] = field(factory=list)
    parameters: tuple[ir.LayerParameter, ...] = ()
    shared: dict[str, ir.Step] = field(factory=dict)  # the layers that are used several times, by their names

    def uses(self) -> dict[int, int]:
        """Return how often each value is used, as an output too."""
        found: dict[int, int] = {}
        for each in [value for node in self.nodes for value in node.inputs] + self.outputs:
            found[each] = found.get(each, 0) + 1
        return found


@define
class Reader:
    """Reads the graph of a model, and gathers what cannot be written."""

    stem: str  # what the names of files beside the spec begin with
    # The bodies of models inside the model, which become `layer` blocks.
    blocks: list[Body] = field(factory=list)
    faults: dict[str, str] = field(factory=dict)  # why a layer cannot be written, by the names of layers
    files: dict[str, str] = field(factory=dict)  # the texts of the files beside the spec, by their names
    _of_model: dict[int, str] = field(factory=dict)
    owners: dict[int, int] = field(factory=dict)  # the model that each layer is in, both by their identity

    def body(self, model: Any, name: str) -> Body:
        """Return the body of a functional or sequential model."""
        inner = functional_of(model)
        return _Scope(self, inner, Body(name, {})).read()

    def block(self, model: Any) -> str:
        """Return the name of the block of a model inside the model, which is read when it is first met."""
        if id(model) not in self._of_model:
            name = free_name(model.name, {each.name for each in self.blocks} | RESERVED)
            self._of_model[id(model)] = name
            self.blocks.append(self.body(model, name))
        return self._of_model[id(model)]

    def with_words(self, call: ir.Call, name: str) -> ir.Call:
        """Return the call of a layer with a name, which reads its vocabulary from a file if that is large."""
        words = call.kwargs.get("vocabulary")
        if not isinstance(words, tuple) or len(words) <= MOST_WORDS:
            return call
        lines = [str(each) for each in words]
        if any("\n" in each or each.endswith("\r") for each in lines):
            raise UnwritableError("a word of its vocabulary has the end of a line in it")
        begin, end = f"{self.stem}.", ".txt"
        known = {each.removeprefix(begin).removesuffix(end) for each in self.files}
        file = f"{begin}{free_name(name, known)}{end}"
        self.files[file] = "".join(f"{each}\n" for each in lines)
        return evolve(call, kwargs={**call.kwargs, "vocabulary": file})


@define
class _Scope:
    """Reads one body."""

    reader: Reader
    model: Any
    body: Body
    _values: dict[int, int] = field(factory=dict)  # by the identity of a KerasTensor
    _kept: list[Any] = field(factory=list)
    _counts: dict[int, int] = field(factory=dict)
    _shared: dict[int, str] = field(factory=dict)

    def read(self) -> Body:
        taken: set[str] = set(RESERVED)
        for tensor in self.model.inputs:
            given = maker_of(tensor)[0].name
            name = free_name("x" if is_automatic(given, "InputLayer") else given, taken)
            self.body.inputs[self._new(tensor)] = name
        order = self._in_order()
        for operation, _ in order:
            self._counts[id(operation)] = self._counts.get(id(operation), 0) + 1
        for operation, node in order:
            try:
                self._add(operation, node)
            except UnwritableError as fault:
                self.reader.faults.setdefault(operation.name, str(fault))
                for tensor in node.outputs:
                    self._new(tensor)
        self.body.outputs += [self._values[id(each)] for each in self._outputs()]
        return self.body

    def _outputs(self) -> list[Any]:
        return [one_of_repeated(each) for each in self.model.outputs]

    def _in_order(self) -> list[tuple[Any, Any]]:
        """Return the calls that the outputs depend on, each after those whose results it takes."""
        found: list[tuple[Any, Any]] = []
        seen: set[int] = set()
        pending = [(tensor, False) for tensor in reversed(self._outputs())]
        while pending:
            tensor, ready = pending.pop()
            if id(tensor) in self._values:
                continue
            operation, node, _ = maker_of(tensor)
            if id(node) in seen:
                continue
            if ready:
                seen.add(id(node))
                found.append((operation, node))
            else:
                pending.append((tensor, True))
                pending += [(each, False) for each in reversed(_tensors(_arguments(operation, node)))]
        return found

    def _new(self, tensor: Any) -> int:
        self._kept.append(tensor)
        return self._values.setdefault(id(tensor), len(self._values))

    def _add(self, operation: Any, node: Any) -> None:
        inputs: list[Any] = []
        dense = plain_weight_of(node.outputs[0])
        if dense is not None:
            made = _weight(dense, operation)
        else:
            made = self._node(operation, _arguments(operation, node), inputs)
        made.inputs = tuple(self._values[id(each)] for each in inputs)
        activation = None if made.kind == "shared" else activation_layer_of(operation)
        if activation is not None:
            made.outputs = (self._new(activation),)
            self.body.nodes.append(made)
            made = Node("layer", call_of(activation, "layer"), made.outputs, (), 1)
        made.outputs = tuple(self._new(each) for each in node.outputs)
        self.body.nodes.append(made)

    def _node(self, operation: Any, arguments: dict[str, Any], inputs: list[Any]) -> Node:
        if not isinstance(operation, keras.Layer):
            return _operation(operation, arguments, inputs)
        sources, given = _sources(operation, arguments)
        inputs += sources
        chosen = not is_automatic(operation.name, type(operation).__name__)
        more = {key: _argument(each, inputs) for key, each in given.items()}
        node = Node("layer", ir.Call(""), (), (), len(sources), more, operation.name, chosen)
        shared = self._counts[id(operation)] > 1
        if id(operation) in self._shared:
            node.kind, node.call = "shared", ir.Call(self._shared[id(operation)])
            return node
        self._own(operation)
        node.kind, node.call = self._made_by(operation if shared else without_activation(operation), chosen)
        if shared:
            blocks = (each.name for each in self.reader.blocks)
            taken = {*self.body.shared, *self.body.inputs.values(), *RESERVED, *blocks}
            name = free_name(operation.name, taken)
            self._shared[id(operation)] = name
            call = node.call
            if call.kwargs.get("name") == name:
                call = ir.Call(call.name, call.args, unnamed(call))
            self.body.shared[name] = ir.Step(node.kind, call)  # type: ignore[arg-type]
            node.kind, node.call = "shared", ir.Call(name)
        return node

    def _own(self, operation: Any) -> None:
        """Note that a layer is in this body. Raises UnwritableError if it is in another one as well."""
        if self.reader.owners.setdefault(id(operation), id(self.model)) != id(self.model):
            raise UnwritableError("it is used in two models, which would have to share its weights")

    def _made_by(self, layer: Any, chosen: bool) -> tuple[Any, ir.Call]:
        named: dict[str, ir.Value] = {"name": layer.name} if chosen else {}
        if functional_of(layer) is not None:
            require_plain(layer, "call")
            name = self.reader.block(layer)
            named = {} if layer.name == name else {"name": layer.name}
            # Keras trains what is trainable in a model that is frozen around it.
            moves = any(each.trainable for each in (layer, *layers_within(layer)))
            frozen = {} if moves else {"trainable": False}
            return "block", ir.Call(name, (), {**named, **frozen})
        call = self.reader.with_words(call_of(layer, "layer"), layer.name)
        kind = "python" if call.name == "python" else "layer"
        return kind, ir.Call(call.name, call.args, {**call.kwargs, **named})


def require_plain(model: Any, *methods: str) -> None:
    """Raise UnwritableError if the class of a model has some methods of its own."""
    for name in methods:
        if not str(inspect.unwrap(getattr(type(model), name)).__module__).startswith("keras."):
            raise UnwritableError(f"its `{name}` is Python code: make a plain `keras.Model` of its layers")


def activation_layer_of(layer: Any) -> Any:
    """Return the layer that another one has as its activation, if it can as well come after that; or None."""
    found = getattr(layer, "activation", None)
    return found if isinstance(layer, _ACTIVATED) and isinstance(found, _ACTIVATIONS) else None


def without_activation(layer: Any) -> Any:
    """Return a layer without the layer that is its activation, or the layer as it is if it has none."""
    if activation_layer_of(layer) is None:
        return layer
    return type(layer).from_config({**layer.get_config(), "activation": None})


def _weight(dense: Any, reshape: Any) -> Node:
    """Return the node of a weight that no layer owns, which a saved model has as a dense layer."""
    call = call_of(dense, "layer")
    kept = {"kernel_initializer": "initializer", "kernel_regularizer": "regularizer"}
    more = {kept[key]: each for key, each in call.kwargs.items() if key in kept}
    if not dense.trainable:
        more["trainable"] = False
    return Node(
        "weight", ir.Call("weight", (tuple(reshape.newshape),), more), (), (), name=dense.name, chosen=True
    )


def _arguments(operation: Any, node: Any) -> dict[str, Any]:
    """Return the arguments of a call by name, without those that Keras fills in by itself."""
    if plain_weight_of(node.outputs[0]) is not None:
        return {}
    # Keras may have added `training`, which not every layer takes that a copy has in the place of another.
    given = {key: each for key, each in node.arguments.kwargs.items() if key != "training"}
    bound = inspect.signature(operation.call).bind_partial(*node.arguments.args, **given)
    found: dict[str, Any] = {}
    for name, each in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        if parameter.kind is parameter.VAR_KEYWORD:
            found |= each
        elif parameter.kind is parameter.VAR_POSITIONAL:
            found[name] = list(each)
        elif each is not None and each is not parameter.default:
            found[name] = each
    if isinstance(operation, keras.Layer):
        found.pop("training", None)  # what a model is called with replaces it
        masks = [get_keras_mask(each) is not None for each in _tensors(found)]
        if "mask" in found and (any(masks[:1]) or len(_tensors(found["mask"])) == sum(masks)):
            del found["mask"]
        for name in ("query", "value", "key"):
            if get_keras_mask(found.get(name)) is not None:  # which Keras has filled in
                found.pop(f"{name}_mask", None)
    return found


def _tensors(value: Any) -> list[Any]:
    """Return the tensors in some arguments, in their order."""
    if isinstance(value, keras.KerasTensor):
        return [one_of_repeated(value)]
    if isinstance(value, Mapping):
        value = value.values()
    elif isinstance(value, slice):
        value = (value.start, value.stop, value.step)
    elif not isinstance(value, list | tuple):
        return []
    return [tensor for each in value for tensor in _tensors(each)]


def _sources(layer: Any, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the tensors that flow into a layer, and the other arguments of its call."""
    parameters = inspect.signature(layer.call).parameters.values()
    needed = [
        each.name for each in parameters if each.default is each.empty and _tensors(arguments.get(each.name))
    ]
    if not needed:
        raise UnwritableError("no tensor flows into it")
    flowing = [arguments.pop(each) for each in needed]
    if len(keras.tree.flatten(flowing)) != len(_tensors(flowing)):
        raise UnwritableError("a number or an array is among the tensors that flow into it")
    inner = functional_of(layer)
    if inner is not None and isinstance(flowing[0], Mapping):
        names = [maker_of(each)[0].name for each in inner.inputs]
        flowing = [flowing[0][each] for each in (names if {*names} == {*flowing[0]} else sorted(flowing[0]))]
    return _tensors(flowing), arguments


def _operation(operation: Any, arguments: dict[str, Any], inputs: list[Any]) -> Node:
    """Return the node of a function of `keras.ops` or of an operator."""
    kind = type(operation).__name__
    if kind == "GetItem":
        key = arguments["key"]
        inputs.append(arguments["x"])
        parts = key if isinstance(key, tuple | list) else (key,)
        return Node(
            "index", ir.Call("getitem", tuple(_part(each, inputs) for each in parts)), (), (), name="part"
        )
    function = _OPERATIONS.get(kind.lower())
    signature = None if function is None else signatures.find("operation", function)
    if function is None or signature is None or not type(operation).__module__.startswith("keras."):
        raise UnwritableError(f"the language has no operation `{kind}`")
    try:
        config = operation.get_config()
    except NotImplementedError:
        config = {
            each.name: getattr(operation, each.name)
            for each in signature.arguments
            if hasattr(operation, each.name)
        }
    given = {**{key: each for key, each in config.items() if key != "name"}, **arguments}
    unknown = [each for each in given if signature.argument(each) is None]
    values: dict[str, Any] = {}
    by_place: list[Any] = []
    if unknown and not (signature.repeating or signature.rest is not None):
        raise UnwritableError(f"`ops.{function}` has no argument `{unknown[0]}`")
    if function == "einsum":
        by_place = [given["subscripts"], *(_argument(each, inputs) for each in given["operands"])]
    else:
        places = True
        for each in signature.arguments:
            if each.name not in given or (not each.required and _same(given[each.name], each.default)):
                places = places and each.required
                continue
            argument = _argument(given[each.name], inputs)
            if places and each.required:
                by_place.append(argument)
            else:
                values[each.name] = argument
    name = function.rpartition(".")[2]
    return Node("operation", ir.Call(function, tuple(by_place), values), (), (), name=name)


def _same(value: Any, default: Any) -> bool:
    return not _tensors(value) and (tuple(value) if isinstance(value, list) else value) == default


def _part(part: Any, inputs: list[Any]) -> Any:
    """Return a part of an index as the language has it."""
    if part is Ellipsis:
        return ir.Rest()
    if isinstance(part, slice):
        return ir.Slice(part.start, part.stop, part.step)
    return _argument(part, inputs)


def _argument(value: Any, inputs: list[Any]) -> Any:
    """Return an argument as the language has it; tensors are added to `inputs`."""
    if isinstance(value, keras.KerasTensor):
        inputs.append(one_of_repeated(value))
        return At(len(inputs) - 1)
    if isinstance(value, list | tuple):
        return tuple(_argument(each, inputs) for each in value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, keras.Variable):
        raise UnwritableError("it works with a weight of a layer: write a layer that does so")
    if hasattr(value, "numpy") or isinstance(value, np.ndarray):
        array = np.asarray(value)
        if array.size > LARGEST_ARRAY:
            raise UnwritableError(f"it works with an array of {array.size:,} numbers")
        listed = value_of(array.tolist())
        return ir.Operation("array", (listed,)) if isinstance(listed, tuple) else listed
    if isinstance(value, dict):
        return value_of(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value_of(value)
    raise UnwritableError(f"an argument of type `{type(value).__name__}` has no notation")


def unnamed(call: ir.Call) -> dict[str, ir.Value]:
    """Return the arguments of a call that are given by name, but for the name of the layer."""
    return {key: each for key, each in call.kwargs.items() if key != "name"}


def free_name(wanted: str, taken: set[str]) -> str:
    """Return a name of the language like another one, and take it."""
    stem = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "x"
    stem = f"x{stem}" if stem[0].isdigit() else stem
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    taken.add(name)
    return name


def inputs_of(operation: Any, node: Any) -> list[Any]:
    """Return the tensors that a call takes in a spec, in the order in which the spec has them."""
    inputs: list[Any] = []
    arguments = _arguments(operation, node)
    if not arguments:
        return inputs
    if not isinstance(operation, keras.Layer):
        _operation(operation, arguments, inputs)
        return inputs
    sources, given = _sources(operation, arguments)
    return [*sources, *_tensors(given)]
