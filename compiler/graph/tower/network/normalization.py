"""Batch normalization over several clones, and the exchange of the statistics of the whole batch.

A synchronized layer normalizes by the moments of the batches of all clones. In a traced tower, its own
moments are sent, and those of the whole batch are received through ports. In the backward pass the gradients
by the whole batch's moments are sent, and their sums over all towers are received. `write_exchanges` writes
the sums between the towers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.adapters.keras_private import Functional, OwnMoments, flattened_layers, reduction_axes
from compiler.graph.tower.template import MomentExchange, make_port
from compiler.plan import Plan, WorkerPlan


@frozen
class SyncPolicy:
    """Which layers normalize by the whole batch."""

    every: bool  # whether all do, and not only those with `synchronized = true`
    refusal: str | None = None  # the reason why layers cannot do so in this plan, or None if they can

    def wants(self, layer: Any) -> bool:
        """Whether a layer is to normalize by the whole batch. A frozen one normalizes by no batch."""
        is_one = isinstance(layer, keras.layers.BatchNormalization) and layer.trainable
        return is_one and (self.every or layer.synchronized)


def sync_policy(plan: Plan) -> SyncPolicy | None:
    """Return the policy of a plan, or None if there is only one clone that makes a step with the others."""
    together = plan.all_towers if isinstance(plan, WorkerPlan) and plan.keeps_all else plan.towers
    if len(together) == 1:
        return None
    update, refusal = plan.update, None
    if update.mode != "sync":
        refusal = f"under `mode = {update.mode}` clones do not compute at the same time"
    elif update.accumulate > 1:
        refusal = "the whole batch is not known before the last of its micro-batches"
    return SyncPolicy(update.batch_norm == "synchronized", refusal)


_CURRENT: ContextVar[tuple[Exchanges, str] | None] = ContextVar(
    "exchanges of the layer that is called", default=None
)


def exchanges_for(layer: keras.Layer) -> tuple[Exchanges, str] | None:
    """Return the exchanges in which a layer that is being called takes part, and the path of its step.

    The result is None if the layer normalizes by the batch of its own tower.
    """
    current = _CURRENT.get()
    return current if current is not None and current[0].policy.wants(layer) else None


@define
class Exchanges:
    """Collects the exchanges of a tower while it is traced."""

    policy: SyncPolicy
    graph: tf.Graph = field(repr=False)
    found: list[MomentExchange] = field(factory=list)

    @contextmanager
    def within(self, layer: keras.Layer, path: str) -> Iterator[None]:
        """Let the batch normalizations in a layer exchange moments while the layer is called.

        Raises:
            ValueError: The policy wants a layer to use the whole batch, but the plan forbids it.
        """
        if self.policy.refusal is not None and any(map(self.policy.wants, flattened_layers(layer))):
            raise ValueError(f"its statistics cannot be synchronized: {self.policy.refusal}")
        before = _CURRENT.set((self, path))
        try:
            yield
        finally:
            _CURRENT.reset(before)

    def whole_batch(
        self, path: str, layer: Any, inputs: tf.Tensor, mask: Any, masked: Callable[[], Any]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the mean and variance of the batches of all clones.

        Args:
            mask: Which positions of it count, or None if all do.
            masked: Computes the mean and variance of this tower's batch if there is a mask.

        Raises:
            ValueError: The layer is called in the body of a loop, which is a graph of its own.
        """
        if tf.compat.v1.get_default_graph() is not self.graph:
            raise ValueError("its statistics cannot be synchronized: it is inside a loop")
        if mask is None:
            mean, variance = keras.ops.moments(inputs, axes=reduction_axes(layer))
            count = tf.cast(tf.size(inputs) // tf.size(mean), mean.dtype)
        else:
            mean, variance = masked()
            count = tf.reduce_sum(tf.cast(mask, mean.dtype))
        name = f"{path}/{len(self.found)}"
        mean, variance, _ = self._exchange(name)(mean, variance, count)
        return mean, variance

    def _exchange(self, name: str) -> Callable[..., Any]:
        """Return a function of a tower's moments that returns those of the whole batch, with its gradient.

        With n the elements of a tower and N those of all, M = sum(n m) / N and V = sum(n (v + (m - M)^2)) /
        N. Therefore dM/dm = n/N, dV/dm = 2 n/N (m - M) and dV/dv = n/N.
        """

        def exchange(mean: tf.Tensor, variance: tf.Tensor, count: tf.Tensor) -> Any:
            received = _ports(f"{name}/moments", ("mean", "variance", "count"), (mean, variance, count))
            shape = tuple(mean.shape.as_list())
            traced = MomentExchange(name, (mean, variance, count), received, mean.dtype.name, shape)
            self.found.append(traced)

            def gradient(by_mean: tf.Tensor, by_variance: tf.Tensor, _: tf.Tensor) -> Any:
                kind = gradients_kind(len(traced.gradients_sent))
                total = _ports(f"{name}/{kind}", ("mean", "variance"), (mean, variance))
                traced.gradients_sent.append((by_mean, by_variance))
                traced.gradients_received.append(total)
                total_mean, total_variance = total
                share = count / received[2]
                change = total_mean + 2 * total_variance * (mean - received[0])
                return share * change, share * total_variance, None

            return received, gradient

        return tf.custom_gradient(exchange)


def _ports(name: str, parts: Sequence[str], like: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
    return tuple(
        make_port(each.dtype, each.shape, f"synchronized/{name}/{part}")
        for part, each in zip(parts, like, strict=True)
    )


def gradients_kind(number: int) -> str:
    """Return the name, in its exchange, of the gradients of one backward pass through a layer.

    There are several passes if parts of the loss are differentiated separately.
    """
    return f"gradients_{number}" if number else "gradients"


def whole_moments(
    sent: Sequence[Sequence[tf.Tensor]], divide: Callable[..., tf.Tensor] = tf.divide
) -> list[tf.Tensor]:
    """Return mean, variance and number of elements of all batches.

    What is computed for one batch is in a scope that has the number of its clone.
    """
    total = tf.add_n([count for _, _, count in sent], name="count")
    shares, means, variances = [], [], []
    for clone, (own, _, count) in enumerate(sent):
        with tf.name_scope(f"clone_{clone}"):
            shares.append(divide(count, total, name="share"))
            means.append(tf.multiply(shares[-1], own, name="mean"))
    mean = tf.add_n(means, name="mean")
    for clone, (own, variance, _) in enumerate(sent):
        with tf.name_scope(f"clone_{clone}/"):  # the same scope as above
            around = tf.add(variance, tf.square(own - mean), name="around_mean")
            variances.append(tf.multiply(shares[clone], around, name="variance"))
    return [mean, tf.add_n(variances, name="variance"), total]


def summed_gradients(sent: Sequence[Sequence[tf.Tensor]]) -> list[tf.Tensor]:
    """Return the sums over all towers of the gradients by mean and variance."""
    by_mean, by_variance = zip(*sent, strict=True)
    return [tf.add_n(list(by_mean), name="mean"), tf.add_n(list(by_variance), name="variance")]


# --- the batch normalizations of which towers are made, in the stead of those of Keras --------------------
#
# They compute the same as Keras's own, apart from rounding, and differ in two ways:
#
# - Images are normalized by one fused op. Keras composes the normalization of some twenty small ops, and its
#   gradient of twice as many. Each op goes through all activations, and is made and scheduled for every
#   clone.
# - If clones normalize by the whole batch, mean and variance of a tower are exchanged with the other towers.
#
# A model that is exported is made of Keras's own layers, so that it loads without this package.


SMALLEST_EPSILON = 1.001e-5  # cuDNN's kernel uses a larger epsilon instead of a smaller one than this
IMAGE_RANK = 4  # the axes of a batch of images: examples, height, width, channels


class SynchronizedMoments(OwnMoments):
    """A batch normalization that uses mean and variance of the whole batch if the tower exchanges them."""

    def moments(self, inputs: Any, mask: Any) -> tuple[Any, Any]:
        """Return the mean and variance by which inputs are normalized during training.

        Args:
            mask: Which positions of the batch count, or None if all do. It has one axis less than the batch.

        Returns:
            Two tensors with one number for each channel.
        """
        current = exchanges_for(self)
        if current is None:
            return super().moments(inputs, mask)
        exchanges, path = current
        return exchanges.whole_batch(
            path, self, inputs, mask, lambda: super(SynchronizedMoments, self).moments(inputs, mask)
        )


class BatchNormalization(SynchronizedMoments):
    """A batch normalization that is one op if its inputs are images.

    It has the name of Keras's class because Keras names layers, and so their weights, after their class.
    """

    def call(self, inputs: tf.Tensor, training: bool | None = None, mask: Any = None) -> tf.Tensor:
        """Normalize a batch, and move the moving statistics towards those of the batch during training.

        The fused op gives the unbiased variance of the batch. Keras moves towards the biased one, so the
        correction is undone.

        Args:
            training: Whether the statistics are those of the batch, and not the moving ones.
            mask: Which positions of the batch count, or None if all do.

        Returns:
            The normalized batch, in the compute dtype of the layer.
        """
        batch = bool(training) and self.trainable
        count: Any = inputs.shape[:-1].num_elements() if inputs.shape.rank else None  # numbers in one channel
        if not self._is_image(inputs) or (batch and (mask is not None or not count)):
            return super().call(inputs, training=training, mask=mask)
        moving = self.moving_mean.value, self.moving_variance.value
        mean, variance = (tf.cast(each, tf.float32) for each in moving)
        nothing = tf.constant([], tf.float32)
        result = tf.raw_ops.FusedBatchNormV3(
            x=tf.cast(inputs, tf.float32),
            scale=tf.cast(self.gamma.value, tf.float32) if self.scale else tf.ones(mean.shape),
            offset=tf.cast(self.beta.value, tf.float32) if self.center else tf.zeros(mean.shape),
            mean=nothing if batch else mean,
            variance=nothing if batch else variance,
            epsilon=self.epsilon,
            is_training=batch,
        )
        if batch:
            new, bias = 1 - self.momentum, max(count - 1, 1) / count
            self.moving_mean.assign(mean * self.momentum + result.batch_mean * new)
            self.moving_variance.assign(variance * self.momentum + result.batch_variance * (bias * new))
        return tf.cast(result.y, self.compute_dtype)

    def _is_image(self, inputs: tf.Tensor) -> bool:
        """Whether the fused op can compute what the layer does with these inputs."""
        return (
            not self.renorm
            and exchanges_for(self) is None
            and inputs.shape.rank == IMAGE_RANK
            and self.axis in (-1, IMAGE_RANK - 1)
            and self.epsilon >= SMALLEST_EPSILON
            and inputs.dtype != tf.float64
        )


TOWER_CLASSES: Mapping[Any, type[keras.Layer]] = {keras.layers.BatchNormalization: BatchNormalization}
"""The classes of Keras in whose stead a tower has layers of this module."""


def with_tower_layers(layer: keras.Layer) -> keras.Layer:
    """Return a layer or model that Keras or a user has made, with the layers of this module in it.

    A functional or sequential model is cloned. Its other layers are shared with the clone. If a class of the
    user's holds a batch normalization, only that class knows in which attributes, so that the layer cannot be
    exchanged for another one; it becomes an instance of our subclass.

    Args:
        layer: A layer or model whose variables have not been created.

    Returns:
        The layer itself if there is no batch normalization in it.
    """
    known = type(layer)
    if not any(isinstance(each, keras.layers.BatchNormalization) for each in flattened_layers(layer)):
        return layer
    if known in TOWER_CLASSES:
        return TOWER_CLASSES[known].from_config(layer.get_config())
    if known in (keras.Sequential, Functional):
        return keras.models.clone_model(layer, clone_function=_with_tower_layers)
    for each in flattened_layers(layer):
        if isinstance(each, keras.layers.BatchNormalization) and not isinstance(each, SynchronizedMoments):
            own = type(each)
            each.__class__ = TOWER_CLASSES.get(own) or type(own.__name__, (SynchronizedMoments, own), {})
    return layer


def _with_tower_layers(part: Any) -> Any:
    """Return a layer of a model for its clone; operations that are no layers stay."""
    return with_tower_layers(part) if isinstance(part, keras.Layer) else part
