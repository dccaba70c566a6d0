"""Telling the loss of a task from all else that can go wrong in a run of TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable

ALWAYS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
)
"""The codes of a connection that breaks, of a session that a server does not know any more, of a wait that
took too long, and of variables that have no values: nothing of a spec, nor of its data, ends in these."""

SOMETIMES = (
    tf.errors.NotFoundError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
)
"""The codes of a resource that a server does not have any more, or of half an answer; and of files that are
missing, of Python code that fails, of ops that give up."""


def is_lost_task(fault: BaseException, lost: Callable[[], bool] | None) -> bool:
    """Whether `fault` comes of a task of a cluster that is gone, or has come back without its variables.

    If its code leaves that open, `lost` asks the tasks; it is None if all is in one process.
    """
    if lost is None:
        return False
    return isinstance(fault, ALWAYS) or (isinstance(fault, SOMETIMES) and lost())
