"""Every name of Keras that is used here although it is not public, and what it is used for.

No other module imports `keras.src`, or touches an attribute of Keras's that begins with an underscore.
`tests/compiler/graph/adapters` lists the names, so that a release of Keras without one of them fails there
and says which.
"""

# ruff: noqa: SLF001  # this is what the module is for

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import keras
import tensorflow as tf

# Values that Keras keeps for the whole process: names given so far, and variables not yet created.
from keras.src.backend.common.global_state import get_global_attribute, set_global_attribute

# The mask that a layer has attached to a tensor.
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask

# The arguments of a call of a layer, from which Keras finds the shapes that `build` takes.
from keras.src.layers.layer import CallSpec

# The common class of layers that join several tensors, such as Add and Concatenate.
from keras.src.layers.merging.base_merge import Merge

# How a loss applies a mask and sample weights to its values.
from keras.src.losses.loss import reduce_weighted_values, squeeze_or_expand_to_same_rank

# The class of a `keras.Model` that is made from its inputs and outputs.
from keras.src.models.functional import Functional

# The module in which the applications look `get_file` up, which downloads their weights.
from keras.src.utils import file_utils

NAMES_GIVEN = "object_name_uids"
"""The global attribute that counts how often Keras has used each name, in the whole process."""

OPEN_SCOPES = "name_scope_stack"
"""The global attribute with the scopes of names that are open in Keras."""

STATELESS_SCOPE = "stateless_scope"
"""The global attribute with the open stateless scope, which knows the values of variables."""

UNCREATED_VARIABLES = "uninitialized_variables"
"""The global attribute with the variables that Keras would create when the next stateless scope ends."""


class OwnMoments(keras.layers.BatchNormalization):  # type: ignore[misc]  # Keras has no types
    """A batch normalization that asks its method `moments` for the mean and variance of a batch."""

    def _moments(self, inputs: Any, mask: Any) -> tuple[Any, Any]:
        return self.moments(inputs, mask)

    def moments(self, inputs: Any, mask: Any) -> tuple[Any, Any]:
        """Return the mean and variance by which inputs are normalized during training.

        Args:
            mask: Which positions of the batch count, or None if all do. It has one axis less than the batch.
        """
        return super()._moments(inputs, mask)


