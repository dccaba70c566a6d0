"""The reason of a fault, out of what TensorFlow says of it, and its place in the spec, by its op."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from compiler.pipeline import make_plan
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors.running import step_failed
from tests.support import spec_of
from tfdeploy.runtime.session.faults import is_lost_task, located, reason_of, refused

BEHIND = (
    "Additional GRPC error information from remote target /job:ps/replica:0/task:1 while calling"
    " /tensorflow.WorkerService/RunGraph:\n"
    ':UNKNOWN:Error received from peer  {grpc_status:14, grpc_message:"Socket closed"}'
)
"""What follows the reason if the server of a task was killed."""


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            f"Graph execution error:\n\nFrom /job:ps/replica:0/task:1:\nSocket closed\n{BEHIND}",
            "Socket closed (at ps:1)",
        ),
        (f"Graph execution error:\n\nSocket closed\n{BEHIND}", "Socket closed (at ps:1)"),
        (
            (
                "\n=====================\nUNAVAILABLE: From /job:worker/replica:0/task:0:\n"
                f"recvmsg:Connection reset by peer\n{BEHIND}\n\t [[{{{{node hidden/kernel/read_S63}}}}]]\n"
                "UNAVAILABLE: From /job:ps/replica:0/task:1:\nSocket closed\n=====================\n"
            ),
            "recvmsg:Connection reset by peer (at ps:1)",
        ),
        (
            (
                "Graph execution error:\n\nDetected at node 'check' defined at (most recent call last):\n"
                "Node: 'check'\nThe label is too large.\n\t [[{{node check}}]]"
            ),
            "The label is too large.",
        ),
        ("Graph execution error:\n\n", "UnavailableError"),
    ],
)
def test_the_reason_is_the_first_line_that_says_one(message: str, reason: str) -> None:
    """Headings, tasks and the places of ops are passed over; a task whose connection broke is named."""
    assert reason_of(tf.errors.UnavailableError(None, None, message)) == reason


def test_a_system_says_its_reason_itself() -> None:
    """In small letters, as the end of a sentence; of an error without a number its text counts."""
    assert reason_of(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) == "no space left on device"
    assert reason_of(OSError("Out of Paper")) == "out of paper"
    assert reason_of(ValueError("From /job:ps:\n two \n three")) == "two"


@pytest.mark.parametrize(
    ("fault", "reason", "full"),
    [
        (tf.errors.UnknownError(None, None, "/run/a.tempstate7; File too large"), "file too large", True),
        (tf.errors.UnknownError(None, None, "a/part-0; No space left [Op:SaveV2]"), "no space left", True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "disk quota exceeded", True),
        (OSError(errno.ENOSPC, "No space left on device"), "no space left on device", True),
        (OSError(errno.EACCES, "Permission denied"), "permission denied", False),
    ],
)
def test_a_file_that_is_refused(fault: Exception, reason: str, *, full: bool) -> None:
    """Without the name of a temporary file, and with advice if there is no room."""
    found = refused(Path("/run/a"), fault, 7).diagnostic
    assert found.message == f"`/run/a` cannot be written: {reason}"
    assert found.notes == ("the checkpoint of step 7 is kept",)
    assert (found.help is not None) is full


SPEC = """
tfdeploy = 1
layer "twice" {
  x = input()
  output = x -> Dense(4, name = "first") -> Dense(4, name = "second")
}
model "m" {
  x = input(float32, [4])
  y = input(float32, [4])
  out = x -> twice(name = "block")
  loss = LOSS
  metrics {
    near = [y, out] -> MeanAbsoluteError()
    far = [y, out] -> MeanSquaredLogarithmicError()
  }
}
devices { cpu = 2 }
clones { count = 2, batch = 4 }
update { optimizer = SGD(0.1) }
"""
ONE = "[y, out] -> MeanSquaredError()"
TWO = "([y, out] -> MeanSquaredError()) + ([y, out] -> MeanAbsoluteError())"


def compiled(loss: str, clones: dict[str, int | None]) -> Any:
    """Return what faults ask of a graph: its plan, and the clone of each op."""
    entries = {name: SimpleNamespace(clone=clone, role="forward") for name, clone in clones.items()}
    plan = make_plan(spec_of(SPEC.replace("LOSS", loss)))
    return SimpleNamespace(plan=plan, ledger=SimpleNamespace(entries=entries))


def told(graph: Any, name: str | None) -> Diagnostic:
    """Return what is said of a fault of the op `name`."""
    node = None if name is None else tf.compat.v1.NodeDef(name=name)
    with pytest.raises(RunError) as caught, located("step 3", graph):
        raise tf.errors.InvalidArgumentError(node, None, "no good")
    return caught.value.diagnostic


@pytest.mark.parametrize(
    ("inner", "where", "text"),
    [
        ("block/second/MatMul", "clone 1, the layer `block/second`", 'Dense(4, name = "second")'),
        ("gradients/block/first/mul", "clone 1, the layer `block/first`", 'Dense(4, name = "first")'),
        ("block/first", "clone 1, the layer `block/first`", 'Dense(4, name = "first")'),
        ("block/third/MatMul", "clone 1", None),
        ("loss/sub", "clone 1", ONE),
        ("metrics/far/sub", "clone 1", "[y, out] -> MeanSquaredLogarithmicError()"),
        ("metrics/none/near", "clone 1", None),
    ],
)
def test_an_op_leads_to_its_place_in_the_spec(inner: str, where: str, text: str | None) -> None:
    """By the name that it has in the tower of its clone."""
    scope = make_plan(spec_of(SPEC.replace("LOSS", ONE))).towers[1].scope
    found = told(compiled(ONE, {f"{scope}/{inner}": 1}), f"{scope}/{inner}")
    assert found.message == f"step 3 failed, in {where}: no good"
    assert found.notes == (f"the op is `{scope}/{inner}`",)
    assert (found.span.text if found.span is not None else None) == text


def test_an_op_of_no_clone_or_of_no_name() -> None:
    """Such are named as far as they are known; a layer is known also without a clone."""
    graph = compiled(TWO, {"block/first/kernel": None})
    assert told(graph, "block/first/kernel").message == "step 3 failed, in the layer `block/first`: no good"
    graph = compiled(TWO, {"update/block/first/kernel/Sum": None})
    assert told(graph, "update/block/first/kernel/Sum").span is not None
    assert told(graph, "other") == step_failed("step 3", "no good", None, clone=None, layer=None, op="other")
    assert told(graph, None).notes == ()
    sum_of_losses = told(graph, "loss/add").span
    assert sum_of_losses.text == TWO


def test_the_data_may_explain_a_fault() -> None:
    """Then that counts. A report in which TensorFlow quotes bytes that are no text needs an explanation."""
    explained = RunError(step_failed("reading", "bad line", None, clone=None, layer=None, op=None))
    faults = [
        tf.errors.InvalidArgumentError(None, None, "no good"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    ]
    graph = compiled(ONE, {})
    for fault in faults:
        for answer in (explained, None):
            stream: Any = SimpleNamespace(explain=lambda _, answer=answer: answer)
            with pytest.raises((RunError, UnicodeDecodeError)) as caught, located("step 3", graph, stream):
                raise fault
            if answer is not None:
                assert caught.value is answer
                assert caught.value.__cause__ is fault
            else:
                assert isinstance(caught.value, RunError) is (fault is faults[0])


@pytest.mark.parametrize(
    ("kind", "asked", "lost"),
    [
        (tf.errors.UnavailableError, False, True),
        (tf.errors.FailedPreconditionError, False, True),
        (tf.errors.DeadlineExceededError, False, True),
        (tf.errors.NotFoundError, True, True),
        (tf.errors.InternalError, False, False),
        (tf.errors.UnknownError, True, True),
        (tf.errors.InvalidArgumentError, True, False),
    ],
)
def test_a_lost_task_is_no_fault_of_a_spec(kind: Any, *, asked: bool, lost: bool) -> None:
    """Its error is raised as it is, so that the run goes on from a checkpoint once the task is back."""
    fault = kind(None, None, "gone")
    assert is_lost_task(fault, lambda: asked) is lost
    with (
        pytest.raises((RunError, tf.errors.OpError)) as caught,
        located("step 3", compiled(ONE, {}), lost=lambda: asked),
    ):
        raise fault
    assert (caught.value is fault) is lost
