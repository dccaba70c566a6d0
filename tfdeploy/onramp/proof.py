"""The proof: the written spec gives what the model gives, before and after a step of training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from attrs import evolve, frozen

from compiler.graph.adapters.keras_private import functional_of, maker_of
from compiler.graph.storage.export import plain_model
from compiler.graph.storage.weight_files import read_weights
from compiler.graph.tower.network.operations import one_of_repeated, plain_weight_of
from compiler.graph.tower.network.precision import dtype_policy
from compiler.graph.tower.traces import Traces
from compiler.model.graph import ModelGraph
from dsl import ir
from tfdeploy.onramp.graph import inputs_of
from tfdeploy.onramp.training import objects_of
from tfdeploy.onramp.writing import Draft
from tfdeploy.runtime.verify.compare import Differences, Trajectory, compare, spread
from tfdeploy.runtime.verify.examples import ARGUMENTS, AUGMENTATIONS, RATES, make_examples
from tfdeploy.runtime.verify.session import ROUNDING, TOLERANCES
from tfdeploy.runtime.verify.trial import Trial, TrialSetup

BATCH = 2
SEED = 1
SHIFTED = 2
"""How many more steps of the model, from weights that rounding has changed, show what rounding moves."""


class DifferentError(Exception):
    """The spec is not the model; the message says what differs."""


@frozen
class Proof:
    """What was compared.

    Attributes:
        outputs: The largest difference of an output, relative to the largest number of that output.
        step: The differences after a step of training.
        weights: How many weights were compared.
    """

    outputs: float
    step: Differences
    weights: int

    @property
    def largest(self) -> float:
        """The largest difference of all."""
        return max(self.outputs, self.step.largest)


def prove(
    spec: ir.Spec, made: Draft, model: Any, config: Mapping[str, Any], base: Path, weights: Path
) -> Proof:
    """Compare a spec with its model, and write the model's weights as the spec names them.

    Args:
        spec: The spec, as it was read from its text.
        made: What the text was made from.
        model: The Keras model. It is not changed.
        config: What `compile` was given.
        base: The folder in which `python(...)` looks for modules first.
        weights: The file of weights to write.

    Raises:
        DifferentError: The spec and the model differ.
        SpecError: The spec cannot be compiled.
    """
    trained = _trained(spec, model)
    setup = TrialSetup(Traces(str(base)), SEED, {})
    compiled = setup.compile(trained)
    graph = compiled.plan.model
    variables = _variables(compiled, graph, model, base)
    values = _values(variables, compiled)
    plain = plain_model(compiled, base=str(base), whole=True)
    for name, variable in plain.variables.items():
        variable.assign(values[name].reshape(variable.shape))
    plain.model.save_weights(weights)
    if read_weights(compiled, weights, None, base=str(base)).keys() != values.keys():
        raise DifferentError("the file of weights lacks some of them")
    classes = {
        name: int(each.kwargs["classes"])  # type: ignore[arg-type] # a number
        for name, each in made.examples.items()
        if "classes" in each.kwargs
    }
    arrays = make_examples(graph, classes, BATCH, SEED)
    for each in graph.inputs:
        if each.dtype == "string":
            arrays[each.name] = np.char.mod("word %.1f", arrays[each.name]).astype(object)
    tolerance = TOLERANCES[spec.update.precision]
    with Trial(evolve(setup, arrays=arrays, start=values), trained) as trial:
        trial.fed.evaluate_on(trial.session, arrays)
        given = trial.compiled.evaluation.outputs
        found = trial.session.run(list(given.values()) if isinstance(given, dict) else [given])
        loss, after = trial.step(), trial.values()
    steps = _KerasSteps(model, config, made, graph, arrays, compiled, base)
    outputs = _largest(found, steps.outputs(values))
    if not outputs <= tolerance:
        raise DifferentError(f"the outputs differ by {outputs:.1e} of their size")
    ours = Trajectory((loss,), {**{name: after[name] for name in values}, "global_step": 0})
    theirs = steps.trained(values)
    step = compare(ours, theirs, list(values))
    if not step.largest <= tolerance:
        generator, most = np.random.default_rng(SEED), ROUNDING[spec.update.precision]
        shifted = [
            steps.trained({name: _shifted(each, generator, most) for name, each in values.items()})
            for _ in range(SHIFTED)
        ]
        step = compare(ours, theirs, list(values), spread([theirs, *shifted]), tolerance)
    if not step.largest <= tolerance:
        raise DifferentError(f"after a step of training, `{step.worst}` differs by {step.largest:.1e}")
    return Proof(outputs, step, len(values))


def _trained(spec: ir.Spec, model: Any) -> ir.Spec:
    """Return the spec with one clone on one device, and with a loss and an optimizer if it has none."""
    update = evolve(spec.update, accumulate=1, ema=None)
    if update.optimizer is None:
        update = evolve(update, optimizer=ir.Call("SGD", (0.01,)))
    described = spec.model
    if not described.loss:
        outputs = described.returned
        labels = tuple(
            ir.Binding(f"proof_{at}", ir.Input("float32", tuple(each.shape[1:])))
            for at, each in enumerate(model.outputs)
        )
        terms = tuple(
            ir.LossTerm(ir.Objective(ir.Ref(label.name), output, ir.Call("MeanSquaredError")))
            for label, output in zip(labels, outputs, strict=True)
        )
        described = evolve(described, bindings=(*labels, *described.bindings), loss=terms)
    return evolve(
        spec,
        model=evolve(described, metrics=()),
        data=None,
        devices=ir.Devices(cpu=1),
        clones=ir.Clones(count=1, batch=BATCH),
        place=ir.Place(),
        update=update,
        train=ir.Train(),
    )


def _variables(compiled: Any, graph: ModelGraph, model: Any, base: Path) -> dict[str, Any]:
    """Return the variable of the model for each weight of the spec, by its name."""
    plain = plain_model(compiled, base=str(base), whole=True, uncreated=True)
    names = {id(variable): name for name, variable in plain.variables.items()}
    layers = dict(_pairs(graph, model))
    found: dict[str, Any] = {}
    for at, made in enumerate(plain.layers):
        layer = getattr(made, "dense", made)  # of a free weight
        wanted = [each for each in getattr(layer, "variables", ()) if id(each) in names]
        if not wanted:
            continue
        theirs = [each for each in layers[at].variables if "seed" not in each.path.rpartition("/")[2]]
        if [tuple(each.shape) for each in wanted] != [tuple(each.shape) for each in theirs]:
            raise DifferentError(f"`{layers[at].name}` has weights of other shapes in the spec")
        found |= {names[id(ours)]: each for ours, each in zip(wanted, theirs, strict=True)}
    return found


def _values(variables: Mapping[str, Any], compiled: Any) -> dict[str, Any]:
    """Return the values of variables of the model in the shapes of the weights of the spec."""
    return {name: np.asarray(each).reshape(compiled.weights[name].shape) for name, each in variables.items()}


def _pairs(graph: ModelGraph, model: Any) -> Iterator[tuple[int, Any]]:
    """Yield each layer of the spec's graph, by its number, with that of the model which is in its place."""
    made_by = {value: call for call in graph.calls for value in call.values}
    outputs = [(each, None) for each in functional_of(model).outputs]
    pending: list[Any] = list(zip([each.value for each in graph.outputs], outputs, strict=True))
    seen: set[int] = set()
    while pending:
        value, (tensor, scope) = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        tensor, scope = _outside(tensor, scope)
        if value not in made_by:
            continue
        call = made_by[value]
        operation, node, _ = maker_of(tensor)
        inputs = inputs_of(operation, node)
        if graph.layers[call.layer].kind == "weight":
            yield call.layer, plain_weight_of(tensor)
            continue
        yield call.layer, operation
        ours = [each for each in call.inputs if each not in graph.constants]
        if len(inputs) != len(ours):
            raise DifferentError(f"`{operation.name}` has {len(inputs)} inputs, and {len(ours)} in the spec")
        pending += zip(ours, [(each, scope) for each in inputs], strict=True)


