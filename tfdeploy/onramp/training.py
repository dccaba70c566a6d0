"""What `compile` was given, as the loss, the metrics and the `update` block of a spec."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import keras
import numpy as np
from attrs import define, evolve, field

from compiler.graph.adapters.keras_private import (
    configuration_of,
    decaying_without,
    functional_of,
    names_of_outputs,
)
from dsl import ir
from dsl.schema import signatures
from dsl.schema.signatures import takes_class_numbers
from tfdeploy.onramp.graph import free_name
from tfdeploy.onramp.objects import UnwritableError, UnwritableModelError, call_of, module_of

_CLIPS = {"clipnorm": "norm", "clipvalue": "value", "global_clipnorm": "global_norm"}
_ELSEWHERE = (
    *_CLIPS,
    "use_ema",
    "ema_momentum",
    "ema_overwrite_frequency",
    "loss_scale_factor",
    "gradient_accumulation_steps",
)
STEPS = "steps"
"""The key under which what `compile` was given has the steps of the optimizer, if it comes from a file."""
EXCLUDED = "exclude_from_weight_decay"
_BY_LABELS = {"metric": ("accuracy", "acc"), "loss": ("crossentropy", "ce")}
"""What stands for one of several classes, by the labels that `fit` is given, in letters of any case."""
_SCALES_ITSELF = "`precision = mixed_float16` scales by itself."
_LOSS_SCALES = {"initial_scale": 2.0**15, "dynamic_growth_steps": 2000}


@define
class Training:
    """How a model is trained, as far as its `compile` says."""

    # The inputs that are compared with outputs, by their names: the type and the shape of each.
    labels: dict[str, ir.Input] = field(factory=dict)
    # The number of classes of those labels that are numbers of classes.
    classes: dict[str, int] = field(factory=dict)
    loss: list[ir.LossTerm] = field(factory=list)
    metrics: list[ir.Metric] = field(factory=list)
    update: dict[str, ir.Value] = field(factory=dict)
    lost: list[str] = field(factory=list)  # what the spec cannot say, in sentences


def training_of(model: Any, config: Mapping[str, Any], outputs: list[ir.Expr], taken: set[str]) -> Training:
    """Return how a model is trained.

    Args:
        config: What `get_compile_config` of the model gives, or the file has; empty if it is not compiled.
        outputs: The outputs of the model in the spec, in the order of those of Keras.
        taken: The names in the model that no label may have.

    Raises:
        UnwritableModelError: The language has no notation for a loss, a metric or the optimizer.
    """
    found = Training()
    names = names_of_outputs(functional_of(model))
    losses = by_output(objects_of(config.get("loss"), keras.losses.get), model)
    weights = by_output(config.get("loss_weights"), model)
    metrics = [
        (by_output(objects_of(config.get(kind), keras.metrics.get), model, lists=True), kind == "metrics")
        for kind in ("metrics", "weighted_metrics")
    ]
    faults: dict[str, str] = {}
    for at, (name, tensor, output) in enumerate(zip(names, model.outputs, outputs, strict=True)):
        of_output = "" if len(names) == 1 else f" of {name}"
        if losses[at] is None:
            found.lost += [
                f"`{_name(metric)}`{of_output} is left out: the output has no loss."
                for given, _ in metrics
                for metric in given[at]
            ]
            continue
        with _noted(faults, f"loss{of_output}"):
            call = _called(losses[at], "loss")
            found.lost += _unsaid(losses[at], tensor, config)
            label = free_name("label" if len(names) == 1 else f"{name}_label", taken)
            numbers = takes_class_numbers(call.name)
            shape = tuple(tensor.shape[1:-1] if numbers else tensor.shape[1:])
            found.labels[label] = ir.Input("int32" if numbers else "float32", shape)
            if numbers:
                found.classes[label] = int(tensor.shape[-1])
            term = ir.Objective(ir.Ref(label), output, call)
            found.loss.append(ir.LossTerm(term, 1.0 if weights[at] is None else float(weights[at])))
            known = {each.name for each in found.metrics}
            for metric, plain in [(each, plain) for given, plain in metrics for each in given[at] or ()]:
                with _noted(faults, f"metric {_name(metric)}{of_output}"):
                    named, made = _metric(metric, tensor, call.name)
                    found.lost += _unsaid(metric, tensor, config)
                    prefix = "" if len(names) == 1 else f"{name}_"
                    twice = not plain and f"{prefix}{named}" in known
                    named = free_name(f"{prefix}{'weighted_' if twice else ''}{named}", known)
                    found.metrics.append(ir.Metric(named, ir.Objective(ir.Ref(label), output, made)))
                    if not plain:
                        found.lost.append(
                            f"`{named}` counts all examples alike: name their weights, {_THIRD}"
                        )
    optimizer = config.get("optimizer")
    steps = config.get(STEPS) or int(np.asarray(getattr(getattr(model, "optimizer", None), "iterations", 0)))
    if optimizer is not None and steps:
        found.lost.append(f"The optimizer begins anew, although it has made {steps:,} steps.")
    if optimizer is not None:
        with _noted(faults, "optimizer"):
            found.update = dict(_update(keras.optimizers.get(optimizer), model, found))
    if faults:
        raise UnwritableModelError(faults)
    return found


def _unsaid(made: Any, output: Any, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a file leaves out of a loss or a metric, of which Keras then takes its default."""
    if STEPS in config and isinstance(made, keras.Loss | keras.Metric):
        for each in configuration_of(made).keys() - made.get_config().keys() - {"fn"}:
            if each != "axis" or len(output.shape) > 2:  # noqa: PLR2004 else the last axis is the only one
                yield f"`{each}` of `{type(made).__name__}` is the default: files of Keras leave it out."


