"""The identity that each task publishes at its server, so that every process of the cluster can read it.

A server keeps variables for whoever asks. One of them is a text by which a task says which it is, which spec
it runs and with which versions, so that a wrong port or another spec is found before anything is trained.
Into another, `finished`, the client writes the word by which a server knows that it is not needed any more;
nobody can make that word who does not have the secret of the run.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from typing import TYPE_CHECKING, Any

from attrs import frozen

from dsl.files.typed_json import BadRecord, Count, parse_record, to_json
from tfdeploy.runtime.cluster.server.probe import NOTHING_ANSWERS, NoAnswer, probe
from tfdeploy.runtime.membership.addresses import Membership, Task

if TYPE_CHECKING:
    from tfdeploy.runtime.membership.secret import Secret

IDENTITY = "tfdeploy/identity"
FINISHED = "tfdeploy/finished"
CONTAINER = "tfdeploy"  # apart from the variables of models, which may all be cleared at once
NOBODY = "/job:tfdeploy_nobody"  # filters all devices but those of the server that is asked
CPU = "/device:CPU:0"
NONSENSE = "?"


@frozen
class Identity:
    """What a task says of itself; `incarnation` differs each time that it starts.

    `host` and `process` are where it runs; `started` is when, in seconds since 1970. `secret` is what may be
    shown of the secret of its run.
    """

    job: str
    index: Count
    spec_sha256: str
    tfdeploy: str
    tensorflow: str
    incarnation: str
    host: str
    process: Count
    started: float
    secret: str

    @classmethod
    def of(cls, membership: Membership) -> Identity:
        """Return the identity of this process, a new incarnation."""
        assert membership.task is not None
        task, (tfdeploy, tensorflow) = membership.task, versions()
        return cls(
            task.job,
            task.index,
            membership.spec_sha256,
            tfdeploy,
            tensorflow,
            incarnation=secrets.token_hex(8),
            host=socket.gethostname(),
            process=os.getpid(),
            started=time.time(),
            secret=membership.secret.public_digest if membership.secret is not None else "",
        )

    @property
    def task(self) -> Task:
        """The task of this identity."""
        return Task(self.job, self.index)

    def to_json(self) -> str:
        """Return the text that is published."""
        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Identity | None:
        """Read a published text, None if it is not one."""
        try:
            return parse_record(text, cls)
        except BadRecord:
            return None


@frozen
class Answer:
    """What a server says: the task that it was started as, and its identity if it has published one."""

    task: Task
    identity: Identity | None


def versions() -> tuple[str, str]:
    """Return the versions of this tool and of TensorFlow, without importing the latter."""
    from importlib.metadata import version

    return version("tfdeploy"), version("tensorflow")


class ServerIdentity:
    """The two variables of this process's own server; they stay until the process ends.

    `devices` are the names of the server's own devices; `disbelieved` is whether somebody has told it that
    the run is over who does not have the secret.
    """

    def __init__(self, target: str, identity: Identity, secret: Secret | None) -> None:
        import tensorflow as tf

        self.identity, self.got_invalid_token = identity, False
        self._secret = secret
        own = identity.task.tensorflow_name
        with tf.Graph().as_default() as graph, tf.device(own + CPU):
            ops = [_assign(FINISHED, tf.constant("")), _assign(IDENTITY, tf.constant(identity.to_json()))]
            self._word = _read(FINISHED, tf.string)
        config = tf.compat.v1.ConfigProto(device_filters=[own])
        self._session = tf.compat.v1.Session(target, graph=graph, config=config)
        for op in ops:
            self._session.run(op)
        self.devices: tuple[str, ...] = tuple(each.name for each in self._session.list_devices())

    @property
    def finished(self) -> bool:
        """Whether the server has been told that it is not needed any more, by one who has the secret."""
        shutdown_token = self._heard()
        if not shutdown_token:
            return False
        finished = self._secret is not None and self._secret.is_shutdown_token(
            shutdown_token, self.identity.incarnation
        )
        self.got_invalid_token = not finished
        return finished

    def _heard(self) -> str:
        """Return the word that was left; one that is no text is as good as any other."""
        import tensorflow as tf

        try:
            return str(self._session.run(self._word).decode(errors="replace"))
        except (tf.errors.OpError, AttributeError):
            return NONSENSE

    def close(self) -> None:
        """End the session, not the variables."""
        self._session.close()


def ask(address: str, timeout: float) -> Answer | NoAnswer:
    """Return what the server at `address` says of itself within about `timeout` seconds, or why it does not.

    May be called from any thread.
    """
    silence = probe(address, timeout)
    if silence is not None:
        return silence
    import tensorflow as tf

    with tf.Graph().as_default(), tf.device(CPU):
        text = _read(IDENTITY, tf.string)
    try:
        with _session(address, text.graph, timeout) as session:
            try:
                identity = Identity.from_json(session.run(text).decode(errors="replace"))
            except (tf.errors.FailedPreconditionError, tf.errors.NotFoundError):
                identity = None
            return Answer(_task_of(session.list_devices()), identity)
    except tf.errors.OpError:
        return NoAnswer("silent", NOTHING_ANSWERS)


def shut_down(address: str, timeout: float, secret: Secret) -> bool:
    """Tell the server at `address` that it is not needed any more; return whether it has heard it."""
    found = ask(address, timeout)
    if not isinstance(found, Answer) or found.identity is None:
        return False
    return send_shutdown_token(address, timeout, secret.shutdown_token(found.identity.incarnation))


def send_shutdown_token(address: str, timeout: float, shutdown_token: str) -> bool:
    """Leave a word for the server at `address`; return whether that was possible."""
    import tensorflow as tf

    with tf.Graph().as_default(), tf.device(CPU):
        op = _assign(FINISHED, tf.constant(shutdown_token))
    try:
        with _session(address, op.graph, timeout) as session:
            session.run(op)
    except tf.errors.OpError:
        return False
    return True


def _session(address: str, graph: Any, timeout: float) -> Any:
    """Return a session at a server that uses the devices of that server alone, whichever it is."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(
        device_filters=[NOBODY], operation_timeout_in_ms=max(1, int(timeout * 1000))
    )
    return tf.compat.v1.Session(f"grpc://{address}", graph=graph, config=config)


def _task_of(devices: Any) -> Task:
    """Return the task whose devices a session has found."""
    import tensorflow as tf

    spec = tf.DeviceSpec.from_string(devices[0].name)
    return Task(spec.job, spec.task)


def _assign(name: str, value: Any) -> Any:
    import tensorflow as tf

    handle = tf.raw_ops.VarHandleOp(dtype=value.dtype, shape=[], shared_name=name, container=CONTAINER)
    return tf.raw_ops.AssignVariableOp(resource=handle, value=value)


def _read(name: str, dtype: Any) -> Any:
    import tensorflow as tf

    handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=[], shared_name=name, container=CONTAINER)
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
