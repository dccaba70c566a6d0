"""Telling the loss of a task from all else that can go wrong in a run of TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from compiler.plan import Plan

ALWAYS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
SOMETIMES = (
    tf.errors.FailedPreconditionError,
    tf.errors.NotFoundError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
)
SIGNS = (
    "could not find variable",
    "error while reading resource variable",
    "uninitialized",
    "does not exist",
    "/job:",
    "rpc",
    "socket closed",
    "connection reset",
    "stream removed",
    "session",
    "iterator has not been initialized",
)
"""What the words of a fault have in them where a server has lost its state or its connection."""


def is_loss(fault: BaseException, plan: Plan) -> bool:
    """Whether `fault` comes of a task of a cluster that is gone, or has come back without its variables."""
    if plan.emulate or not plan.spec.devices.jobs:
        return False
    if isinstance(fault, ALWAYS):
        return True
    return isinstance(fault, SOMETIMES) and any(sign in str(fault).lower() for sign in SIGNS)
