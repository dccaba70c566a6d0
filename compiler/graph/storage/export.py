"""The trained model as an ordinary Keras model, without clones and devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from attrs import frozen

from compiler.figures import distinct
from compiler.graph.adapters.keras_private import operations_before
from compiler.graph.compiled import CompiledGraph
from compiler.graph.tower.network.keras_scope import own_names, stateless
from compiler.graph.tower.network.network import Network, flattened
from compiler.graph.tower.network.operations import FreeWeight, Operation, PlainExamples, PlainWeight
from compiler.graph.tower.network.precision import keras_settings
from compiler.graph.tower.trace import SEED_STATE, Tracer
from compiler.graph.user_code import plain_message
from compiler.model.graph import LayerNode, ModelGraph
from dsl.diagnostics import RunError, SpecError
from dsl.errors import plan as errors
from dsl.source import Span


@frozen
class PlainModel:
    """A functional Keras model."""

    model: keras.Model
    variables: Mapping[str, Any]  # its variables by the names of the weights in `CompiledGraph.weights`
    layers: Sequence[Any]  # what each layer of the spec's model has become, in their order


def keras_model(compiled: CompiledGraph, values: Mapping[str, np.ndarray], *, base: str = ".") -> keras.Model:
    """Return a functional Keras model from the inputs that the outputs need to the outputs.

    Layers that only a loss uses are left out.
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
        whole: Whether to keep layers that only a loss or a metric uses. The model then has several outputs.
        uncreated: Whether no variable has a value, so that none takes memory.
    """
    graph = compiled.plan.model
    policy = keras_settings(compiled.plan.update.precision)
    values = stateless() if uncreated else nullcontext()
    with values, tf.init_scope(), tf.device("CPU:0"), policy, own_names():
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

        @cache
        def examples() -> PlainExamples:
            return PlainExamples(tensors[graph.prediction_inputs[0].value])

        @cache
        def repeated(value: int) -> Any:
            return examples().repeated(tensors[value])

        for call in graph.calls:
            if not needed.isdisjoint(call.values):
                layer = network.layers[call.layer]
                with saving(graph.layers[call.layer], call.span):
                    if isinstance(layer, PlainWeight):
                        made = layer(examples().one)
                    else:
                        made = network.apply(call, network.gathered(call, tensors, repeated))
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
        with saving(graph, compiled.plan.spec.model.span):
            _give_distinct_names(network, inputs, tf.nest.flatten(outputs))
            model = keras.Model(inputs if len(inputs) > 1 else inputs[0], outputs, name=_name(graph.name))
        return PlainModel(model, _variables(network, compiled), network.layers)


@contextmanager
def saving(what: LayerNode | ModelGraph, span: Span | None) -> Iterator[None]:
    """Raise SpecError if Keras, or code of the user's, fails inside, so that a model cannot be saved."""
    try:
        yield
    except (SpecError, RunError, MemoryError):
        raise
    except Exception as fault:
        name, own = (what.label, what.kind == "python") if isinstance(what, LayerNode) else (what.name, False)
        raise SpecError([errors.cannot_be_saved(span, what=name, reason=_reason(fault), own=own)]) from fault


def _reason(fault: Exception) -> str:
    """Return why Keras cannot save or load: the first sentence after what it says of all such errors."""
    last = str(fault).rpartition("Exception encountered: ")[2]
    paragraphs = [plain_message(Exception(" ".join(each.split()))) for each in last.split("\n\n")]
    first = next((each for each in paragraphs if each), type(fault).__name__)
    return first.split(". ")[0].removesuffix(".")


def _give_distinct_names(network: Network, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Number the names of operations, also of those of masks, that are those of layers or inputs."""
    layers = [each.dense if isinstance(each, PlainWeight) else each for each in network.layers]
    kept = {id(each) for each in (*layers, *operations_before(inputs))}
    made = operations_before(outputs)
    taken = {each.name for each in (*layers, *operations_before(inputs)) if not isinstance(each, Operation)}
    for operation in made:
        if id(operation) not in kept:
            operation.name = distinct(operation.name, taken)
            taken.add(operation.name)


def _variables(network: Network, compiled: CompiledGraph) -> dict[str, Any]:
    """Return every variable of the layers in use, under the name that the tracer gives it."""
    tracer = Tracer(compiled.plan.model, compiled.seed, freeze=compiled.plan.update.freeze or ())
    found: dict[str, Any] = {}
    for node, layer in zip(network.model.layers, network.layers, strict=True):
        if isinstance(layer, PlainWeight):
            found |= {f"{node.path}/weight": each for each in layer.dense.variables}
        elif node.kind != "operation" and layer.built:
            for variable in layer.variables:
                if variable.name != SEED_STATE:
                    found[tracer.register(variable, node, layer).name] = variable
            tracer.frozen(layer)
    return found


def _name(name: str) -> str:
    """Return a name that Keras accepts for a model."""
    return name.replace("/", "_") or "model"


def final_weights(compiled: CompiledGraph, read: Any) -> dict[str, np.ndarray]:
    """Return the weights that evaluation uses: their averages if there are any."""
    names = evaluated_names(compiled)
    found: Mapping[str, np.ndarray] = read(list(names.values()))
    return {name: found[saved] for name, saved in names.items()}


def evaluated_names(compiled: CompiledGraph) -> dict[str, str]:
    """Return what evaluation uses for each weight, as a name of `CompiledGraph.saved`."""
    averages = {name: f"{name}/ExponentialMovingAverage" for name in compiled.weights}
    return {name: each if each in compiled.saved else name for name, each in averages.items()}
