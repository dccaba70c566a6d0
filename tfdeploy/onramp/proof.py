"""The proof: the written spec gives what the model gives, before and after a step of training."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from attrs import evolve, frozen

from compiler.graph.adapters.keras_private import decaying_without, functional_of, layers_within, maker_of
from compiler.graph.storage.export import PlainModel, plain_model
from compiler.graph.storage.weight_files import read_weights
from compiler.graph.tower.network.keras_scope import draw_nothing
from compiler.graph.tower.network.operations import one_of_repeated, plain_weight_of
from compiler.graph.tower.network.precision import WIDE, keras_settings
from compiler.graph.tower.traces import Traces
from compiler.graph.user_code import plain_message
from compiler.model.elaborate import elaborate
from compiler.model.graph import ModelGraph
from compiler.model.layer_state import with_vocabularies
from dsl import ir
from dsl.diagnostics import RunError, SpecError
from tfdeploy.onramp.graph import activation_layer_of, inputs_of
from tfdeploy.onramp.objects import STATES, state_of
from tfdeploy.onramp.training import by_output, objects_of
from tfdeploy.onramp.writing import Draft
from tfdeploy.runtime.verify.compare import Differences, Trajectory, compare, shifted, spread
from tfdeploy.runtime.verify.examples import AUGMENTATIONS, make_examples
from tfdeploy.runtime.verify.session import ROUNDING, TOLERANCES
from tfdeploy.runtime.verify.trial import FedGraph, Trial, TrialSetup

BATCH = 2
SEED = 1
SHIFTED = (2, 8)
"""How many more steps of the model, from weights that rounding has changed, show what rounding moves.

