"""The identity that each task publishes at its server, so that every process of the cluster can read it.

A server keeps variables that any client can read and write. One of them is a text by which a task states
which task it is, which spec it runs and with which versions, so that a wrong port or another spec is
found before training. Into another one, `finished`, the client writes the shutdown token, which can be
made only with the secret of the run.

TensorFlow itself waits for a server without a message. A TCP connection shows at once that nothing
listens, and the first bytes of HTTP/2 (RFC 9113), on which gRPC is built, show that another program does.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, TypeAlias

from attrs import frozen

from dsl.files.typed_json import Count, JsonRecord
from dsl.ir.place import split_address
from tfdeploy.runtime.membership.addresses import Membership, Task
from tfdeploy.runtime.membership.secret import Secret

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"  # and no settings
FRAME_HEADER = 9
SETTINGS = 4
UNREACHABLE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL}

NOTHING_ANSWERS = "connections are taken, and nothing answers"

Kind: TypeAlias = Literal["unknown host", "unreachable", "refused", "silent", "foreign"]


@frozen
class NoAnswer:
    """Why there is no answer from a task."""

    # The kind of failure: `refused` if nothing listens, `silent` if no answer comes in time (as from a
    # process that is stopped), `foreign` if what listens is no TensorFlow server.
    kind: Kind
    words: str


def probe(address: str, timeout: float) -> NoAnswer | None:
    """Return None if something at `address` speaks HTTP/2 within `timeout` seconds, else why not."""
    host, port = split_address(address)
    try:
        connection = socket.create_connection((host, port), timeout)
    except socket.gaierror:
        return NoAnswer("unknown host", f"the name `{host}` is not known")
    except TimeoutError:
        return NoAnswer("unreachable", "no answer to a connection")
    except OSError as error:
        return _refused(error)
    with connection:
        return _greet(connection)


def _greet(connection: socket.socket) -> NoAnswer | None:
    try:
        connection.sendall(PREFACE)
        with connection.makefile("rb") as file:
            answer = file.read(FRAME_HEADER)
    except TimeoutError:
        return NoAnswer("silent", NOTHING_ANSWERS)
    except OSError:
        return NoAnswer("foreign", "the connection is broken off")
    if len(answer) == FRAME_HEADER and answer[3] == SETTINGS:
        return None
    return NoAnswer("foreign", "something that is no TensorFlow server answers")


def _refused(error: OSError) -> NoAnswer:
    if error.errno in UNREACHABLE:
        return NoAnswer("unreachable", (error.strerror or "unreachable").lower())
    if error.errno == errno.ECONNREFUSED:
        return NoAnswer("refused", "nothing listens there")
    return NoAnswer("silent", (error.strerror or "no connection").lower())


IDENTITY = "tfdeploy/identity"
FINISHED = "tfdeploy/finished"
SPEC = "tfdeploy/spec"
DISPUTE = "tfdeploy/dispute"
HEALTH = "tfdeploy/health"
CLIENT_HEALTH = "tfdeploy/health_of_client"  # at the server of the chief, because a client has none
CONTAINER = "tfdeploy"  # apart from the variables of models, which may all be cleared at once
NOBODY = "/job:tfdeploy_nobody"  # filters all devices but those of the server that is asked
CPU = "/device:CPU:0"
NONSENSE = "?"


@frozen
class Identity(JsonRecord):
    """The identity of a task."""

    job: str
    index: Count
    spec_sha256: str
    tfdeploy: str
    tensorflow: str
    incarnation: str  # a text that differs each time that the task starts
    host: str
    process: Count
    started: float  # when it was started, in seconds since 1970
    secret: str  # the public digest of the secret of its run

    @classmethod
    def of(cls, membership: Membership) -> Identity:
        """Return the identity of this process, with a new incarnation."""
        task, (tfdeploy, tensorflow) = membership.own, versions()
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


@frozen
class Answer:
    """The answer of a server."""

    task: Task
    identity: Identity | None  # its identity; None if it has not published one


@frozen
class Dispute(JsonRecord):
    """What a task tells the others before it ends because of one of them."""

    tasks: tuple[Identity, ...]  # the two that do not fit
    difference: str  # in what their specs differ, in words; empty if that is not known


def versions() -> tuple[str, str]:
    """Return the versions of tfdeploy and of TensorFlow, without importing TensorFlow."""
    from importlib.metadata import version

    return version("tfdeploy"), version("tensorflow")


class ServerIdentity:
    """The variables of this process's own server, which last until the process ends.

    Attributes:
        got_invalid_token: Whether a shutdown token has arrived that was not made with the secret of the run.
    """

    def __init__(self, target: str, identity: Identity, secret: Secret | None, spec: str) -> None:
        import tensorflow as tf

        self.identity, self.got_invalid_token = identity, False
        self._secret = secret
        own = identity.task.tensorflow_name
        with tf.Graph().as_default() as graph, tf.device(own + CPU):
            texts = {FINISHED: "", SPEC: os.fsencode(spec), IDENTITY: identity.to_json()}
            ops = [_assign(name, text) for name, text in texts.items()]
            self._word = _read(FINISHED)
            self._given = tf.compat.v1.placeholder(tf.string, [])
            self._publish = _assign(HEALTH, self._given)
        config = tf.compat.v1.ConfigProto(device_filters=[own])
        self._session = tf.compat.v1.Session(target, graph=graph, config=config)
        for op in ops:
            self._session.run(op)
        self.devices: tuple[str, ...] = tuple(each.name for each in self._session.list_devices())

    @property
    def finished(self) -> bool:
        """Whether a valid shutdown token has arrived."""
        shutdown_token = self._heard()
        if not shutdown_token:
            return False
        finished = self._secret is not None and self._secret.is_shutdown_token(
            shutdown_token, self.identity.incarnation
        )
        self.got_invalid_token = not finished
        return finished

    def _heard(self) -> str:
        """Return the token that has arrived, or an empty text. What is no text is an invalid token."""
        import tensorflow as tf

        try:
            return str(self._session.run(self._word).decode(errors="replace"))
        except (tf.errors.OpError, AttributeError):
            return NONSENSE

    def publish_health(self, text: str) -> None:
        """Publish how this process does."""
        self._session.run(self._publish, {self._given: text})

    def close(self) -> None:
        """Close the session. The variables are kept."""
        self._session.close()


def ask(address: str, timeout: float) -> Answer | NoAnswer:
    """Ask the server at `address` for its identity. May be called from any thread."""
    found = _published(address, timeout, IDENTITY)
    if isinstance(found, NoAnswer):
        return found
    task, text = found
    return Answer(task, Identity.read(text) if text is not None else None)


def read_text(address: str, timeout: float, name: str) -> str | None:
    """Return a text that was published at a server; empty if there is none, None if it does not answer."""
    found = _published(address, timeout, name)
    return None if isinstance(found, NoAnswer) else found[1] or ""


def _published(address: str, timeout: float, name: str) -> tuple[Task, str | None] | NoAnswer:
    """Return the task of a server, and a text that was published there; None if there is none."""
    silence = probe(address, timeout)
    if silence is not None:
        return silence
    import tensorflow as tf

    with tf.Graph().as_default(), tf.device(CPU):
        text = _read(name)
    try:
        with _session(address, text.graph, timeout) as session:
            try:
                found = str(session.run(text).decode(errors="replace"))
            except (tf.errors.FailedPreconditionError, tf.errors.NotFoundError):
                found = None
            return _task_of(session.list_devices()), found
    except tf.errors.OpError:
        return NoAnswer("silent", NOTHING_ANSWERS)


def shut_down(address: str, timeout: float, secret: Secret) -> bool:
    """Shut down the server at `address`; return whether it was reached within about `timeout` seconds."""
    found = ask(address, timeout)
    if not isinstance(found, Answer) or found.identity is None:
        return False
    return write_text(address, timeout, FINISHED, secret.shutdown_token(found.identity.incarnation))


def write_text(address: str, timeout: float, name: str, text: str) -> bool:
    """Publish a text at the server at `address`; return whether that was possible."""
    import tensorflow as tf

    with tf.Graph().as_default(), tf.device(CPU):
        op = _assign(name, text)
    try:
        with _session(address, op.graph, timeout) as session:
            session.run(op)
    except tf.errors.OpError:
        return False
    return True


@contextmanager
def _session(address: str, graph: Any, timeout: float) -> Iterator[Any]:
    """Open a session at a server that uses the devices of that server alone, whichever it is.

    The server may be gone when the session is closed: it may have ended because of what was run.
    """
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(
        device_filters=[NOBODY], operation_timeout_in_ms=max(1, int(timeout * 1000))
    )
    session = tf.compat.v1.Session(f"grpc://{address}", graph=graph, config=config)
    try:
        yield session
    finally:
        with suppress(tf.errors.OpError):
            session.close()


def _task_of(devices: Any) -> Task:
    """Return the task whose devices a session has found."""
    import tensorflow as tf

    spec = tf.DeviceSpec.from_string(devices[0].name)
    return Task(spec.job, spec.task)


def _assign(name: str, text: Any) -> Any:
    import tensorflow as tf

    return tf.raw_ops.AssignVariableOp(resource=_text(name), value=tf.convert_to_tensor(text))


def _read(name: str) -> Any:
    import tensorflow as tf

    return tf.raw_ops.ReadVariableOp(resource=_text(name), dtype=tf.string)


def _text(name: str) -> Any:
    """Return the handle of a variable that holds a text."""
    import tensorflow as tf

    return tf.raw_ops.VarHandleOp(dtype=tf.string, shape=[], shared_name=name, container=CONTAINER)
