"""The Keras objects of a model: layers, losses and metrics, made from the calls of the spec."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import keras
import tensorflow as tf
from attrs import define, evolve, field, frozen

from compiler.graph.adapters.keras_private import (
    Functional,
    build_of_shapes,
    file_utils,
    get_keras_mask,
    is_built,
    operation_of,
    set_keras_mask,
)
from compiler.graph.kept_tensors import discarded_graph, made_apart, without_tensors
from compiler.graph.tower.network.keras_scope import replaced, stateless
from compiler.graph.tower.network.lookups import LOOKUPS
from compiler.graph.tower.network.normalization import TOWER_CLASSES, with_tower_layers
from compiler.graph.tower.network.operations import JOINING, FreeWeight, Operation
from compiler.graph.tower.network.own_objects import make_own
from compiler.graph.user_code import plain_message
from compiler.model.graph import Argument, CallNode, IndexSlice, LayerNode, ModelGraph, TensorAt
from dsl import ir
from dsl.diagnostics import SpecError
from dsl.errors import plan as errors
from dsl.schema import signatures

_NAMESPACES: dict[str, tuple[Any, ...]] = {
    "layer": (keras.layers,),
    "loss": (keras.losses,),
    "metric": (keras.metrics,),
    "schedule": (keras.optimizers.schedules,),
    "regularizer": (keras.regularizers,),
    "initializer": (keras.initializers,),
    "constraint": (keras.constraints,),
}
_ANY = (
    keras.layers,
    keras.initializers,
    keras.regularizers,
    keras.constraints,
    keras.optimizers.schedules,
    keras.dtype_policies,
)
Classes: TypeAlias = Mapping[Any, Callable[..., keras.Layer]]  # Keras's class -> what is called instead

_KERAS: Classes = {}
_TOWERS: Classes = {**TOWER_CLASSES, **LOOKUPS}
_OF_WEIGHTS: tuple[signatures.Category, ...] = ("initializer", "regularizer", "constraint")
_NAMED_BY_KERAS = "EfficientNetV2"  # these look up what they are made of by their own name


def make(
    call: ir.Call,
    category: Literal["layer", "loss", "metric", "schedule", "regularizer"],
    *,
    base: str = ".",
    **more: Any,
) -> Any:
    """Return the Keras object that a call describes, or that a function of the user's makes.

    Args:
        more: Arguments that the spec does not write.

    Raises:
        SpecError: Keras refuses the arguments.
    """
    return made_apart(lambda: _Maker(base).made(call, category, more))


@frozen
class _Maker:
    """Makes Keras objects."""

    base: str = "."
    classes: Classes = _KERAS  # the classes to use in the stead of some of Keras

    def made(self, call: ir.Call, category: str, more: Mapping[str, Any]) -> Any:
        """Return the object of a call; `category` is empty if any object may be there."""
        category = category or ("" if call.name == "python" else _category_of(call.name))
        if category == "activation" and call.name != "python":
            return self.constructed(call, category, partial(activation_of, call.name), {})
        if call.name == "python":
            kwargs = {key: self._argument(value, "") for key, value in call.kwargs.items()}
            return make_own(call, category, kwargs, self.base)
        return self.constructed(call, category, _find(call.name, _NAMESPACES.get(category, _ANY)), more)

    def constructed(
        self, call: ir.Call, category: str, maker: Callable[..., Any], more: Mapping[str, Any]
    ) -> Any:
        """Return what `maker` makes from the arguments of a call."""
        signature = (
            signatures.find(category, call.name.rpartition(".")[2])
            if category in signatures.CATEGORIES
            else None
        )
        names = [] if signature is None else [each.name for each in signature.positional]
        kinds = {} if signature is None else {each.name: each.category for each in signature.arguments}
        if category == "weight":
            kinds.update(zip(_OF_WEIGHTS, _OF_WEIGHTS, strict=True))
        names += [""] * (len(call.args) - len(names))
        args = [
            self._argument(each, kinds.get(name, "")) for each, name in zip(call.args, names, strict=False)
        ]
        kwargs = {key: self._argument(value, kinds.get(key, "")) for key, value in call.kwargs.items()}
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if isinstance(given.get("ngrams"), list):  # of which Keras takes no list
            args, kwargs = [], {**given, "ngrams": tuple(given["ngrams"])}
        return _called(call, self.classes.get(maker, maker), args, {**kwargs, **more})

    def _argument(self, value: ir.Value, category: str) -> Any:
        if isinstance(value, ir.Call):
            return self.made(value, category, {})
        if isinstance(value, tuple):
            return [self._argument(each, category) for each in value]
        return value


def _called(call: ir.Call, maker: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        return maker(*args, **kwargs)
    except (ArithmeticError, AttributeError, ImportError, LookupError, TypeError, ValueError) as fault:
        raise SpecError(
            [errors.layer_cannot_be_made(call.span, step=call.name, reason=first_sentence(fault))]
        ) from fault


def _category_of(name: str) -> str:
    """Return the first category that has an object of this name."""
    return next((each for each in signatures.CATEGORIES if signatures.find(each, name) is not None), "")


def _find(name: str, namespaces: tuple[Any, ...]) -> Callable[..., Any]:
    for namespace in namespaces:
        found = getattr(namespace, name.rpartition(".")[2], None)
        if callable(found):
            return found
    raise LookupError(f"Keras has no {name}")


def first_sentence(fault: Exception) -> str:
    """Return the message of an error of Keras on one line, without the list of arguments that follows it.

    An error inside a layer's call has its message in bold type, after a line that names the call.
    """
    text = plain_message(fault) or type(fault).__name__
    return text.split(". ")[0].split(" for '{{node ")[0].removesuffix(".")


def metric_for(call: ir.Call, target: Any, prediction: Any, base: str = ".") -> Any:
    """Return the Keras metric of a call, with its variables.

    Some metrics make their variables when they see the first batch. They are called on placeholders in a
    graph that is discarded.
    """
    metric = make(call, "metric", base=base)
    if not is_built(metric):
        with stateless(), discarded_graph() as apart:
            twins = [tf.compat.v1.placeholder(each.dtype, each.shape) for each in (target, prediction)]
            metric.update_state(*twins)
            without_tensors(metric, apart)
    return metric


@define
class Network:
    """The layers of a model, one Keras object each. A layer is built at its first call."""

    model: ModelGraph
    layers: list[Any] = field(repr=False)  # a Keras layer, or an Operation

    @classmethod
    def of(cls, model: ModelGraph, *, base: str = ".", towers: bool = False) -> Network:
        """Make the layers of a model.

        Args:
            towers: Whether to use the layers of `normalization`, and not only those of Keras.
        """
        network = cls(model, [make_layer(node, base, towers=towers) for node in model.layers])
        for node, layer in zip(model.layers, network.layers, strict=True):
            if node.frozen:
                layer.trainable = False
        return network

    def repeated(self, call: CallNode, tensors: Mapping[int, Any]) -> set[int]:
        """Return the places of those inputs of a call that it gets once for each example.

        They are made of free weights, and have no batch axis. A layer gets all of them so, because it works
        on examples, and a function that joins tensors those that only lack the batch axis. All else means
        what it means in Keras.
        """
        of_weights = {at for at, value in enumerate(call.inputs) if value in self.model.of_weights}
        layer = self.layers[call.layer]
        if not isinstance(layer, Operation):
            return of_weights
        if layer.function not in JOINING:
            return set()
        ranks = [len(tensors[each].shape) for each in call.inputs]
        alone = self.model.without_examples
        of_examples = {rank for rank, value in zip(ranks, call.inputs, strict=True) if value not in alone}
        return {at for at in of_weights if {ranks[at] + 1} == of_examples}

    def gathered(self, call: CallNode, tensors: Mapping[int, Any], repeat: Callable[[int], Any]) -> list[Any]:
        """Return the tensors that a call gets."""
        repeated = self.repeated(call, tensors)
        return [repeat(each) if at in repeated else tensors[each] for at, each in enumerate(call.inputs)]

    def apply(self, call: CallNode, values: list[Any], **arguments: Any) -> Any:
        """Call the layer of `call` on tensors.

        Args:
            values: The tensors of `call.inputs`, as `gathered` returns them.
            arguments: Arguments such as `training`, which are passed if the layer takes them and the spec
                does not give them itself.

        Returns:
            What the layer or the operation gives: a tensor, or a list or tuple of them.
        """
        layer = self.layers[call.layer]
        if isinstance(layer, Operation):
            named = {key: filled(each, values) for key, each in call.kwargs.items()}
            return layer(*(filled(each, values) for each in call.args), **named)
        positional, named = self._arguments(call, values, arguments)
        with _masks_kept(values):
            return layer(*positional, **named)

    def build(self, call: CallNode, values: list[Any], **arguments: Any) -> bool:
        """Make the variables of the layer of `call` of the shapes of tensors; return whether it is built."""
        return build_of_shapes(self.layers[call.layer], *self._arguments(call, values, arguments))

    def _arguments(
        self, call: CallNode, values: list[Any], arguments: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of a call of a layer by position, and by name."""
        layer = self.layers[call.layer]
        named = {key: filled(each, values) for key, each in call.kwargs.items()}
        taken = {key: value for key, value in arguments.items() if takes(layer, key)}
        return spread(layer, values[: call.sources]), taken | named


