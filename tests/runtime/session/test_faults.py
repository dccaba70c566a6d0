"""The reason of a fault, out of what TensorFlow says of it."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tfdeploy.runtime.session.faults import reason_of

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
