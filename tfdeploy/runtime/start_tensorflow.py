"""Starts TensorFlow without the messages that it writes while it is imported, and without proxies.

TensorFlow and the libraries that it loads write to standard error before any of their settings takes
effect. So the file descriptor itself is redirected to a temporary file during the import. The file is
shown only if the import fails.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from ipaddress import ip_address, ip_network
from typing import IO, Any

from compiler.process import collector_paused, require_addresses, require_files
from dsl.diagnostics import RunError
from dsl.errors.files import eager_execution_off, keras_settings
from tfdeploy.own_process import is_owned, not_interruptible
from tfdeploy.progress import busy

LOOPBACK = "127.0.0.1"
LOCAL_NAME = "localhost"

PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""The variables by which gRPC, and so TensorFlow, finds a proxy. Those in capitals do not count."""

EXCEPTIONS = ("no_grpc_proxy", "no_proxy")
"""The variables with hosts that are reached without the proxy. gRPC reads the first that is set."""


def proxy_variable(environment: Mapping[str, str]) -> str | None:
    """Return the name of the variable by which TensorFlow finds a proxy; None if there is no proxy."""
    return next((each for each in PROXIES if environment.get(each)), None)


def is_loopback_excepted(environment: Mapping[str, str]) -> bool:
    """Return whether an environment with a proxy excepts the address of this machine itself."""
    return any(_is_loopback(each.strip()) for each in _exceptions(environment).split(","))


def except_loopback(environment: MutableMapping[str, str]) -> None:
    """Let TensorFlow reach servers on this machine without a proxy.

    It would send what they say to each other to the proxy, and wait for ever if that does not pass it on.

    Args:
        environment: The variables by name, usually `os.environ`. It is changed only if it names a proxy.
    """
    if proxy_variable(environment) is None or is_loopback_excepted(environment):
        return
    kept = _exceptions(environment)
    environment[EXCEPTIONS[0]] = ",".join(each for each in (kept, LOOPBACK, LOCAL_NAME) if each)


def _exceptions(environment: Mapping[str, str]) -> str:
    return next((environment[each] for each in EXCEPTIONS if environment.get(each)), "")


def _is_loopback(entry: str) -> bool:
    """Whether an entry of `no_proxy` is about the loopback: the end of a name, or a network."""
    if "/" in entry:
        try:
            return ip_address(LOOPBACK) in ip_network(entry, strict=False)
        except ValueError:
            return False
    return bool(entry) and LOOPBACK.endswith(entry)


OWN_POOLS = "TF_OVERRIDE_GLOBAL_THREADPOOL"
"""The variable by which each session has threads of its own for the parts of ops, a pool for each device.

TensorFlow reads it when it makes the first pool. Without it, it would make no other one: all sessions would
have the threads that the first one asks for, which may be for reading examples or for building a graph.
"""

FATAL_ONLY = "3"  # what TensorFlow logs as an error is also raised, or has no consequence


def start_telling(*, verbose: bool = False) -> None:
    """Start TensorFlow, with a spinner if somebody looks on: it takes seconds."""
    with busy("starting TensorFlow", plain=False):
        start_tensorflow(verbose=verbose)


def start_tensorflow(*, verbose: bool = False) -> Any:
    """Import TensorFlow and Keras, and let TensorFlow reach servers of this machine without a proxy.

    Raises:
        RunError: If the process may not have as much memory, or as many open files, as that takes, if Keras
            cannot read its settings, or if code of the process has switched eager execution off.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault(OWN_POOLS, "true")
    except_loopback(os.environ)
    if "tensorflow" not in sys.modules:
        require_addresses()
        require_files()
    elif not is_owned():
        _require_eager_execution()
    if verbose or "tensorflow" in sys.modules:
        _import_keras()
        import tensorflow as tf

        return tf
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", FATAL_ONLY)
    imports = without_scikit_learn() if is_owned() else nullcontext()
    with not_interruptible(), _silenced(), collector_paused(), imports:
        _import_keras()
        import tensorflow as tf

        tf.config.list_physical_devices()  # some messages are written when TensorFlow looks for GPUs
        if is_owned():
            gc.freeze()  # what has been imported stays, and need not be looked through again and again
    tf.get_logger().setLevel("ERROR")
    # Said of a check whose result code of the user's drops, with a list of calls; it is run nevertheless.
    tf.get_logger().addFilter(lambda record: "Object was never used" not in record.getMessage())
    return tf


def _import_keras() -> None:
    try:
        import keras
    except (AttributeError, TypeError, ValueError) as fault:
        raise RunError(keras_settings(reason=str(fault))) from fault
    del keras


def _require_eager_execution() -> None:
    """Check that a thread that is in no graph runs ops at once. Raises RunError if it does not."""
    import tensorflow as tf

    with ThreadPoolExecutor(1) as apart:
        if not apart.submit(tf.executing_eagerly).result():
            raise RunError(eager_execution_off())


@contextmanager
def without_scikit_learn() -> Iterator[None]:
    """Let Keras, if it is imported in the block, find scikit-learn not installed.

    Keras imports it for wrappers that are of no use in a command, and this takes a third of the time in which
    TensorFlow starts. The user's own code can import it afterwards.
    """
    name = "sklearn"
    if name in sys.modules or "keras" in sys.modules:
        yield
        return
    marked: dict[str, Any] = {name: None}  # as Python marks what cannot be imported
    sys.modules.update(marked)
    try:
        yield
    finally:
        del sys.modules[name]


@contextmanager
def _silenced() -> Iterator[None]:
    """Redirect descriptor 2 to a file during the block, and write out the file if the block fails."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as kept:
        before = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except Exception:
            os.dup2(before, 2)
            _replay(kept)
            raise
        finally:
            os.dup2(before, 2)
            os.close(before)


def _replay(kept: IO[bytes]) -> None:
    kept.seek(0)
    with os.fdopen(os.dup(2), "wb") as out:
        shutil.copyfileobj(kept, out)
