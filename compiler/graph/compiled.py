"""What compiling a spec gives: a graph that any session can run, and handles on its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import field, frozen

from compiler.graph.gradients.weighting import LossSum
from compiler.graph.inputs.iterators import InputPipe
from compiler.graph.ledger import Ledger
from compiler.graph.tower.template import WeightInfo
from compiler.graph.variables.variables import GraphVariable
from compiler.plan import Plan
from dsl.diagnostics import Diagnostic

if TYPE_CHECKING:
    from compiler.graph.workers.updates import WorkerExchange


@frozen
class Clone:
    """One tower: `outputs` of the model, and `loss`, the mean over its own batch without regularisation.

    Under `accumulate` the outputs are those of the last micro-batch, the loss is the mean of all.
    """

    index: int
    scope: str
    device: str
    outputs: tf.Tensor = field(repr=False)
    loss: tf.Tensor = field(repr=False)


@frozen
class MetricTensors:
    """A Keras metric over the global batch of a step.

    `states` are its state variables as this batch alone leaves them: add those of several batches up and feed
    the sums in their place, and `result` is the metric over all of them.
    """

    states: tuple[tf.Tensor, ...] = field(repr=False)
    result: tf.Tensor = field(repr=False)


@frozen
class Evaluation:
    """The tower as it predicts, for a batch of any size, with the averaged weights if `ema` is set.

    `loss` is the mean over the batch, with what layers add to it, and without `regularization`, a scalar of
    its own: the penalty of the very weights that are evaluated. `count` is the batch's size. `losses` are
    what the loss is made of, means over the batch, to be averaged over several batches by their sizes before
    any is divided by its weight.
    """

    pipe: InputPipe = field(repr=False)
    outputs: tf.Tensor = field(repr=False)
    loss: tf.Tensor = field(repr=False)
    losses: tuple[LossSum, ...] = field(repr=False)
    regularization: tf.Tensor = field(repr=False)
    count: tf.Tensor = field(repr=False)
    metrics: Mapping[str, MetricTensors] = field(repr=False)


@frozen
class TrainLoop:
    """What one clone repeats in async training, in a thread of its own.

    `train_op` does one update from one batch of the clone. `loss` (with the regularisation term), `data_loss`
    and `metrics` are computed from that batch. `waited` is how many seconds the update has waited for the
    batch, None if that is not measured.
    """

    clone: int
    batch: int
    train_op: tf.Operation = field(repr=False)
    loss: tf.Tensor = field(repr=False)
    data_loss: tf.Tensor = field(repr=False)
    metrics: Mapping[str, MetricTensors] = field(repr=False)
    waited: tf.Tensor | None = field(default=None, repr=False)


@frozen
class CompiledGraph:
    """A compiled spec.

    The record does not change when the graph runs: functions of `compiler.graph.inspect` make its placement
    map and its memory forecast, and take what sessions have found out as arguments.

    Attributes:
        data_loss: The mean loss over the global batch, made of `losses`; a scalar, as `total_loss`.
        total_loss: The same with the regularisation term.
        train_op: Does one step. None if the spec has no optimizer.
        train_loops: What each clone repeats, if each updates by itself (async); then `train_op` does one
            update of every clone.
        init_op: Initialises everything but the data.
        saved: The variables of a checkpoint, by their names there.
        after_restore_op: Run it after restoring the saved variables: it makes the other copies equal to them.
        publish_op: If it is not None (local), run it before evaluating or saving: it updates what these read.
        loss_scale: The scale that a step works with, under `mixed_float16`, else None.
        applied: Whether the gradients of a step were finite, under `mixed_float16`, else None. A step whose
            gradients are not finite changes nothing but the scale, and `global_step` does not count it.
        warnings: What is strange about the spec, but no error.
    """

    plan: Plan = field(repr=False)
    graph: tf.Graph = field(repr=False)
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
    learning_rate: tf.Tensor | None
    train_op: tf.Operation | None
    summary_op: tf.Tensor | None
    init_op: tf.Operation
    after_restore_op: tf.Operation
    saved: Mapping[str, Any] = field(repr=False)
    train_inputs: tuple[InputPipe, ...] = field(repr=False)
    evaluation: Evaluation = field(repr=False)
    train_loops: tuple[TrainLoop, ...] = ()
    publish_op: tf.Operation | None = None
    exchange: WorkerExchange | None = field(default=None, repr=False)
    loss_scale: tf.Tensor | None = None
    applied: tf.Tensor | None = None
    seed: int = 0
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def train_input(self) -> InputPipe:
        """The input of the first clone, or of all clones if they share one stream."""
        return self.train_inputs[0]