The second number is for models of which the first shows too little.
"""
WIDE_TOLERANCE = 1e-6
"""The largest relative difference after a step that is computed in float64, but for weights and losses."""


class DifferentError(Exception):
    """The spec is not the model; the message says what differs."""


@frozen
class Proof:
    """What was compared."""

    outputs: float  # the largest difference of an output, relative to the largest number of that output
    # The differences after a step of training; None if TensorFlow cannot train the model here.
    step: Differences | None
    weights: int
    # The largest difference in the precision of the spec, if that is so large that all was done again in
    # float64, of which `outputs` and `step` tell; else 0.
    rounded: float = 0.0
    untried: str = ""  # why no step of training was compared; empty if one was

    @property
    def largest(self) -> float:
        """The largest difference of all."""
        return max(self.outputs, 0.0 if self.step is None else self.step.largest)


def prove(
    spec: ir.Spec, made: Draft, model: Any, config: Mapping[str, Any], base: Path, weights: Path
) -> Proof:
    """Compare a spec with its model, and write the model's weights as the spec names them.

    Args:
        spec: The spec, as it was read from its file, beside which its vocabularies are.
        model: The Keras model. It is not changed.

    Raises:
        DifferentError: The spec and the model differ.
    """
    trained = _trained(spec, model)
    known = with_vocabularies(elaborate(spec), Path(spec.path).parent)
    words = {each.path: each.call.kwargs.get("vocabulary") for each in known.layers}
    states = {path: {"vocabulary": each} for path, each in words.items() if each is not None}
    setup = TrialSetup(Traces(str(base)), SEED, {}, states=states)
    compiled = setup.compile(trained)
    graph = compiled.plan.model
    plain = plain_model(compiled, base=str(base), whole=True)
    variables = _variables(plain, graph, model)
    values = _values(variables, compiled)
    for name, variable in plain.variables.items():
        variable.assign(values[name].reshape(variable.shape))
    plain.model.save_weights(weights)
    read = read_weights(compiled, weights, None, base=str(base))
    if any(each not in read for each in values if "/lora_" not in each):
        raise DifferentError("the file of weights lacks some of them")
    arrays = _examples(made, graph, model)
    tolerance = TOLERANCES[spec.update.precision]
    steps = _KerasSteps.of(model, config, made, plain, compiled, arrays)
    expected = steps.outputs(values)
    if not _finite(expected):  # as logarithms of negative numbers are not
        inputs = made.body.inputs.values()
        arrays |= {each: np.abs(arrays[each]) for each in inputs if arrays[each].dtype.kind in "fV"}
        steps = _KerasSteps.of(model, config, made, plain, compiled, arrays)
        expected = steps.outputs(values)
    _require_same(expected, steps.given_by_model(), tolerance)
    setup = evolve(setup, arrays=arrays, start=values)
    with Trial(setup, trained, graph=FedGraph(compiled)) as trial:
        outputs = _outputs_differ(trial, setup, expected)
        draws = setup.traces.of(compiled.plan, SEED).templates[BATCH].seed is not None
        stepped = _stepped_by_both(trial, steps, values, draws=draws)
    if isinstance(stepped, str):
        _require_outputs(outputs, tolerance)
        return Proof(outputs, None, len(values), untried=stepped)
    ours, theirs = stepped
    step = compare(ours, theirs, list(values))
    precision, rounded = spec.update.precision, 0.0
    if not max(outputs, step.largest) <= tolerance:
        # Batch normalization of few numbers, units at their kink, and a softmax of numbers of the size of a
        # million make much of a difference of rounding.
        exact = _exact(setup, trained, lambda wide: _KerasSteps.of(model, config, made, plain, wide, arrays))
        if exact is None:
            step = _compared(ours, steps, values, precision, tolerance)
        else:
            rounded, tolerance = max(outputs, step.largest), WIDE_TOLERANCE
            outputs, step = exact
    _require_outputs(outputs, tolerance)
    if not step.largest <= tolerance:  # which NaN is not
        raise DifferentError(f"after a step of training, `{step.worst}` differs by {step.largest:.1e}")
    return Proof(outputs, step, len(values), rounded)


def _require_same(copied: list[Any], given: list[Any], tolerance: float) -> None:
    if given and _finite(copied) and not _largest(copied, given) <= tolerance:
        reason = "a copy that Keras makes of it gives something else, so that some `get_config` is incomplete"
        raise DifferentError(reason)


def _require_outputs(outputs: float, tolerance: float) -> None:
    if not outputs <= tolerance:
        raise DifferentError(f"the outputs differ by {outputs:.1e} of their size")


def _outputs_differ(trial: Trial, setup: TrialSetup, expected: list[Any]) -> float:
    """Return the largest difference of an output before training from those of the model."""
    trial.fed.evaluate_on(trial.session, setup.arrays)
    given = trial.compiled.evaluation.outputs
    found = trial.session.run(list(given.values()) if isinstance(given, dict) else [given])
    if not _finite(expected):
        raise DifferentError("the model's own outputs for made-up inputs are not finite")
    return _largest(found, expected)


def _finite(arrays: list[Any]) -> bool:
    return all(np.isfinite(np.asarray(each, np.float64)).all() for each in arrays)


def _exact(
    setup: TrialSetup, trained: ir.Spec, steps_of: Callable[[Any], _KerasSteps]
) -> tuple[float, Differences] | None:
    """Return how far outputs and a step of the spec are from the model's in float64; None if that fails."""
    wide = evolve(trained, update=evolve(trained.update, precision=WIDE.name))
    try:
        compiled = setup.compile(wide)
        steps = steps_of(compiled)
        with Trial(setup, wide, graph=FedGraph(compiled)) as trial:
            outputs = _outputs_differ(trial, setup, steps.outputs(setup.start))
            ours = _stepped(trial, setup.start)
        # A gradient that is zero but for rounding, as before batch normalization, moves weights here too. The
        # weights themselves are in float32 in any precision.
        return outputs, _compared(ours, steps, setup.start, "float32", WIDE_TOLERANCE)
    except (SpecError, RunError, TypeError, ValueError, tf.errors.OpError):
        return None


def _stepped_by_both(
    trial: Trial, steps: _KerasSteps, values: Mapping[str, Any], *, draws: bool
) -> tuple[Trajectory, Trajectory] | str:
    """Return a step of the spec and one of the model, or why these cannot be compared."""
    if draws:
        return "a layer draws random numbers, which nothing can switch off"
    try:
        ours, theirs = _stepped(trial, values), steps.trained(values)
    except (RunError, tf.errors.OpError) as fault:
        if steps.trains(values):
            raise
        reason = fault.diagnostic.message if isinstance(fault, RunError) else plain_message(fault)
        return f"TensorFlow cannot do one here: {reason}"
    if not np.isfinite(theirs.losses[0]):
        return f"the model's own loss is {theirs.losses[0]} for made-up examples"
    return ours, theirs


def _stepped(trial: Trial, values: Mapping[str, Any]) -> Trajectory:
    """Return the loss, with the penalties on weights, and the weights after a step of the spec."""
    compiled = trial.compiled
    loss, _ = trial.session.run([compiled.total_loss, compiled.train_op])
    after = trial.values()
    return Trajectory((float(loss),), {**{name: after[name] for name in values}, "global_step": 0})


def _compared(
    ours: Trajectory, steps: _KerasSteps, values: Mapping[str, Any], precision: str, tolerance: float
) -> Differences:
    """Return how far a step of the spec is from one of the model, beyond what rounding moves."""
    generator, theirs = np.random.default_rng(SEED), [steps.trained(values)]
    step = compare(ours, theirs[0], list(values))
    for count in SHIFTED:
        if step.largest <= tolerance:
            break
        while len(theirs) <= count:
            start = {name: shifted(each, generator, ROUNDING[precision]) for name, each in values.items()}
            theirs.append(steps.trained(start))
        step = compare(ours, theirs[0], list(values), spread(theirs), tolerance)
    return step


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