def build_of_shapes(layer: keras.Layer, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Build a layer of the shapes of its arguments, as Keras does before it calls a layer.

    Returns:
        Whether the layer and all layers inside it are built now. If not, only a call can build them.
    """
    if getattr(type(layer).build, "_is_default", False):  # inherited, and makes no variables
        return False
    layer._maybe_build(CallSpec(layer._call_signature, layer._call_context_args, args, dict(kwargs)))
    return all(each.built for each in layer._flatten_layers())


def flattened_layers(layer: keras.Layer) -> Sequence[Any]:
    """Return a layer and all layers inside it, at any depth."""
    return list(layer._flatten_layers())


def freeze_lookup(layer: Any, run: Callable[[Any], Any], table: Callable[[Any, Any, Any], Any]) -> None:
    """Give a lookup another table, and make its tensors plain values that any graph can use."""
    keys, values = run(layer.lookup_table.export())
    layer.lookup_table = table(keys, values, layer._default_value)
    layer._frozen_vocab_size = len(keys) + layer._token_start_index()
    if layer.mask_token is not None:
        layer._mask_key, layer._mask_value = run([layer._mask_key, layer._mask_value])
    if layer.output_mode == "tf_idf":
        layer.idf_weights_const = run(layer.idf_weights_const)


def first_word_index(layer: Any) -> int:
    """Return the number of the first word of a lookup; the numbers before it are special."""
    return layer._token_start_index()


def lookup_of(layer: Any) -> Any:
    """Return the lookup inside a `TextVectorization`, or a lookup as it is."""
    return getattr(layer, "_lookup_layer", layer)


def words_of(vectorization: Any, texts: Any) -> Any:
    """Return the words into which a `TextVectorization` splits texts, ragged if it splits them at all."""
    return vectorization._preprocess(texts)


def input_shape_of(layer: keras.layers.Normalization) -> Any:
    """Return the shape that a normalization was built with."""
    return layer._build_input_shape


def name_scope_of(layer: keras.Layer) -> AbstractContextManager[Any]:
    """Open the name scope of a layer for its call. If Keras opens it twice, ops are called `conv1_1/...`."""
    return layer._open_name_scope()


def operation_of(function: Callable[..., Any], **arguments: Any) -> Any:
    """Return the operation of Keras that a function of `keras.ops` does, as an object that Keras can save.

    Args:
        function: A function of one tensor, whose number of axes it does not depend on.
    """
    return function(keras.KerasTensor((2,) * 8), **arguments)._keras_history.operation


def initializer_of(variable: Any) -> Any:
    """Return what makes the first value of a variable."""
    return variable._initializer


def maker_of(tensor: Any) -> tuple[Any, Any, int]:
    """Return what makes a symbolic tensor: a layer or operation, its call, and which result of that it is."""
    operation, at, number = tensor._keras_history
    return operation, operation._inbound_nodes[at], number


def functional_of(model: Any) -> Any:
    """Return the functional model that a model is, or that a sequential one has inside; None for others."""
    if isinstance(model, keras.Sequential):
        model = model._functional if model.built else None
    return model if isinstance(model, Functional) else None


def compiled_with(model: Any) -> dict[str, Any]:
    """Return what `compile` of a model was given, by the names of its arguments."""
    if not model.compiled:
        return {}
    return {"optimizer": model.optimizer, **model._compile_config.config}  # which lacks it in saved models


def names_of_outputs(model: Any) -> list[str]:
    """Return the names of outputs: the keys under which a functional model gives them, or those of layers."""
    struct = model._outputs_struct
    if not isinstance(struct, dict):
        return list(model.output_names)
    return ["_".join(map(str, path)) for path, _ in keras.tree.flatten_with_path(struct)]


def decaying_without(optimizer: Any) -> tuple[re.Pattern[str] | None, bool]:
    """Return what names of variables an optimizer does not let decay, and whether there are others."""
    pattern = getattr(optimizer, "_exclude_from_weight_decay_pattern", None)
    return pattern, bool(getattr(optimizer, "_exclude_from_weight_decay", None))


def configuration_of(made: Any) -> dict[str, Any]:
    """Return the configuration of an object, with what `Huber` gives its function and leaves out."""
    return {**getattr(made, "_fn_kwargs", {}), **made.get_config()}


def layers_within(model: Any) -> list[Any]:
    """Return all layers of a model, and those inside them."""
    return list(model._flatten_layers(include_self=False))


def operations_before(tensors: Sequence[Any]) -> list[Any]:
    """Return the layers and operations that have made symbolic tensors, those of masks among them."""
    found: dict[int, Any] = {}
    seen: set[tuple[int, int]] = set()
    pending = [each._keras_history for each in tensors]
    while pending:
        operation, node, _ = pending.pop()
        found[id(operation)] = operation
        if (id(operation), node) not in seen:
            seen.add((id(operation), node))
            pending += [each._keras_history for each in operation._inbound_nodes[node].input_tensors]
    return list(found.values())


def create(variable: Any) -> None:
    """Give a variable that was made in a stateless scope its first value."""
    variable._deferred_initialize()


def give_stand_in(variable: Any, value: Any) -> None:
    """Let a variable that was made in a stateless scope have a value of another shape, to be saved by.

    Args:
        value: The value that it has from now on; its shape need not be that of the variable.
    """
    variable._value = value


def keep_table_dtype(embedding: keras.layers.Embedding) -> None:
    """Let an embedding convert the rows that it looks up, and not its whole table at every step."""
    embedding._embeddings._autocast = False


def is_built(metric: keras.Metric) -> bool:
    """Whether a metric has its variables; metrics that make them all at once always have."""
    return getattr(metric, "_built", True) is not False


def reduction_axes(layer: keras.layers.BatchNormalization) -> Sequence[int]:
    """Return the axes over which a normalisation takes its moments."""
    return layer._reduction_axes


def weight_at(path: str, shape: Sequence[int], dtype: str) -> Any:
    """Return a trainable variable as it is at a path of a model, such as `dense/kernel`."""
    scope, _, name = path.rpartition("/")
    with tf.name_scope(f"{scope}/" if scope else ""):
        variable = keras.Variable(initializer="zeros", shape=tuple(shape), dtype=dtype, name=name)
    variable._path = path
    return variable


def iterations_of(optimizer: keras.optimizers.Optimizer) -> Any:
    """Return the variable in which an optimizer counts its updates."""
    return optimizer._iterations


def rate_of(optimizer: keras.optimizers.Optimizer) -> Any:
    """Return the learning rate of an optimizer: a variable, a schedule or another function."""
    return optimizer._learning_rate


def replace_rate(optimizer: keras.optimizers.Optimizer, rate: Callable[[], Any]) -> None:
    """Let an optimizer whose learning rate is a function take another one, without arguments."""
    optimizer._learning_rate = rate


def apply_alone(
    optimizer: keras.optimizers.Optimizer, gradient: Any, variable: Any, rate: Any, *, decays: bool
) -> None:
    """Update a variable as an optimizer does, without clipping, averages, constraints and its count.

    Args:
        gradient: The gradient, of the shape of the variable.
        decays: Whether the variable decays by the optimizer's `weight_decay`.
    """
    if decays:
        optimizer._apply_weight_decay([variable])
    optimizer._backend_update_step([gradient], [variable], rate)


def uses_adamw(muon: keras.optimizers.Muon, path: str, shape: Sequence[int]) -> bool:
    """Whether a Muon optimizer updates the weight at a path by AdamW."""
    return bool(muon._should_use_adamw(SimpleNamespace(path=path, shape=tuple(shape))))
