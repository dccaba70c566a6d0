"""Closes sessions, also if their server is gone."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread
from typing import Any

import tensorflow as tf

PATIENCE = 2.0  # seconds that a server has to close a session


def close_session(session: Any) -> None:
    """Close a session. Closing it again does nothing.

    TensorFlow waits for a server that is gone until the operations of a session time out, which is as long as
    `train.task_timeout`, and handles no signal meanwhile. So a session at a server is closed by a thread,
    which is left to itself after a while.

    Args:
        session: A session of TensorFlow, in this process or at a server.
    """
    if not session.sess_str:
        _close(session)
        return
    thread = Thread(target=_close, args=(session,), name="close", daemon=True)
    thread.start()
    thread.join(PATIENCE)


def _close(session: Any) -> None:
    with suppress(tf.errors.OpError):
        session.close()