def _variables(plain: PlainModel, graph: ModelGraph, model: Any) -> dict[str, Any]:
    """Return the variable of the model for each weight of the spec, by its name."""
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


def _examples(made: Draft, graph: ModelGraph, model: Any) -> dict[str, Any]:
    """Return the examples that spec and model get."""
    classes = {
        name: int(each.kwargs["classes"])  # type: ignore[arg-type] # a number
        for name, each in made.examples.items()
        if "classes" in each.kwargs
    }
    arrays = make_examples(graph, classes, BATCH, SEED)
    for each in graph.inputs:
        if each.dtype == "string":
            arrays[each.name] = _texts(model, arrays[each.name].shape)
    return arrays


def _texts(model: Any, shape: tuple[int, ...]) -> Any:
    """Return texts of words that the layers of a model know, and of one that none does."""
    known = [each for each in layers_within(model) if type(each).__name__ in STATES]
    words = ["unknown word"]
    for each in known:
        words += map(str, each.get_vocabulary()) if hasattr(each, "get_vocabulary") else ()
    return np.random.default_rng(SEED).choice(np.array(words, object), shape)


def _trainable(variables: Mapping[str, Any], model: Any) -> frozenset[str]:
    """Return the names of those variables that a model trains, as all that it is made of may be frozen."""
    trained = {id(each) for each in model.trainable_variables}
    return frozenset(name for name, each in variables.items() if id(each) in trained)


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
        activation = activation_layer_of(operation)
        if activation is not None:  # which the spec has as a layer of its own
            yield call.layer, activation
            call = made_by[call.inputs[0]]
        yield call.layer, operation
        ours = [each for each in call.inputs if each not in graph.constants]
        if len(inputs) != len(ours):
            raise DifferentError(f"`{operation.name}` has {len(inputs)} inputs, and {len(ours)} in the spec")
        pending += zip(ours, [(each, scope) for each in inputs], strict=True)


