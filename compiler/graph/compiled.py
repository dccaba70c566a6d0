"""A compiled spec: a graph that any session can run, and handles on its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import tensorflow as tf
from attrs import field, frozen

from compiler.graph.feeding import InputPipe
from compiler.graph.gradients.weighting import LossSum
from compiler.graph.ledger import Ledger
from compiler.graph.tower.template import WeightInfo
from compiler.graph.variables.variables import AVERAGE, GraphVariable
from compiler.graph.workers.exchange import WorkerExchange
from compiler.plan import Plan
from compiler.step.step import Step
from dsl.diagnostics import Diagnostic


@frozen
class Clone:
    """One tower.

    Attributes:
        outputs: What the model returns for its batch, a tensor or a dict of tensors by the names of outputs.
            With several micro-batches, for the last of them.
        loss: The mean loss over its own batch, without regularisation; a scalar.
    """

    index: int
    scope: str
    device: str
    outputs: tf.Tensor | dict[str, tf.Tensor] = field(repr=False)
    loss: tf.Tensor = field(repr=False)


@frozen
class MetricTensors:
    """A Keras metric over the global batch of a step.

    Attributes:
        states: The state variables of the metric after this batch alone.
        result: The metric as computed from `states`. To get it over several batches, add up their states and
            feed the sums in place of `states`.
    """

    states: tuple[tf.Tensor, ...] = field(repr=False)
    result: tf.Tensor = field(repr=False)


@frozen
class Evaluation:
    """The tower that evaluates and predicts, for batches of any size, with averaged weights if `ema` is set.

    Attributes:
        outputs: What the model returns, a tensor or a dict of tensors by the names of outputs.
        loss: The mean loss over the batch, with what layers add to it and without `regularization`; a scalar.
        losses: The parts of the loss. To get the loss over several batches, average each part by the sizes of
            the batches before any of them is divided by its weight.
    """

    pipe: InputPipe = field(repr=False)
    outputs: tf.Tensor | dict[str, tf.Tensor] = field(repr=False)
    loss: tf.Tensor = field(repr=False)
    losses: tuple[LossSum, ...] = field(repr=False)
    regularization: tf.Tensor = field(repr=False)
    count: tf.Tensor = field(repr=False)
    metrics: Mapping[str, MetricTensors] = field(repr=False)


@frozen
class TrainLoop:
    """What one clone repeats in async training, in a thread of its own."""

    clone: int
    batch: int
    train_op: tf.Operation = field(repr=False)  # does one update from one batch of the clone
    loss: tf.Tensor = field(repr=False)  # the loss of that batch with the regularisation term; a scalar
    data_loss: tf.Tensor = field(repr=False)  # the loss of that batch without it
    metrics: Mapping[str, MetricTensors] = field(repr=False)
    # The seconds that the update has waited for the batch, or None if they are not measured.
    waited: tf.Tensor | None = field(default=None, repr=False)


@frozen
class CompiledGraph:
    """A compiled spec.

    The record does not change when the graph runs. Functions of `compiler.graph.inspect` make its placement
    map and its forecast of memory; what sessions have found is passed to them.

    Attributes:
        total_loss: The mean loss over the global batch with the regularization term; a scalar.
        losses: The parts of `data_loss`.
        learning_rates: The learning rate of each group of weights by its glob; empty without an optimizer.
        train_op: Does one step, or None if the spec has no optimizer.
        summary_op: All summaries of a step in one tensor, or None if the spec has none.
        init_op: Initialises everything except the data.
        after_restore_op: Run it after restoring the saved variables, to make other copies equal to them.
        after_apart_op: The same for those of `kept_apart`, which are restored after that; None if there is
            nothing to do.
        saved: The variables of a checkpoint, by their names there.
        copies: The variables of single clones in a checkpoint, by their names there, if each clone trains a
            copy of its own (local). They are restored after `after_restore_op`.
        train_loops: What each clone repeats, if each updates by itself (async). `train_op` then does one
            update of every clone.
        publish_op: If it is not None (local), run it before evaluating or saving; it updates the variables
            that these read.
        exchange: What a worker with a graph of its own runs instead of `train_op`, else None.
        loss_scale: The scale that a step works with, with `mixed_float16`, else None.
        applied: Whether the gradients of a step were finite, with `mixed_float16`, else None. A step whose
            gradients are not finite only changes the scale, and `global_step` does not count it.
        everyone: Compiles the spec for each worker, if workers send each other something in a step.
        assumed: Compiles the spec with the sizes that forecasts assume; None if all inputs have fixed sizes.
    """

    plan: Plan = field(repr=False)
    ledger: Ledger = field(repr=False)
    weights: Mapping[str, WeightInfo] = field(repr=False)
    variables: Mapping[str, GraphVariable] = field(repr=False)
    clones: tuple[Clone, ...]
    global_step: Any
    total_loss: tf.Tensor
    data_loss: tf.Tensor
    losses: tuple[LossSum, ...]
    regularization: tf.Tensor
    metrics: Mapping[str, MetricTensors]
    learning_rates: Mapping[str, tf.Tensor]
    train_op: tf.Operation | None
    summary_op: tf.Tensor | None
    init_op: tf.Operation
    after_restore_op: tf.Operation
    saved: Mapping[str, Any] = field(repr=False)
    train_inputs: tuple[InputPipe, ...] = field(repr=False)
    evaluation: Evaluation = field(repr=False)
    train_loops: tuple[TrainLoop, ...] = ()
    publish_op: tf.Operation | None = None
    after_apart_op: tf.Operation | None = None
    copies: Mapping[str, Any] = field(factory=dict, repr=False)
    exchange: WorkerExchange | None = field(default=None, repr=False)
    loss_scale: tf.Tensor | None = None
    applied: tf.Tensor | None = None
    graph: tf.Graph = field(default=None, repr=False)
    seed: int = 0
    warnings: tuple[Diagnostic, ...] = ()
    everyone: Callable[[], Sequence[CompiledGraph]] = field(default=tuple, repr=False)
    assumed: Callable[[], CompiledGraph] | None = field(default=None, repr=False)
    _read: Callable[[CompiledGraph], Step] = field(kw_only=True, repr=False)

    @property
    def kept_apart(self) -> list[str]:
        """The names in checkpoints of what is on several workers, if each has a graph of its own."""
        cut = [each.parts_of_workers[0] for each in self.variables.values() if each.parts_of_workers]
        slots = [f"{each.weight}/{suffix}" for each in cut for suffix in each.slots]
        averages = [f"{each.weight}/{AVERAGE}" for each in cut if each.average is not None]
        return [*self.copies, *slots, *averages]

    @cached_property
    def step(self) -> Step:
        """The step, as records that are read when they are first asked for."""
        return self._read(self)

    @property
    def sized_step(self) -> Step:
        """The step of the same plan with the sizes that forecasts assume in place of those that are free."""
        return self.step if self.assumed is None else self.assumed().step

    @property
    def train_input(self) -> InputPipe:
        """The input of the first clone, or of all clones if they share one stream."""
        return self.train_inputs[0]
