"""Finds the example with which an op of the model fails, after a step or an evaluation has failed.

The evaluation tower is run over the examples in the order of the files, in batches and then one by one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import evolve

from dsl.diagnostics import Label
from dsl.errors import data as errors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from compiler.graph.inputs.iterators import InputPipe
    from dsl.diagnostics import Diagnostic
    from tfdeploy.data import Stream
    from tfdeploy.runtime.session.engine import Engine

OUT_OF_RANGE = re.compile(
    r"(?:label value of|indices\[[\d, ]*\] =) (-?\d+) (?:which is outside the valid range of|is not in)"
    r" \[0, (\d+)\)"
)
"""What TensorFlow says of a number of a class, or of a row of a table, that is none."""


def completed(batches: Any, pipe: InputPipe, stream: Stream) -> Any:
    """Return batches with zeros for the inputs of a pipe that the stream does not feed.

    Args:
        batches: A dataset of dicts of tensors with a batch axis.
        pipe: The pipe.
        stream: The stream that they are from.
    """
    there = {each.name for each in stream.fields}
    missing = [each for each in pipe.wanted if each.name not in there]

    def with_zeros(tensors: dict[str, Any]) -> dict[str, Any]:
        count = tf.shape(next(iter(tensors.values())))[0]
        zeros = {
            each.name: tf.zeros((count, *(1 if size is None else size for size in each.shape)), each.dtype)
            for each in missing
        }
        return {**tensors, **zeros}

    return batches.map(with_zeros) if missing else batches


def failing_example(
    engine: Engine, stream: Stream, used: int | None = None, *, predicts: bool = False
) -> tuple[int, Exception] | None:
    """Return the first example with which the model fails, in the order of the files, and the error.

    Args:
        engine: The session.
        stream: The examples.
        used: How many examples have been used, among which it is; None for all.
        predicts: Whether outputs are computed, and else losses and metrics.

    Returns:
        Its number, as `Stream.where` takes it, and the error; None if the model fails with none of them.
    """
    size = engine.compiled.plan.towers[0].batch
    batch = _first_failure(engine, stream, lambda: stream.in_order(size, used), predicts=predicts)
    if batch is None:
        return None
    start = batch[0] * size
    one = _first_failure(
        engine, stream, lambda: stream.in_order(1, start=start).take(size), predicts=predicts
    )
    return None if one is None else (start + one[0], one[1])


def _first_failure(
    engine: Engine, stream: Stream, batches: Callable[[], Any], *, predicts: bool
) -> tuple[int, Exception] | None:
    evaluation = engine.compiled.evaluation
    states = [each.states for each in evaluation.metrics.values()]
    scores = [[each.tensors for each in evaluation.losses], states]
    count = 0
    try:
        start = evaluation.pipe.attach(lambda: completed(batches(), evaluation.pipe, stream))
        engine.session.run(start)
        run = engine.session.make_callable(tf.nest.flatten(evaluation.outputs if predicts else scores))
        while True:
            run()
            count += 1
    except tf.errors.InvalidArgumentError as fault:
        return count, fault
    except tf.errors.OpError:  # the end, or a fault of something else
        return None


def at_example(
    told: Diagnostic, reason: str, stream: Stream, number: int, inputs: Collection[str]
) -> Diagnostic:
    """Return the diagnostic about a failure of the model, with the example that has caused it.

    Args:
        told: What is said of the failure without it.
        reason: The reason that TensorFlow gives.
        stream: The examples.
        number: The number of the example.
        inputs: The inputs of the model that the op which has failed may read.
    """
    found = OUT_OF_RANGE.search(reason)
    if found is None:
        return evolve(told, notes=(f"it fails with {stream.where(number).words}", *told.notes))
    value, last = found[1], int(found[2]) - 1
    fault = errors.out_of_range(
        stream.where_holding(number, int(value), inputs),
        value=value,
        reason=f"is outside the range of 0 to {last}",
    )
    label = (Label(told.span, f"takes 0 to {last}"),) if told.span is not None else ()
    return evolve(fault, labels=(*fault.labels, *label))