_THIRD = "`[label, prediction, weight] -> ...`."


@contextmanager
def _noted(faults: dict[str, str], what: str) -> Iterator[None]:
    """Note why something that `compile` was given cannot be written, and go on behind it."""
    try:
        yield
    except UnwritableError as fault:
        faults[f"compile: {what}"] = str(fault)


def objects_of(given: Any, get: Callable[[Any], Any]) -> Any:
    """Return losses, metrics or an optimizer as objects, in the lists and dictionaries in which they are.

    Args:
        given: One, or a list or a dictionary of them, as Keras serializes them; names stay names.
    """
    if isinstance(given, list | tuple):
        return [objects_of(each, get) for each in given]
    if isinstance(given, dict) and "class_name" not in given:
        return {key: objects_of(each, get) for key, each in given.items()}
    if not isinstance(given, dict):
        return given
    described = deepcopy(given)  # of which Keras takes parts out
    # `get` takes a function for a class, and knows neither all of Keras's classes nor the user's.
    return (keras.saving.deserialize_keras_object if "module" in described else get)(described)


def by_output(given: Any, model: Any, *, lists: bool = False) -> list[Any]:
    """Return what `compile` was given for each output: one for all, a list, or a dictionary.

    Args:
        model: The model. A dictionary has the keys of its outputs, or the names of the layers that make them.

    Raises:
        UnwritableModelError: A key is that of no output.
    """
    names = names_of_outputs(functional_of(model))
    if isinstance(given, Mapping):
        layers = functional_of(model).output_names
        unknown = [each for each in given if each not in {*names, *layers}]
        if unknown:
            raise UnwritableModelError({f"compile: {unknown[0]}": "the model has no output of this name"})
        found = [given.get(name, given.get(layer)) for name, layer in zip(names, layers, strict=True)]
    elif isinstance(given, list | tuple) and (
        not lists or any(isinstance(each, list) for each in given) or 1 < len(names) == len(given)
    ):
        found = [*given, *[None] * (len(names) - len(given))]
    else:
        found = [given] * len(names)
    if not lists:
        return found
    return [each if isinstance(each, list | tuple) else [each] if each else [] for each in found]


