"""Tasks that are lost: how they are told from faults, and what a client does whose servers are gone."""

import resource
import signal
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from tests.runtime.tasks import Tasks, secret_of_folder
from tfdeploy.runtime.cluster import identity
from tfdeploy.runtime.cluster.identity import shut_down
from tfdeploy.runtime.cluster.monitor import TaskMonitor
from tfdeploy.runtime.cluster.session_target import SessionTarget
from tfdeploy.runtime.membership.addresses import Task
from tfdeploy.runtime.membership.membership import find_membership
from tfdeploy.runtime.session.faults import is_lost_task


def fault_at(address: str) -> Any:
    """Return what a session of the server at `address` says of a file that is not there."""
    with tf.Graph().as_default() as graph, tf.device("/job:ps/task:0"):
        text = tf.raw_ops.ReadFile(filename="/nowhere/session rpc socket closed")
    config = tf.compat.v1.ConfigProto(device_filters=["/job:ps"])
    with (
        tf.compat.v1.Session(f"grpc://{address}", graph=graph, config=config) as session,
        pytest.raises(tf.errors.NotFoundError) as caught,
    ):
        session.run(text)
    return caught.value


@pytest.mark.full
def test_a_fault_on_a_server_is_none_of_its_loss(tasks: Tasks) -> None:
    """The same fault counts as a loss when the server has been started again since, or is gone."""
    first = tasks.serve("ps:0")
    first.until("listens")
    membership = find_membership(tasks.load(), {})
    assert membership is not None
    watch = TaskMonitor(membership, (Task("ps", 0),), print, 60.0)
    watch.require("to start training")
    fault = fault_at(tasks.address(0))
    assert "/job:ps" in str(fault)
    assert not is_lost_task(fault, watch.lost)
    assert is_lost_task(tf.errors.UnavailableError(None, None, ""), watch.lost)
    assert shut_down(tasks.address(0), 10, secret_of_folder(tasks.folder))
    assert first.end() == 0
    assert is_lost_task(fault, watch.lost)
    second = tasks.serve("ps:0")
    second.until("listens")
    assert is_lost_task(fault, watch.lost)
    watch.require("to go on")
    assert not is_lost_task(fault, watch.lost)


@pytest.mark.parametrize("kind", [tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError])
def test_what_no_loss_ends_in_needs_no_asking(kind: Any) -> None:
    """A fault of the data is one whoever is missing; in one process nothing is ever lost."""
    assert not is_lost_task(kind(None, None, "/job:ps session"), lambda: True)
    assert not is_lost_task(tf.errors.UnavailableError(None, None, ""), None)


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


@pytest.mark.full
def test_a_client_writes_checkpoints_itself(tasks: Tasks) -> None:
    """Its servers may be on other machines; here they can write no file at all."""
    more = ("--set", "train.directory=run")
    for server in [tasks.serve(each, *more) for each in ("ps:0", "worker:0", "worker:1")]:
        server.until("listens")
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, 0))
    client = tasks.start("compile-and-run", str(tasks.spec), *more)
    assert client.end() == 0, client.text
    assert (tasks.folder / "run" / "checkpoints" / "model.ckpt-20.index").exists()


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