def _outside(tensor: Any, scope: Any) -> tuple[Any, Any]:
    """Return the tensor that a layer makes which is no model, for one that a model inside the model makes.

    Args:
        tensor: The tensor.
        scope: What the inputs of the model around it stand for; None for those of the whole model.
    """
    while True:
        tensor = one_of_repeated(tensor)
        if scope is not None and id(tensor) in scope:
            tensor, scope = scope[id(tensor)]
            continue
        operation, node, number = maker_of(tensor)
        inner = functional_of(operation)
        if inner is None:
            return tensor, scope
        given = inputs_of(operation, node)
        outer = scope
        scope = {id(each): (made, outer) for each, made in zip(inner.inputs, given, strict=True)}
        tensor = inner.outputs[number]


@frozen
class _KerasSteps:
    """Calls the model, and trains copies of it for a step, as Keras does."""

    model: Any
    config: Mapping[str, Any]
    made: Draft
    graph: ModelGraph
    arrays: Mapping[str, Any]
    compiled: Any
    base: Path

    def _copy(self, values: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return a copy of the model without random numbers, and its variables by their names in the spec."""
        inner = functional_of(self.model)
        uncompiled = keras.Model(inner.inputs, inner.outputs)  # else the copy is compiled, from descriptions
        with dtype_policy(self.made.precision):
            copy = keras.models.clone_model(uncompiled, clone_function=_without_randomness, recursive=True)
        variables = _variables(self.compiled, self.graph, copy, self.base)
        for name, variable in variables.items():
            variable.assign(values[name].reshape(variable.shape))
        return copy, variables

    def _fed(self) -> Any:
        fed = [self.arrays[each] for each in self.made.body.inputs.values()]
        return fed if len(fed) > 1 else fed[0]

    def outputs(self, values: Mapping[str, Any]) -> list[Any]:
        """Return the outputs for some values of the weights."""
        copy, _ = self._copy(values)
        inner = functional_of(copy)
        around = keras.Model(inner.inputs if len(inner.inputs) > 1 else inner.inputs[0], inner.outputs)
        return [np.asarray(each) for each in keras.tree.flatten(around(self._fed(), training=False))]

    def trained(self, values: Mapping[str, Any]) -> Trajectory:
        """Return the loss and the weights after one step."""
        copy, variables = self._copy(values)
        inner = functional_of(copy)
        around = keras.Model(inner.inputs if len(inner.inputs) > 1 else inner.inputs[0], inner.outputs)
        given = {**self.config} if self.made.training.loss else {}
        losses, weights = given.get("loss"), given.get("loss_weights")
        optimizer = keras.optimizers.SGD(0.01)
        if given.get("optimizer") is not None:
            optimizer = _plain_optimizer(given["optimizer"])
        if losses is None:
            losses = ["mean_squared_error"] * len(copy.outputs)
        if isinstance(losses, dict) and "class_name" not in losses:
            losses, weights = (
                [losses.get(each) for each in functional_of(self.model).output_names],
                _listed(weights, self.model),
            )
        around.compile(optimizer, objects_of(losses, keras.losses.get), loss_weights=weights)
        labels = [each.name for each in self.graph.inputs if each.name not in self.made.body.inputs.values()]
        targets = iter([self.arrays[each] for each in labels])
        wanted = losses if isinstance(losses, list) else [losses] * len(copy.outputs)
        compared = [None if each is None else next(targets) for each in wanted]
        fed, y = self._fed(), compared if len(compared) > 1 else compared[0]
        with tf.GradientTape() as tape:
            loss = around.compute_loss(fed, y, around(fed, training=True), training=True)
        weights = around.trainable_variables
        # Keras squares each gradient of a row by itself, and a spec their sum, as of any other weight.
        gradients = [tf.convert_to_tensor(each) for each in tape.gradient(loss, [w.value for w in weights])]
        around.optimizer.apply(gradients, weights)
        found = _values(variables, self.compiled)
        return Trajectory((float(loss),), {**found, "global_step": 0})


def _listed(given: Any, model: Any) -> Any:
    return (
        [given.get(each) for each in functional_of(model).output_names] if isinstance(given, dict) else given
    )


def _plain_optimizer(config: Any) -> Any:
    """Return an optimizer without averages and accumulation, which one step does not show."""
    made = keras.optimizers.get(config)
    made = getattr(made, "inner_optimizer", made)
    plain = {**made.get_config(), "use_ema": False, "ema_overwrite_frequency": None}
    plain |= {"gradient_accumulation_steps": None, "loss_scale_factor": None}
    return type(made).from_config(plain)


def _without_randomness(layer: Any) -> Any:
    """Return a copy of a layer that draws no random numbers."""
    config, name = layer.get_config(), type(layer).__name__
    if name.startswith("Random") or name in AUGMENTATIONS:
        return keras.layers.Identity(name=layer.name)
    for key in ("rate", "stddev", *ARGUMENTS):
        if key in config and (name in RATES or key in ARGUMENTS):
            config[key] = 0.0
    return type(layer).from_config(config)


def _shifted(value: Any, generator: np.random.Generator, most: float) -> Any:
    if not np.issubdtype(value.dtype, np.floating):
        return value
    return (value * (1.0 + most * generator.uniform(-1.0, 1.0, value.shape))).astype(value.dtype)


def _largest(found: list[Any], expected: list[Any]) -> float:
    """Return the largest difference of some arrays, relative to the largest number of each."""
    worst = 0.0
    for ours, theirs in zip(found, expected, strict=True):
        one, other = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
        if one.shape != other.shape or not np.isfinite(one - other).all():
            return float("inf")
        size = float(np.max(np.abs(other), initial=0.0)) or 1.0
        worst = max(worst, float(np.max(np.abs(one - other), initial=0.0)) / size)
    return worst