@contextmanager
def _masks_kept(values: Sequence[Any]) -> Iterator[None]:
    """Leave tensors their masks, which attention takes off its arguments, and other layers may need."""
    masks = [(each, get_keras_mask(each)) for each in values]
    yield
    for tensor, mask in masks:
        if mask is not None:
            set_keras_mask(tensor, mask)


def flattened(made: Any) -> list[Any]:
    """Return the tensors that a layer gives, those of a dictionary in the order of their keys in it."""
    if isinstance(made, dict):
        return [each for value in made.values() for each in flattened(value)]
    if isinstance(made, tuple | list):
        return [each for value in made for each in flattened(value)]
    return [made]


def filled(argument: Argument, values: Sequence[Any]) -> Any:
    """Return an argument of a call with the tensors that it stands for."""
    if isinstance(argument, TensorAt):
        return values[argument.number]
    if isinstance(argument, IndexSlice):
        return slice(argument.first, argument.last, argument.step)
    if isinstance(argument, tuple):
        return [filled(each, values) for each in argument]
    return argument


def spread(layer: keras.Layer, values: list[Any]) -> list[Any]:
    """Return the positional arguments for a call: one tensor, a list of them, or several arguments.

    Merging layers have one list as their argument (`Add`), attention has several (`MultiHeadAttention`), and
    a model made from a dictionary of inputs has a dictionary, in whose order the tensors are given.
    """
    if isinstance(layer, Functional) and isinstance(layer.input, dict):
        return [dict(zip(layer.input, values, strict=False))]
    if len(values) == 1:
        return values
    parameters = list(inspect.signature(layer.call).parameters.values())
    required = [
        each for each in parameters if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    return values if len(required) > 1 else [values]


def takes(layer: keras.Layer, argument: str) -> bool:
    """Whether the layer's `call` has an argument of that name."""
    return argument in inspect.signature(layer.call).parameters


def make_layer(node: LayerNode, base: str, *, read: bool = False, towers: bool = False) -> Any:
    """Return the Keras layer or model of a step, or its Operation.

    Args:
        read: Whether to read the trained weights of a model that is to have some. The model is the same
            without them.
        towers: Whether to use the layers of `normalization`, and not only those of Keras.
    """
    more: dict[str, Any] = {"name": node.keras_name}
    if node.kind == "operation":
        return Operation(node.call.name, node.keras_name)
    if node.kind not in ("python", "application"):
        maker = FreeWeight if node.kind == "weight" else _find(node.call.name, (keras.layers,))
        category = "weight" if node.kind == "weight" else "layer"
        return _Maker(base, _TOWERS if towers else _KERAS).constructed(node.call, category, maker, more)
    layer = (
        _Maker(base).made(node.call, "layer", {})
        if node.kind == "python"
        else _application(node, base, more, read=read)
    )
    if towers:
        layer = with_tower_layers(layer)
    layer.name = node.keras_name
    return layer


def _application(node: LayerNode, base: str, more: dict[str, Any], *, read: bool) -> keras.Model:
    named = node.call.name.rpartition(".")[2].startswith(_NAMED_BY_KERAS)
    with nullcontext() if read else _reading_no_weights():
        maker = _find(node.call.name, (keras.applications,))
        return _Maker(base).constructed(_beside(node.call, base), "application", maker, {} if named else more)


def _beside(call: ir.Call, base: str) -> ir.Call:
    """Return the call with its file of weights, if there is one, found from the folder of the spec."""
    weights = call.kwargs.get("weights")
    path = Path(base) / weights if isinstance(weights, str) else None
    if path is None or not path.is_file():
        return call
    return evolve(call, kwargs={**call.kwargs, "weights": str(path.absolute())})


@contextmanager
def _reading_no_weights() -> Iterator[None]:
    """Let Keras make a model without downloading and reading its weights.

    The layers of some models depend on whether there are weights, so the argument is not simply left out.
    """
    with (
        replaced(file_utils, "get_file", lambda *_, **__: ""),
        replaced(keras.Model, "load_weights", lambda *_, **__: None),
    ):
        yield


_LAYERS: Mapping[str, Callable[..., Any]] = {"relu": keras.layers.ReLU, "softmax": keras.layers.Softmax}
"""Activations whose function in `keras.ops` takes fewer arguments, or does less, than their layer."""


def activation_of(name: str, *args: Any, **kwargs: Any) -> Any:
    """Return the activation that a call such as `leaky_relu(negative_slope = 0.1)` describes.

    Returns:
        The name if there are no arguments, else an operation or a layer of Keras, to call on a tensor.

    Raises:
        TypeError: Keras takes no such arguments.
        ValueError: Keras refuses one of them.
    """
    signature = signatures.find("activation", name)
    assert signature is not None, f"{name} is in the table"
    if not args and not kwargs:
        return signature.name
    given = dict(zip((each.name for each in signature.positional), args, strict=False)) | kwargs
    if signature.name in _LAYERS:
        return _LAYERS[signature.name](**given)
    # functions of `keras.ops` have other defaults
    defaults = {each.name: each.default for each in signature.arguments}
    return operation_of(getattr(keras.ops, signature.name), **(defaults | given))
