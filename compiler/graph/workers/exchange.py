"""What a worker with a graph of its own runs in place of a train op, and its report of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import tensorflow as tf
from attrs import field, frozen

from compiler.graph.fragments import write_traced
from compiler.graph.gradients.weighting import LossSum
from compiler.graph.update.step import Updates
from compiler.graph.workers.coordination import Coordination
from compiler.graph.workers.meeting import Meeting
from compiler.plan import Worker
from compiler.step.mailboxes import Box
from compiler.step.record import Crossing, Run, Tensor
from compiler.step.sums.between import Inbox
from compiler.step.writer import Spot

REPORTED = 4
"""The numbers in a report before the metrics: updates made, both losses, examples a second."""


@frozen
class WorkerExchange:
    """What a worker runs instead of a plain train op."""

    worker: Worker
    coordination: Coordination | None = None  # the state that the workers share, if they share the variables
    # Async: does an update if the worker's generation is still current, and claims the next one. The result
    # is that of `Coordination.claim`.
    step: Any = field(default=None, repr=False)
    tick: Any = field(default=None, repr=False)  # sync: a placeholder for the step of the gradients
    post: Any = field(default=None, repr=False)  # sync: puts the gradients into the mailboxes
    # Sync: the state after `post`, as soon as the worker's bell has been rung.
    posted: Any = field(default=None, repr=False)
    # Sync: the state, as soon as the worker's bell has been rung. The chief's is rung when enough gradients
    # have arrived, and those of the others when the next step begins.
    heard: Any = field(default=None, repr=False)
    wake: Any = field(default=None, repr=False)  # sync: rings the worker's own bell
    # Sync, chief: applies the gradients. Run it when enough have arrived.
    apply: Any = field(default=None, repr=False)
    # Sync, chief: two tensors. In a run of `apply` in which the first is put in the place of the second, it
    # runs `post`, applies the gradients as soon as its bell is rung, and fails at the op named `required` if
    # enough have not arrived by then.
    at_once: tuple[Any, Any] | None = field(default=None, repr=False)
    required: str | None = None
    # Sync, chief: a placeholder for one for each worker that has arrived and zero for the others, if workers
    # may be missing.
    present: Any = field(default=None, repr=False)
    clear: Any = field(default=None, repr=False)  # sync, chief: empties the mailboxes before the first step
    # The learning rate of each group of weights, by its glob; scalars.
    learning_rates: Mapping[str, Any] = field(factory=dict, repr=False)
    # The sums of the parts of the loss over all workers.
    losses: tuple[LossSum, ...] = field(default=(), repr=False)
    # The sums of the states of the metrics over all workers.
    states: tuple[Any, ...] = field(default=(), repr=False)
    gradients: Mapping[str, Tensor] = field(factory=dict, repr=False)
    # The names of the ops that only the chief has.
    chief_ops: frozenset[str] = field(default=frozenset(), repr=False)
    report: Any = field(default=None, repr=False)  # async: a placeholder for numbers about the worker
    # Async: writes them into the worker's row of `reports`.
    send_report: Any = field(default=None, repr=False)
    reports: Any = field(default=None, repr=False)  # async: the reports, with one row for each worker
    boxes: tuple[Box, ...] = field(default=(), repr=False)
    # If each worker has all weights: the state of the workers. `post` then sums the gradients over all
    # workers, and every worker has an `apply`.
    meeting: Meeting | None = field(default=None, repr=False)
    # The ops that send this worker's parts of the sums to others; they are run with `post`.
    sends: tuple[Any, ...] = field(default=(), repr=False)
    # If each worker updates parts of the weights: gives its copies the new parts of all workers. It may be
    # run again, and is run after each `apply`. If each trains weights of its own (local): makes the means
    # over all workers, after each `apply` after which these are due.
    share: Any = field(default=None, repr=False)
    # The ops that send this worker's parts to others; they are run with `share`.
    share_sends: tuple[Any, ...] = field(default=(), repr=False)
    # Local: gives the copies of this worker the means that `share` has kept.
    give: Any = field(default=None, repr=False)
    # Local: how many times `share` has kept means that `give` has not taken yet.
    shared: Any = field(default=None, repr=False)
    # Local: makes the mean of this worker's own copies what others take, if they begin anew.
    offer: Any = field(default=None, repr=False)
    # Local, chief: makes the mean of the copies of all workers what is evaluated and saved.
    publish: Any = field(default=None, repr=False)
    staged: Any = field(default=None, repr=False)  # how many sums have been made and not been applied yet
    unstage: Any = field(default=None, repr=False)  # forgets these sums
    inbox: Inbox | None = field(default=None, repr=False)
    crossings: tuple[Crossing, ...] = field(default=(), repr=False)  # all messages between workers in a step
    # The names of the ops on the devices of other workers.
    abroad: frozenset[str] = field(default=frozenset(), repr=False)
    # What workers keep for themselves of what they have not sent, by its names in checkpoints: what this one
    # keeps, and on the chief also the others.
    kept: Mapping[str, Any] = field(factory=dict, repr=False)
    # Makes what this worker keeps zero; None if nothing is kept.
    forget: Any = field(default=None, repr=False)
    # On the chief, how much each of the others has applied, if anything is kept.
    settled: Any = field(default=None, repr=False)

    @property
    def updates(self) -> Updates:
        """The record that other update modes return, with the train op of this graph alone."""
        rates = self.learning_rates
        return Updates(self.ends[-1], rates, publish_op=self.publish, gradients=self.gradients)

    @property
    def keeps_apart(self) -> bool:
        """Whether each worker has something without which no other can go on."""
        return self.share is not None and self.give is None

    @property
    def is_lender(self) -> bool:
        """Whether the chief needs this worker for a checkpoint."""
        return self.share is not None or bool(self.kept)

    @property
    def ends(self) -> tuple[Run, ...]:
        """The ops with which a step of this worker ends."""
        ends = (each for each in (self.step, self.post, self.apply) if each is not None)
        return tuple(Run(each.name.partition(":")[0]) for each in ends)

    def drain(self, run: Callable[[Any], Any]) -> None:
        """Drop all messages, and a sum that has not been applied: they are of steps that have broken.

        Args:
            run: Runs something in a session of the worker.
        """
        assert self.inbox is not None
        run(self.unstage)
        while any(sizes := run(self.inbox.sizes)):
            run([op for op, size in zip(self.inbox.drops, sizes, strict=True) if size])


def scores_in(
    at: Spot,
    total: Tensor,
    losses: Sequence[LossSum],
    scores: Sequence[Tensor],
    present: Tensor | None = None,
    workers: int = 1,
) -> tuple[tuple[LossSum, ...], tuple[Tensor, ...]]:
    """Write the parts of the loss, and states of metrics, that are in the sum of the reports of workers.

    Args:
        present: One for each worker that has reported and zero for the others, if any may be missing.
    """
    kinds = tuple((each.dtype, each.known_shape) for each in scores)
    parts = sum(len(each.tensors) for each in losses)
    found = write_traced(at, _scores, total, present, kinds=kinds, parts=parts, workers=workers)
    of_all = tuple(LossSum(*(found.pop(0) for _ in each.tensors)) for each in losses)
    return of_all, tuple(found)


def reported(scores: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the scores of a step as one vector."""
    return tf.concat([tf.reshape(tf.cast(each, tf.float32), [-1]) for each in scores], 0)


def _scores(
    total: tf.Tensor,
    present: tf.Tensor | None,
    kinds: Sequence[tuple[str, tuple[int, ...]]],
    parts: int,
    workers: int,
) -> list[tf.Tensor]:
    """Return scores from a report; the first `parts` are those of the loss, which missing workers lack."""
    pieces = tf.split(total, [prod(shape) for _, shape in kinds])
    found = [
        tf.cast(tf.reshape(piece, tf.TensorShape(shape)), dtype)
        for piece, (dtype, shape) in zip(pieces, kinds, strict=True)
    ]
    if present is not None:
        missing = workers / tf.reduce_sum(present)
        found[:parts] = [each * missing for each in found[:parts]]
    return found
