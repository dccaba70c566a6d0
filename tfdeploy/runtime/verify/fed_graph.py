"""A graph whose variables and inputs are given their values from outside, in any number of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from attrs import define, field

from compiler.graph.variables.cut_variable import pieces_of, variables_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from compiler.graph.compiled import CompiledGraph
    from compiler.graph.inputs.iterators import InputPipe

Arrays = Mapping[str, Any]


@define(eq=False)
class FedGraph:
    """A compiled graph, with ops that take values for its variables and its inputs from placeholders.

    The graph holds no examples itself. The ops are made when they are first needed, and serve all sessions of
    the graph.

    Attributes:
        compiled: The graph.
    """

    compiled: CompiledGraph
    _setters: dict[str, list[tuple[tf.Tensor, tf.Operation]]] = field(factory=dict, init=False, repr=False)
    _starts: dict[Any, tuple[tf.Operation, dict[str, tf.Tensor]]] = field(
        factory=dict, init=False, repr=False
    )

    def assign(self, session: Any, values: Arrays) -> None:
        """Give variables, and all copies of them, new values; `values` are by their names in a checkpoint.

        Args:
            session: A session of the graph.
            values: The values of whole variables, by their names in a checkpoint.
        """
        ops: list[tf.Operation] = []
        feed: dict[tf.Tensor, Any] = {}
        for name, value in values.items():
            setters, saved = self._setters_of(name), self.compiled.saved[name]
            ops += [op for _, op in setters]
            feed |= {given: piece for (given, _), piece in zip(setters, pieces_of(saved, value), strict=True)}
        session.run(ops, feed)
        session.run(self.compiled.after_restore_op)

    def train_on(self, session: Any, arrays: Arrays, before: int = 0, total: int = 0) -> None:
        """Feed all pipes for training from arrays: of each step's examples, every pipe takes the next part.

        Args:
            session: The session.
            arrays: The examples of all steps, by the names of inputs.
            before: The number of examples of a step that other graphs take before this one.
            total: The number of examples of a step of all graphs; 0 if there is no other graph.
        """
        pipes = self.compiled.train_inputs
        total = total or sum(pipe.examples for pipe in pipes)
        for pipe in pipes:
            steps = len(next(iter(arrays.values()))) // total
            rows = np.concatenate([np.arange(pipe.examples) + step * total + before for step in range(steps)])
            own = {name: array[rows] for name, array in arrays.items()}
            self._start(session, pipe, own, partial(_batches, pipe.size))
            before += pipe.examples

    def evaluate_on(self, session: Any, batch: Arrays) -> None:
        """Feed the evaluation with one batch.

        Args:
            session: A session of the graph.
            batch: The examples by the names of the inputs.
        """
        self._start(session, self.compiled.evaluation.pipe, batch, tf.data.Dataset.from_tensors)

    def _start(
        self,
        session: Any,
        pipe: InputPipe,
        arrays: Arrays,
        dataset_of: Callable[[dict[str, tf.Tensor]], tf.data.Dataset],
    ) -> None:
        """Start a pipe on the dataset made of arrays; for arrays of the same shapes, by the same op."""
        shapes = {name: (array.dtype, array.shape) for name, array in arrays.items()}
        key = pipe.name, tuple(shapes.items())
        if key not in self._starts:
            given: dict[str, tf.Tensor] = {}

            def make() -> tf.data.Dataset:
                given.update({name: tf.compat.v1.placeholder(*each) for name, each in shapes.items()})
                return dataset_of(given)

            self._starts[key] = pipe.attach(make), given
        op, given = self._starts[key]
        session.run(op, {given[name]: array for name, array in arrays.items()})

    def _setters_of(self, name: str) -> list[tuple[tf.Tensor, tf.Operation]]:
        """Return a placeholder, and the op that gives its value to a variable, for each piece of a tensor."""
        if name not in self._setters:
            self._setters[name] = []
            with self.compiled.graph.as_default():
                for variable in variables_of(self.compiled.saved[name]):
                    given = tf.compat.v1.placeholder(variable.dtype, variable.shape)
                    op = tf.raw_ops.AssignVariableOp(resource=variable.handle, value=given)
                    self._setters[name].append((given, op))
        return self._setters[name]


def _batches(size: int | None, tensors: dict[str, tf.Tensor]) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(tensors).repeat().batch(size, drop_remainder=True)
