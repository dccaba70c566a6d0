"""Sessions are closed, also if their server is gone."""

from __future__ import annotations

import threading

import pytest
import tensorflow as tf

from tfdeploy.runtime.session import engine
from tfdeploy.runtime.session.engine import close_session


class Session:
    """A session whose server does not let it go."""

    def __init__(self, target: str, *, raises: bool = False) -> None:
        self.sess_str, self.raises = target, raises
        self.closed_by: list[str] = []
        self.may_end = threading.Event()

    def close(self) -> None:
        """Wait until the server lets go."""
        self.closed_by.append(threading.current_thread().name)
        if self.raises:
            raise tf.errors.UnavailableError(None, None, "gone")
        if self.sess_str:
            self.may_end.wait(60)


def test_a_session_at_a_server_that_is_gone_is_left_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thread of its own, which does not keep the process; one in this process is closed at once."""
    monkeypatch.setattr(engine, "PATIENCE", 0.01)
    session = Session("grpc://p:1")
    close_session(session)
    (left,) = [each for each in threading.enumerate() if each.name == "close"]
    assert left.daemon
    session.may_end.set()
    left.join()
    for raises in (False, True):
        own = Session("", raises=raises)
        close_session(own)
        assert own.closed_by == [threading.current_thread().name]


def test_a_session_at_a_server_is_closed_before_anything_else_happens() -> None:
    """Its server lets go after a moment, which is waited for."""
    session = Session("grpc://p:1")
    threading.Timer(0.1, session.may_end.set).start()
    close_session(session)
    assert session.may_end.is_set()
    assert session.closed_by == ["close"]
