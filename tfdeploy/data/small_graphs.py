"""Small graphs that are run at once, to look at a first record and to find a faulty one."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import tensorflow as tf

from compiler.graph.session_options import helper_config

NEVER_DATA = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.OutOfRangeError,
    tf.errors.ResourceExhaustedError,
    tf.errors.UnavailableError,
)
"""Errors that no data can cause."""

FAILURES = (tf.errors.OpError, UnicodeDecodeError)
"""What a session raises for faulty data; the second if TensorFlow quotes bytes that are no text."""

_BEFORE = re.compile(
    r"^(\d+ root error\(s\) found\.|\(0\) [A-Z_]+: )?"
    r"(Error in user-defined function passed to .*? transformation with iterator: \S+: )?"
)
"""What goes before a reason if a function of a dataset has failed."""

NOISE = ("Graph execution error", "Detected at node", "Node: ", "File ", "Traceback")
"""The beginnings of lines in TensorFlow's messages that say nothing about the cause."""


def may_be_data(error: Exception) -> bool:
    """Whether an error of a session may come from faulty data, which takes long to find out for certain.

    It does not if TensorFlow names an op of the session's graph that is no iterator: the ops that read and
    decode examples are in graphs of their own.
    """
    if isinstance(error, UnicodeDecodeError):
        return True
    if not isinstance(error, tf.errors.OpError) or isinstance(error, NEVER_DATA):
        return False
    return error.node_def is None or "Iterator" in error.node_def.op or "Iterator" in error.message


def evaluate(make: Callable[[], Any]) -> Any:
    """Return the values of the tensors that `make` makes in a new graph; raises OpError."""
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        tensors = make()
        with tf.compat.v1.Session(config=helper_config()) as session:
            return session.run(tensors)


def first_element(make: Callable[[], Any]) -> dict[str, np.ndarray] | None:
    """Return the first element of the dataset that `make` makes, or None if it is empty; raises OpError."""
    with closing(_elements(make)) as elements:
        found = next(elements, None)
        return None if found is None else dict(found)


def _elements(make: Callable[[], Any]) -> Generator[Any, None, None]:
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        iterator = tf.compat.v1.data.make_initializable_iterator(make())
        yield from run_to_end(iterator.initializer, iterator.get_next())


def run_to_end(start: Any, tensors: Any) -> Iterator[Any]:
    """Yield the values of tensors of the current graph until its iterator ends; raises OpError."""
    with tf.compat.v1.Session(config=helper_config()) as session:
        session.run(start)
        step = session.make_callable(tensors)
        while True:
            try:
                yield step()
            except tf.errors.OutOfRangeError:
                return


def find_first_failure(make: Callable[[], Any]) -> tuple[int, str] | None:
    """Read the dataset that `make` makes; return how many elements precede a failure, and its reason."""
    count = 0
    with closing(_elements(lambda: make().map(without_autograph(_any_part)))) as elements:
        try:
            for _ in elements:
                count += 1
        except FAILURES as error:
            return count, reason_of(error)
    return None


def _any_part(element: Any) -> Any:
    """Return a number that depends on the whole element, so that the element itself stays in TensorFlow."""
    return tf.add_n([tf.size(part, tf.int64) for part in tf.nest.flatten(element)])


def reason_of(error: Exception) -> str:
    """Return the reason that TensorFlow gives for an error, without the names of nodes."""
    if isinstance(error, UnicodeDecodeError):
        return "it holds bytes that are no text"
    if not isinstance(error, tf.errors.OpError):
        return str(error)
    bare = re.sub(r"\{\{.*?\}\}|\[\[.*?\]\]|\[Op:.*?\]", "", error.message)
    lines = [_BEFORE.sub("", line.strip()) for line in bare.splitlines()]
    return next((line for line in lines if line and not line.startswith(NOISE)), type(error).__name__)


def without_autograph(function: Callable[..., Any]) -> Callable[..., Any]:
    """Exempt `function` from AutoGraph, because its control flow does not depend on tensors."""
    untouched: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
    return untouched
