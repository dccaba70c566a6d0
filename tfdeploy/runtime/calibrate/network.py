"""Measures what it costs when two processes work on a step: TensorFlow's servers, and tensors between them.

Two servers of this process stand for those of two tasks on this machine. TensorFlow sends tensors between
them as between processes. Both listen at the loopback address alone.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from attrs import frozen

from compiler.time.profile import LinkCost
from tfdeploy.runtime.calibrate.stretches import quartile
from tfdeploy.runtime.cluster.server.binding import listening_at

HERE = "127.0.0.1"
SMALL, LARGE = 1 << 10, 1 << 22
"""The bytes of the tensors that are sent."""

SEVERAL, FEW = 32, 4
"""How many small tensors, and how many large ones, are sent at once."""

WARM = 10
STEPS = 15
STRETCHES = 6
"""How often so many steps are made of each kind: the kinds take turns."""


@frozen
class NetworkCosts:
    """What was measured, in seconds.

    Attributes:
        start: A step of two tasks that exchange nothing.
        processors: The cores that such a step uses.
        link: The link between the tasks.
    """

    start: float
    processors: float
    link: LinkCost


def measure_network() -> NetworkCosts:
    """Return what a step of two tasks on this machine costs, and a tensor that one sends to the other.

    The latency is the time of a small tensor beyond that of a step without one. The time of a message is that
    of several small ones beyond one, and the speed is that of a few large ones, without the time of as many
    messages. The processor time of this process, in which both tasks are, says how many cores they use
    meanwhile.
    """
    import tensorflow as tf

    addresses = {"sender": [f"{HERE}:{_free_port()}"], "receiver": [f"{HERE}:{_free_port()}"]}
    servers = {job: _start(tf, addresses, job) for job in addresses}
    graph = tf.Graph()
    with graph.as_default():
        steps = _steps(tf)
        start = tf.compat.v1.global_variables_initializer()
    with tf.compat.v1.Session(servers["receiver"].target, graph=graph) as session:
        session.run(start)
        nothing, one, several, much = _times([session.make_callable([each]) for each in steps])
    message = max(0.0, several.seconds - one.seconds) / (SEVERAL - 1)
    carrying = max(much.seconds - one.seconds - (FEW - 1) * message, 1e-9)
    used = much.processor - one.processor - (FEW - 1) * (several.processor - one.processor) / (SEVERAL - 1)
    link = LinkCost(
        "network",
        latency=max(0.0, one.seconds - nothing.seconds - message),
        bytes_per_second=(FEW * LARGE - SMALL) / carrying,
        message=message,
        processors=max(0.0, used) / carrying,
    )
    return NetworkCosts(nothing.seconds, nothing.processor / nothing.seconds, link)


def _steps(tf: Any) -> tuple[Any, ...]:
    """Return the ops of steps of both tasks: nothing is sent, one small tensor, several, a few large ones."""
    sent = []
    with tf.device("/job:sender/task:0/cpu:0"):
        for size in (*(SMALL for _ in range(SEVERAL)), *(LARGE for _ in range(FEW))):
            initial = tf.zeros([size // 4])
            sent.append(tf.compat.v1.Variable(initial, use_resource=True, trainable=False).read_value())
        alone = tf.identity(sent[0])
    with tf.device("/job:receiver/task:0/cpu:0"):
        beside = tf.constant(0.0)
        received = [tf.identity(each).op for each in sent]
        several, much = tf.group(*received[:SEVERAL]), tf.group(*received[SEVERAL:])
    return tf.group(alone.op, tf.identity(beside).op), received[0], several, much


def _start(tf: Any, addresses: dict[str, list[str]], job: str) -> Any:
    port = int(addresses[job][0].rpartition(":")[2])
    definition = tf.train.ServerDef(
        cluster=tf.train.ClusterSpec(addresses).as_cluster_def(),
        job_name=job,
        task_index=0,
        protocol="grpc",
    )
    with listening_at(HERE, port):
        return tf.distribute.Server(definition)


def _free_port() -> int:
    with socket.create_server((HERE, 0)) as found:
        return int(found.getsockname()[1])


@frozen
class _StepTime:
    """The seconds of a step, and of the processors for it."""

    seconds: float
    processor: float


def _times(steps: Sequence[Callable[[], Any]]) -> list[_StepTime]:
    """Return the time of each kind of step: the lower quartile of the stretches, in which others do least."""
    found: list[list[_StepTime]] = [[] for _ in steps]
    for step in steps:
        for _ in range(WARM):
            step()
    for _ in range(STRETCHES):
        for step, stretches in zip(steps, found, strict=True):
            stretches.append(_stretch(step))
    return [
        _StepTime(
            quartile(each.seconds for each in stretches), quartile(each.processor for each in stretches)
        )
        for stretches in found
    ]


def _stretch(step: Callable[[], Any]) -> _StepTime:
    """Return the median time of some steps, and the mean of that of the processors."""
    seconds, used = [], time.process_time()
    for _ in range(STEPS):
        began = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - began)
    return _StepTime(median(seconds), (time.process_time() - used) / STEPS)
