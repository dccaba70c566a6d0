"""Tensors that objects of Keras and of the user's keep from when they were made or built.

Such an object is made in a graph that is discarded, and used in others, where these tensors are unknown. What
can be computed in the graph in which it was made becomes an array, which every graph takes as a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import keras
import tensorflow as tf
from attrs import define, field

from compiler.graph.adapters.keras_private import (
    STATELESS_SCOPE,
    flattened_layers,
    get_global_attribute,
    input_shape_of,
)
from compiler.graph.fragments import ancestors
from compiler.graph.session_options import helper_config

T = TypeVar("T")

_PLAIN = frozenset({str, bytes, int, bool, float, complex, type(None)})
_OPAQUE = (type, ModuleType, BuiltinFunctionType, keras.KerasTensor, keras.Variable)
"""What keeps no tensors of its own. A Keras variable keeps none, because it is never created."""

_UNKNOWN = ("Placeholder", "VarHandleOp")
"""Ops whose values are not known in a graph that is discarded: what stands for weights and examples."""


@contextmanager
def discarded_graph() -> Iterator[tf.Graph]:
    """Open a graph in which objects are made that are used in others. Hand them to `without_tensors`."""
    graph = tf.Graph()
    graph.seed = 0
    with graph.as_default(), _unknown_values():
        yield graph


@contextmanager
def _unknown_values() -> Iterator[None]:
    """Let variables without a value in the open stateless scope read as placeholders.

    Keras would read a first value, which is not that of the weight later on.
    """
    scope = get_global_attribute(STATELESS_SCOPE)
    if scope is None:
        yield
        return
    known = scope.get_current_value

    def value_of(variable: Any) -> Any:
        found = known(variable)
        return tf.compat.v1.placeholder(variable.dtype, variable.shape) if found is None else found

    scope.get_current_value = value_of
    try:
        yield
    finally:
        scope.get_current_value = known


def made_apart(make: Callable[[], T]) -> T:
    """Return what `make` makes, with arrays in place of the tensors that it has made."""
    with discarded_graph() as graph:
        made = make()
        return without_tensors(made, graph)


def without_tensors(made: T, graph: tf.Graph) -> T:
    """Put arrays in place of the tensors of a graph that an object keeps, and return the object.

    Tensors that depend on weights or examples are left, because they have no value there.

    Args:
        made: The object; it may be a list of objects, or a tensor itself.
    """
    if not graph.get_operations():
        return made
    looking = _Kept(graph)
    kept: T = looking.replaced(made)
    looking.finish()
    return kept


@define
class _Kept:
    """What an object keeps, with that which has been looked at so far."""

    graph: tf.Graph
    _seen: dict[int, Any] = field(factory=dict, repr=False)  # by the id, so that each stays alive
    _pending: list[Any] = field(factory=list, repr=False)
    _arrays: dict[str, Any] = field(factory=dict, repr=False)

    def replaced(self, value: Any) -> Any:
        """Return what is to stand in place of a value: an array for a tensor, or else the value itself."""
        if isinstance(value, tf.Tensor):
            return self._array(value) if getattr(value, "graph", None) is self.graph else value
        if type(value) in _PLAIN or isinstance(value, _OPAQUE) or id(value) in self._seen:
            return value
        if isinstance(value, tuple):
            return self._tuple(value)
        self._seen[id(value)] = value
        self._pending.append(value)
        return value

    def finish(self) -> None:
        """Replace the tensors inside all that has been found; a deep model would be too deep to recurse."""
        while self._pending:
            self._look_into(self._pending.pop())

    def _look_into(self, value: Any) -> None:
        if isinstance(value, list):
            self._fill(value, enumerate(value))
        elif isinstance(value, Mapping):
            self._fill(value, value.items())
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self.replaced(value.__self__)
        elif not type(value).__module__.startswith(("tensorflow.", "numpy")):
            if isinstance(value, partial):
                self._partial(value)
            own = getattr(value, "__dict__", {})
            self._fill(own, own.items())

    def _fill(self, owner: Any, items: Any) -> None:
        for key, each in list(items):
            new = self.replaced(each)
            if new is not each:
                owner[key] = new

    def _tuple(self, value: Any) -> Any:
        parts = [self.replaced(each) for each in value]
        if all(new is each for new, each in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)

    def _function(self, function: Any) -> None:
        function.__defaults__ = self.replaced(function.__defaults__)
        for owner in (function.__dict__, function.__kwdefaults__ or {}):
            self._fill(owner, owner.items())
        for cell in function.__closure__ or ():
            try:
                new = self.replaced(cell.cell_contents)
            except ValueError:  # a name that has no value yet
                continue
            if new is not cell.cell_contents:
                cell.cell_contents = new

    def _partial(self, value: Any) -> None:
        function, given = self.replaced(value.func), self.replaced(value.args)
        self._fill(value.keywords, value.keywords.items())
        if given is not value.args:
            value.__setstate__((function, given, value.keywords, value.__dict__))

    def _array(self, tensor: tf.Tensor) -> Any:
        """Return the value of a tensor, or the tensor if it has none in its graph."""
        if tensor.name not in self._arrays:
            found = tf.get_static_value(tensor)
            self._arrays[tensor.name] = self._computed(tensor) if found is None else found
        return self._arrays[tensor.name]

    def _computed(self, tensor: tf.Tensor) -> Any:
        types = (self.graph.get_operation_by_name(each).type for each in ancestors([tensor.op]))
        if tensor.dtype in (tf.resource, tf.variant) or any(each in _UNKNOWN for each in types):
            return tensor
        config = helper_config(intra_op_parallelism_threads=1)
        with tf.compat.v1.Session(graph=self.graph, config=config) as session:
            return session.run(tensor)


def renew_constants(layer: keras.Layer) -> None:
    """Compute the tensors that layers inside a layer, or it itself, keep anew in the default graph.

    `Normalization` computes its mean and variance once, when it is built. A layer is built in a graph that is
    discarded, and called in others. The tensors are computed from the ports that replace the weights in the
    open stateless scope.
    """
    for each in flattened_layers(layer):
        if not isinstance(each, keras.layers.Normalization) or not each.built:
            continue
        if each.input_mean is None:
            each.finalize_state()
        else:
            each.build(input_shape_of(each))
