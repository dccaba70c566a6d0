"""A client whose servers are gone: it says so, obeys signals, and closes what is open without waiting."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runtime.tasks import Tasks
from tfdeploy.runtime.cluster import identity
from tfdeploy.runtime.cluster.session_target import SessionTarget


@pytest.mark.full
def test_a_client_whose_master_is_gone_says_so_and_obeys_a_signal(tasks: Tasks) -> None:
    """It neither waits in silence until that server is back, nor keeps waiting when it is told to end."""
    steps = ("--set", "train.steps=1000000")
    servers = {each: tasks.serve(each, *steps) for each in ("ps:0", "worker:0", "worker:1")}
    for each in servers.values():
        each.until("listens")
    client = tasks.start("compile-and-run", str(tasks.spec), *steps)
    client.until("training to step")
    servers["ps:0"].send(signal.SIGKILL)
    client.until("waiting to go on from the last checkpoint: ps:0")
    client.send(signal.SIGINT)
    assert client.end() == 128 + signal.SIGINT


def test_a_client_that_waits_for_its_servers_obeys_a_signal(tasks: Tasks) -> None:
    """Nothing has been started for it, and nothing will be."""
    client = tasks.start("compile-and-run", str(tasks.spec))
    client.until("waiting to start training: ps:0")
    client.send(signal.SIGTERM)
    assert client.end() == 128 + signal.SIGTERM


def test_the_session_is_closed_before_its_server_is_shut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers with graphs of their own have left then, for which the session was needed."""
    calls: list[str] = []
    engine: Any = SimpleNamespace(close=lambda: calls.append("close"))
    group: Any = SimpleNamespace(end=lambda seconds: calls.append(f"end {seconds > 0}"))
    monkeypatch.setattr(SessionTarget, "dismiss", lambda _: calls.append("dismiss"))
    SessionTarget().end(engine, group)
    SessionTarget().end(engine, None)
    assert calls == ["end True", "close", "dismiss", "close", "dismiss"]


def test_a_server_that_ends_before_it_is_left(
    tasks: Tasks, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token may end a server before that has answered; nothing is printed about it."""
    server = tasks.serve("ps:0")
    server.until("listens")
    assign = identity._assign

    def assign_and_kill(name: str, value: Any) -> Any:
        server.send(signal.SIGKILL)
        server.process.wait()
        return assign(name, value)

    monkeypatch.setattr(identity, "_assign", assign_and_kill)
    assert not identity.write_text(tasks.address(0), 0.5, identity.FINISHED, "any")
    assert capfd.readouterr() == ("", "")