def _called(given: Any, category: signatures.Category) -> ir.Call:
    """Return the call of a loss or metric that is given as an object, a function or the name of one."""
    if isinstance(given, str):
        if given.lower() in _BY_LABELS[category]:
            raise UnwritableError(f"what `{given}` is depends on the labels: name its class")
        try:
            given = getattr(keras, "losses" if category == "loss" else "metrics").get(given)
        except ValueError as fault:
            raise UnwritableError(f"Keras has no {category} `{given}`") from fault
    if isinstance(given, keras.Loss | keras.Metric) and type(given).__name__ != "LossFunctionWrapper":
        return call_of(given, category)
    function = getattr(given, "fn", given)
    name = getattr(function, "__name__", type(function).__name__)
    spelled = {each.lower(): each for each in signatures.names(category)}
    wanted = spelled.get(name.replace("_", ""))
    module = module_of(function)
    if category == "metric" and function is keras.losses.cosine_similarity:
        raise UnwritableError("it is the negative of the metric `CosineSimilarity`: name that")
    if wanted is not None and module.startswith("keras."):
        return ir.Call(wanted)
    if module in {"__main__", ""} or not name.isidentifier() or module.startswith("keras."):
        raise UnwritableError(f"the {category} `{name}` is in no module that can be imported")
    return ir.Call("python", (f"{module}:{name}",))


def _metric(given: Any, output: Any, loss: str) -> tuple[str, ir.Call]:
    """Return a metric with its name; `accuracy` depends on what the loss compares, as in Keras."""
    if isinstance(given, str) and given.lower() in _BY_LABELS["metric"]:
        if output.shape[-1] == 1:
            kind = "Binary"
        else:
            kind = "SparseCategorical" if takes_class_numbers(loss) else "Categorical"
        return given, ir.Call(f"{kind}Accuracy")
    return _name(given), _called(given, "metric")


def _name(metric: Any) -> str:
    """Return the name of a metric, which is an object, a function or the name of one."""
    return (
        metric if isinstance(metric, str) else getattr(metric, "name", getattr(metric, "__name__", "metric"))
    )


def _excluded(optimizer: Any, model: Any) -> dict[str, ir.Value]:
    """Return which weights an optimizer does not let decay, as an argument."""
    pattern, more = decaying_without(optimizer)
    if more:
        raise UnwritableError("single variables are excluded from weight decay: exclude them by name")
    if pattern is None:
        return {}
    weights = model.trainable_variables
    found = [each for each in weights if pattern.search(f"{each.path}:0")]  # as TensorFlow calls them
    names = {each.name for each in found}
    if len(found) == sum(each.name in names for each in weights):
        return {EXCLUDED: tuple(f"*/{each}" for each in sorted(names))}
    words = [each for each in pattern.pattern.split("|") if any(each in one.path for one in found)]
    if any(all(each not in one.path for each in words) for one in found):
        raise UnwritableError(f"what does not decay is no part of names: `{pattern.pattern}`")
    return {EXCLUDED: tuple(f"*{each}*" for each in sorted(words))}


def _update(optimizer: Any, model: Any, found: Training) -> Iterator[tuple[str, ir.Value]]:
    """Yield the attributes of `update` that an optimizer of Keras stands for."""
    if type(optimizer).__name__ == "LossScaleOptimizer":
        found.lost += [
            f"`{name}` is left out: {_SCALES_ITSELF}"
            for name, usual in _LOSS_SCALES.items()
            if getattr(optimizer, name) != usual
        ]
        optimizer = optimizer.inner_optimizer
    config = optimizer.get_config()
    call = call_of(optimizer, "optimizer", _ELSEWHERE)
    if not call.args and not isinstance(config["learning_rate"], dict):
        call = ir.Call(call.name, (float(f"{config['learning_rate']:.7g}"),), call.kwargs)
    call = evolve(call, kwargs={**call.kwargs, **_excluded(optimizer, model)})
    yield "optimizer", call
    for name, clip in _CLIPS.items():
        if (config.get(name) or 0) > 0:  # else Keras clips nothing
            yield "clip", ir.Call(clip, (float(config[name]),))
    if config.get("use_ema"):
        yield "ema", config["ema_momentum"]
        if config.get("ema_overwrite_frequency"):
            found.lost.append("`ema_overwrite_frequency` is left out: averages do not replace the weights.")
    if config.get("gradient_accumulation_steps"):
        yield "accumulate", int(config["gradient_accumulation_steps"])
    if config.get("loss_scale_factor"):
        found.lost.append(f"`loss_scale_factor` is left out: {_SCALES_ITSELF}")
