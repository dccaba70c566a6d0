"""The threads of a process that work on the parts of ops: as many as its task may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from tfdeploy.runtime.cluster.server.server import server_config

if TYPE_CHECKING:
    from dsl import ir
    from tfdeploy.runtime.membership.addresses import Membership


def make_thread_pool(spec: ir.Spec, membership: Membership) -> None:
    """Make the thread pool of this process for the parts of ops, with the threads of its task's server.

    TensorFlow has one such pool in a process, and makes it for the first session, whatever that is for. A
    worker reads examples and builds its graph in sessions too, so the server that it starts after that would
    have as many threads as if it were alone on the machine.

    Args:
        spec: The spec, which has the devices.
        membership: The cluster, and the task of this process in it.
    """
    wanted = server_config(spec, membership.own, membership.cluster)
    config = tf.compat.v1.ConfigProto(
        device_count={"CPU": 1, "GPU": 0},  # a GPU is left to the server
        intra_op_parallelism_threads=wanted.intra_op_parallelism_threads,
        inter_op_parallelism_threads=1,
        use_per_session_threads=True,  # those that run ops end with the session
        experimental=wanted.experimental,
    )
    tf.compat.v1.Session(graph=tf.Graph(), config=config).close()
