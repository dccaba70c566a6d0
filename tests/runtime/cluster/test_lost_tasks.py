"""A lost task is told from a fault by the code of the fault and by asking the tasks, not by words."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tests.runtime.tasks import Tasks, secret_of_folder
from tfdeploy.runtime.cluster.identity import shut_down
from tfdeploy.runtime.cluster.monitor import TaskMonitor
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