def _outside(tensor: Any, scope: Any) -> tuple[Any, Any]:
    """Return the tensor that a layer makes which is no model, for one that a model inside the model makes.

    Args:
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
    """Calls a copy of the model without random numbers, and trains it for a step, as Keras does."""

    model: Any
    around: Any  # the copy, which takes and gives lists
    variables: dict[str, Any]
    compiled: Any
    fed: Any
    labels: Any  # what its outputs are compared with; None for an output without a loss
    trained_by: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        model: Any,
        config: Mapping[str, Any],
        made: Draft,
        plain: PlainModel,
        compiled: Any,
        arrays: Mapping[str, Any],
    ) -> _KerasSteps:
        inner, graph = functional_of(model), compiled.plan.model
        learnt = _trainable(_variables(plain, graph, model), model)
        for name in sorted(learnt ^ _trainable(plain.variables, plain.model)):
            raise DifferentError(f"only the spec or only the model trains `{name}`: freeze whole layers")
        uncompiled = keras.Model(inner.inputs, inner.outputs)  # else the copy is compiled, from descriptions
        precision = compiled.plan.update.precision

        def plain_layer(layer: Any) -> Any:
            return _without_randomness(layer, {made.precision: precision})

        with keras_settings(precision):
            copy = keras.models.clone_model(uncompiled, clone_function=plain_layer, recursive=True)
        draw_nothing(copy)
        given = functional_of(copy)
        around = keras.Model(given.inputs if len(given.inputs) > 1 else given.inputs[0], given.outputs)
        fed = [arrays[each] for each in made.body.inputs.values()]
        losses, weights = config.get("loss"), config.get("loss_weights")
        if not made.training.loss:
            losses, weights = ["mean_squared_error"] * len(copy.outputs), None
        elif isinstance(losses, dict) and "class_name" not in losses:
            losses = by_output(losses, model)
            weights = None if weights is None else by_output(weights, model)
        targets = iter(
            [arrays[each.name] for each in graph.inputs if each.name not in {*made.body.inputs.values()}]
        )
        wanted = losses if isinstance(losses, list) else [losses] * len(copy.outputs)
        labels = [None if each is None else next(targets) for each in wanted]
        trained_by = {"loss": losses, "loss_weights": weights, "optimizer": config.get("optimizer")}
        return cls(
            model,
            around,
            _variables(plain, graph, copy),
            compiled,
            fed if len(fed) > 1 else fed[0],
            labels if len(labels) > 1 else labels[0],
            trained_by,
        )

    def _start(self, values: Mapping[str, Any]) -> None:
        for name, variable in self.variables.items():
            variable.assign(values[name].reshape(variable.shape))

    def outputs(self, values: Mapping[str, Any]) -> list[Any]:
        """Return the outputs for some values of the weights."""
        self._start(values)
        return [np.asarray(each) for each in keras.tree.flatten(self.around(self.fed, training=False))]

    def given_by_model(self) -> list[Any]:
        """Return the outputs of the model itself; nothing if all of its layers are of Keras, or one crops."""
        kinds = {type(each) for each in layers_within(self.model)}
        if keras.layers.RandomCrop in kinds or all(each.__module__.startswith("keras.") for each in kinds):
            return []
        inner = functional_of(self.model)
        plain = keras.Model(inner.inputs if len(inner.inputs) > 1 else inner.inputs[0], inner.outputs)
        return [np.asarray(each) for each in keras.tree.flatten(plain(self.fed, training=False))]

    def trains(self, values: Mapping[str, Any]) -> bool:
        """Whether TensorFlow can train the model on this machine."""
        try:
            self.trained(values)
        except tf.errors.OpError:
            return False
        return True

    def trained(self, values: Mapping[str, Any]) -> Trajectory:
        """Return the loss and the weights after one step."""
        self._start(values)
        around, given = self.around, self.trained_by
        optimizer = keras.optimizers.SGD(0.01)
        if given["optimizer"] is not None:
            optimizer = _plain_optimizer(given["optimizer"])
        losses = objects_of(given["loss"], keras.losses.get)
        # Keras scales the loss in `fit` if whoever made the model has made mixed_float16 the policy.
        around.compile(optimizer, losses, loss_weights=given["loss_weights"], auto_scale_loss=False)
        with tf.GradientTape() as tape:
            made = around(self.fed, training=True)
            loss = around.compute_loss(self.fed, self.labels, made, training=True)
        weights = around.trainable_variables
        found = zip(tape.gradient(loss, [each.value for each in weights]), weights, strict=True)
        # Keras squares each gradient of a row by itself, and a spec their sum, as of any other weight.
        pairs = [(tf.convert_to_tensor(one), each) for one, each in found if one is not None]
        around.optimizer.apply(*zip(*pairs, strict=True))
        values = _values(self.variables, self.compiled)
        return Trajectory((float(loss),), {**values, "global_step": 0})


def _plain_optimizer(config: Any) -> Any:
    """Return an optimizer without averages and accumulation, which one step does not show."""
    made = keras.optimizers.get(config)
    made = getattr(made, "inner_optimizer", made)
    plain = {**made.get_config(), "use_ema": False, "ema_overwrite_frequency": None}
    plain |= {"gradient_accumulation_steps": None, "loss_scale_factor": None}
    copy, (pattern, _) = type(made).from_config(plain), decaying_without(made)
    if pattern is not None:
        copy.exclude_from_weight_decay(var_names=[pattern.pattern])
    return copy


def _without_randomness(layer: Any, precisions: Mapping[str, str]) -> Any:
    """Return a copy of a layer that draws no random numbers, with other precisions in place of some."""
    kind = type(layer).__name__
    state = state_of(layer) if kind in STATES else {}
    other, config = _plainly(kind, {**layer.get_config(), **state}, precisions)
    made = type(layer) if other == kind else getattr(keras.layers, other)
    taken = inspect.signature(made).parameters
    if inspect.Parameter.VAR_KEYWORD not in {each.kind for each in taken.values()}:  # without `get_config`
        config = {key: each for key, each in config.items() if key in taken}
    return made.from_config(config)


def _plainly(kind: str, config: Any, precisions: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the class of a layer, and its configuration, after these changes in all that it holds."""
    if kind == "RandomCrop":
        return "CenterCrop", {each: config[each] for each in ("name", "height", "width", "data_format")}
    if kind.startswith("Random") or kind in AUGMENTATIONS:
        return "Identity", {"name": config["name"]}
    return kind, {key: _changed(each, precisions) for key, each in config.items()}


def _changed(described: Any, precisions: Mapping[str, str]) -> Any:
    if isinstance(described, list | tuple):
        return type(described)(_changed(each, precisions) for each in described)
    if not isinstance(described, dict):
        return described
    kind, config = described.get("class_name"), described.get("config")
    if kind == "DTypePolicy" and precisions.get(described["config"]["name"]) == WIDE.name:
        return WIDE
    if isinstance(config, dict) and described.get("module") == "keras.layers":
        kind, config = _plainly(str(kind), config, precisions)
        return {**described, "class_name": kind, "config": config}
    return {key: _changed(each, precisions) for key, each in described.items()}


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
