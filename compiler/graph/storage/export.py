"""The trained model as an ordinary Keras model, without clones and devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from attrs import frozen

from compiler.graph.tower.network.keras_scope import names_beside, own_names, stateless
from compiler.graph.tower.network.network import Network, flattened
from compiler.graph.tower.network.operations import FreeWeight, PlainExamples, PlainWeight
from compiler.graph.tower.network.precision import dtype_policy
from compiler.graph.tower.trace import SEED_STATE, Tracer

if TYPE_CHECKING:
    import numpy as np

    from compiler.graph.compiled import CompiledGraph


@frozen
class PlainModel:
    """A functional Keras model.

    Attributes:
        model: The model.
        variables: Its variables by the names of the weights in `CompiledGraph.weights`.
    """

    model: keras.Model
    variables: Mapping[str, Any]


def keras_model(compiled: CompiledGraph, values: Mapping[str, np.ndarray], *, base: str = ".") -> keras.Model:
    """Return a functional Keras model from the inputs that the outputs need to the outputs.

    Layers that only a loss uses are left out.

    Args:
        compiled: The graph.
        values: The values of the weights by their names in `CompiledGraph.weights`.
        base: The folder in which `python(...)` looks for modules first.
    """
    plain = plain_model(compiled, base=base)
    with tf.init_scope():
        for name, variable in plain.variables.items():
            variable.assign(values[name].reshape(variable.shape))
    return plain.model


def plain_model(
    compiled: CompiledGraph, *, base: str = ".", whole: bool = False, uncreated: bool = False
) -> PlainModel:
    """Return the model as `keras_model` does, with weights as Keras initialises them.

    Args:
        compiled: The graph.
        base: The folder in which `python(...)` looks for modules first.
        whole: Whether to keep layers that only a loss or a metric uses. The model then has several outputs.
        uncreated: Whether no variable has a value, so that none takes memory.
    """
    with stateless() if uncreated else nullcontext():
        return _plain_model(compiled, base, whole=whole)


def _plain_model(compiled: CompiledGraph, base: str, *, whole: bool) -> PlainModel:
    graph = compiled.plan.model
    policy = dtype_policy(compiled.plan.update.precision)
    with tf.init_scope(), tf.device("CPU:0"), policy, own_names():
        network = Network.of(graph, base=base)
        network.layers = [
            PlainWeight(each) if isinstance(each, FreeWeight) else each for each in network.layers
        ]
        tensors = {
            each.value: keras.Input(each.shape, dtype=each.dtype, name=each.name)
            for each in (graph.inputs if whole else graph.prediction_inputs)
        }
        inputs = list(tensors.values())
        needed = set(range(len(graph.names))) if whole else graph.values_of_outputs
        taken = names_beside([*(each.name for each in graph.inputs), *_layer_names(network)])

        @cache
        def examples() -> PlainExamples:
            with own_names(taken):
                return PlainExamples(tensors[graph.prediction_inputs[0].value])

        @cache
        def repeated(value: int) -> Any:
            plain = examples()
            with own_names(taken):
                return plain.repeated(tensors[value])

        for call in graph.calls:
            if not needed.isdisjoint(call.values):
                layer = network.layers[call.layer]
                is_weight = isinstance(layer, PlainWeight)
                values = [examples().one] if is_weight else network.gathered(call, tensors, repeated)
                with nullcontext() if isinstance(layer, keras.layers.Layer) else own_names(taken):
                    made = layer(*values) if is_weight else network.apply(call, values)
                tensors |= zip(call.values, flattened(made), strict=True)
        outputs = (
            [each for each in tensors.values() if isinstance(each, keras.KerasTensor)]
            if whole
            else graph.returned(
                [
                    repeated(each.value) if each.value in graph.of_weights else tensors[each.value]
                    for each in graph.outputs
                ]
            )
        )
        model = keras.Model(inputs if len(inputs) > 1 else inputs[0], outputs, name=_name(graph.name))
        return PlainModel(model, _variables(network, compiled))


def _variables(network: Network, compiled: CompiledGraph) -> dict[str, Any]:
    """Return every variable of the layers in use, under the name that the tracer gives it."""
    tracer = Tracer(compiled.plan.model, compiled.seed, freeze=compiled.plan.update.freeze or ())
    found: dict[str, Any] = {}
    for node, layer in zip(network.model.layers, network.layers, strict=True):
        if isinstance(layer, PlainWeight):
            found |= {f"{node.path}/weight": each for each in layer.dense.variables}
            continue
        for variable in layer.variables if node.kind != "operation" and layer.built else ():
            if variable.name != SEED_STATE:
                found[tracer.register(variable, node, layer).name] = variable
        if node.kind != "operation" and layer.built:
            tracer.frozen(layer)
    return found


def _layer_names(network: Network) -> Iterator[str]:
    """Give the names of the layers, which no operation of the same model may have."""
    for layer in network.layers:
        if isinstance(layer, keras.layers.Layer | PlainWeight):
            yield (layer.dense if isinstance(layer, PlainWeight) else layer).name


def _name(name: str) -> str:
    """Return a name that Keras accepts for a model."""
    return name.replace("/", "_") or "model"


def final_weights(compiled: CompiledGraph, read: Any) -> dict[str, np.ndarray]:
    """Return the weights that evaluation uses: their averages if there are any, else the weights themselves.

    Args:
        compiled: The graph.
        read: Maps a list of names of `CompiledGraph.saved` to their values.
    """
    names = evaluated_names(compiled)
    found: Mapping[str, np.ndarray] = read(list(names.values()))
    return {name: found[saved] for name, saved in names.items()}


def evaluated_names(compiled: CompiledGraph) -> dict[str, str]:
    """Return what evaluation uses for each weight, as a name of `CompiledGraph.saved`."""
    averages = {name: f"{name}/ExponentialMovingAverage" for name in compiled.weights}
    return {name: each if each in compiled.saved else name for name, each in averages.items()}
