"""Processes of Python that have TensorFlow loaded when they start: forked, rather than executed.

Importing TensorFlow and Keras costs some seconds of a processor, and tests of clusters and of signals start a
hundred processes. So one process, the nursery, has imported both and runs nothing of TensorFlow: it has one
thread and can be forked. It is itself forked from the process that runs tests, when that one has collected
them and run none. If none of them imports TensorFlow, the nursery is executed when it is first needed.

The processes in which pytest-xdist runs tests side by side come from a nursery as well, which has imported
the tests and all that they test, once for all of them.

`Popen` is `subprocess.Popen` for commands of this Python, except that the nursery forks the process. It is a
child of the process that asked for it: that one has declared itself a subreaper, and the process in between
ends. What it starts through `tfdeploy.runtime.launch` is forked as well, by a nursery of its own. When its
command is over it ends as Python does, except that what is left is not taken apart.

What only an executed process can show (which files it imports, settings that Python or TensorFlow read while
they start, what is printed before anything else) is tested with `subprocess.Popen`.
"""

import atexit
import ctypes
import faulthandler
import fcntl
import gc
import importlib
import json
import logging
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
LARGEST = 1 << 17  # bytes of a request; most of it is the environment
MOST_DESCRIPTORS = 16
HIGH = 500  # descriptors from here on are used by nothing else
WORDS = 900  # the descriptor of a file in memory that has the command of a forked process
SETTINGS = {
    "TF_CPP_MIN_LOG_LEVEL": "3",  # as `start_tensorflow` sets it
    "KERAS_BACKEND": "tensorflow",
    "OPENBLAS_NUM_THREADS": "1",  # NumPy would start threads while it is imported
}


class Nursery:
    """The connection to a process that forks others for this one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def ask(self, request: dict[str, Any], descriptors: list[int]) -> int:
        """Return the id of a new process; it gets the descriptors as 0, 1, 2 and `request["keep"]`."""
        with self._lock:
            socket.send_fds(self._connection, [json.dumps(request).encode()], descriptors)
            return int(self._connection.recv(64))


_NURSERIES: list[Nursery] = []


def nursery() -> Nursery:
    """Return the nursery of this process: it starts when it is first needed, and ends with the process."""
    if _NURSERIES:
        return _NURSERIES[0]
    _adopt()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            env={**os.environ, **SETTINGS},
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
        )
    _NURSERIES.append(Nursery(ours))
    atexit.register(process.wait)
    atexit.register(ours.close)  # before the wait, which it ends
    return _NURSERIES[0]


@contextmanager
def to_be_forked() -> Iterator[None]:
    """Let TensorFlow, if it is imported in the block, read the settings of forked processes."""
    before = {name: os.environ.get(name) for name in SETTINGS}
    os.environ |= SETTINGS
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@cache
def fork_tests_nursery() -> None:
    """Fork the nursery from this process, if it has none and has TensorFlow when it first comes here."""
    if _has_tensorflow() and not _NURSERIES:
        fork_nursery(_load)


def fork_nursery(load: Callable[[], None]) -> None:
    """Fork the nursery from this process.

    Args:
        load: Is called in the nursery when that is first asked for a process.
    """
    assert _native_threads() == 0, "a test has TensorFlow start threads while it is imported"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        with _leaving():
            connection = socket.socket(fileno=fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, HIGH))
            os.closerange(3, HIGH)
            forget_the_tests()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            _serve(connection, load)
    theirs.close()
    _adopt()
    _NURSERIES.append(Nursery(ours))
    atexit.register(os.waitpid, pid, 0)
    atexit.register(ours.close)  # before the wait, which it ends


def _has_tensorflow() -> bool:
    """Return whether this process has imported TensorFlow and Keras."""
    return {"tensorflow", "keras"} <= sys.modules.keys()


def _native_threads() -> int:
    """Return how many threads this process has that are not Python's."""
    return len(os.listdir("/proc/self/task")) - len(sys._current_frames())  # noqa: PTH208 names alone


def _installed() -> list[str]:
    """Return where a new process of Python looks for modules, apart from PYTHONPATH and its folder."""
    code = "import json, sys; print(json.dumps(sys.path[1:]))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return [each for each in json.loads(done.stdout) if each not in _python_path()]


def forget_the_tests() -> None:
    """Take back what pytest has changed of Python in a process that is forked from it."""
    faulthandler.disable()
    atexit._clear()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]
    atexit.register(logging.shutdown)
    logging.root.handlers.clear()
    sys.meta_path[:] = [each for each in sys.meta_path if not type(each).__module__.startswith("_pytest.")]
    sys.excepthook = sys.__excepthook__
    sys.unraisablehook = sys.__unraisablehook__
    threading.excepthook = threading.__excepthook__
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__


def _adopt() -> None:
    """Let Linux give this process the children of descendants that have ended."""
    assert ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


class Popen(subprocess.Popen[Any]):
    """A process of this Python that the nursery forks; all else is as in `subprocess.Popen`."""

    def _execute_child(self, args: Any, *rest: Any) -> None:
        """Fork instead of executing; the arguments are those of the method that this one replaces."""
        (_, before_exec, _, keep, cwd, env, _, _, shell), pipes, others = rest[:9], rest[9:15], rest[15:]
        command = [os.fspath(each) for each in args]
        environment = dict(os.environ if env is None else env)
        assert command[0] == sys.executable, command
        assert before_exec is None
        assert not shell
        for name in environment.keys() | os.environ.keys():
            if name in SETTINGS or (name.startswith("PYTHON") and name != "PYTHONPATH"):
                assert environment.get(name) == os.environ.get(name), f"{name} is read once, by the nursery"
        streams = [pipes[0], pipes[3], pipes[5]]
        request = {
            "command": command[1:],
            "environment": environment,
            "folder": os.fspath(Path.cwd() if cwd is None else cwd),
            "keep": list(keep),
            "session": bool(others[-2]),
        }
        descriptors = [own if own != -1 else inherited for inherited, own in enumerate(streams)]
        self.pid = nursery().ask(request, [*descriptors, *keep])
        self._child_created = True
        self._close_pipe_fds(*pipes)


def run(
    arguments: list[str], *, stdin: bytes | None = None, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a command of this Python in a forked process, as `subprocess.run` does with `capture_output`."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Popen(arguments, **pipes, **options) as process:
        try:
            out, err = process.communicate(stdin, timeout)
        finally:
            process.kill()
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


AS_SUBPROCESS = SimpleNamespace(Popen=Popen, PIPE=subprocess.PIPE, DEVNULL=subprocess.DEVNULL)
"""What `tfdeploy.runtime.launch.task_processes` uses of `subprocess`, with processes that are forked."""


def words_of(pid: int) -> list[str]:
    """Return the command of a process, forked or executed; none if it has ended."""
    folder = Path(f"/proc/{pid}")
    file = folder / "cmdline"
    with suppress(OSError):
        if str((folder / f"fd/{WORDS}").readlink()).startswith("/memfd:words"):
            file = folder / f"fd/{WORDS}"
    with suppress(OSError):
        text = file.read_bytes().decode()
        return text.rstrip("\0").split("\0") if text else []
    return []


# --- the nursery, and the processes that it forks ---------------------------------------------------------


def main() -> None:
    """Load everything and fork, in a process that has been executed for that."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    _import_tensorflow()
    with _leaving():
        _serve(connection, _load)


def _serve(connection: socket.socket, load: Callable[[], None]) -> None:
    """Fork; what is forked leaves the loop and runs its command as Python would.

    Args:
        connection: To the process for which this one forks others.
        load: Imports what these have in common; is called when the first of them is wanted. What they start
            themselves has `_load` called.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the processes
    installed: list[str] = []
    asked: socket.socket | None = connection
    while asked is not None:
        if not asked.recv(1, socket.MSG_PEEK):
            os._exit(0)
        installed = installed or _installed()
        load()
        assert _native_threads() == 0, "a process with threads cannot be forked"
        gc.freeze()
        request = _next(asked)
        asked = _nursery_of_its_own(request)
        load = _load
    _become(request)
    _run(request["command"], installed)


@contextmanager
def _leaving() -> Iterator[None]:
    """End the process after the block, or an exception in it, as Python does after a program."""
    code = 0
    try:
        yield
    except KeyboardInterrupt:
        traceback.print_exc()
        code = -signal.SIGINT
    except SystemExit as error:
        code = _exit_code(error)
    except BaseException:  # noqa: BLE001 whatever a program ends with
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 120
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _exit_code(error: SystemExit) -> int:
    """Return the exit code that an exception stands for; what is neither a number nor nothing is printed."""
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)  # noqa: T201 as Python does
    return 1


def _import_tensorflow() -> None:
    """Import TensorFlow and Keras as a command does."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tfdeploy.runtime.start_tensorflow import _silenced, without_scikit_learn

    with _silenced(), without_scikit_learn():
        import keras
        import tensorflow as tf

        del keras, tf


@cache
def _load() -> None:
    """Import what else the processes will need that are no workers."""
    import tensorflow as tf

    for package in ("dsl", "grammar", "compiler", "tfdeploy"):
        for each in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not each.name.endswith(("__main__", ".launch.child")):
                importlib.import_module(each.name)
    tf.get_logger().setLevel("ERROR")  # as `start_tensorflow` does
    task_processes = importlib.import_module("tfdeploy.runtime.launch.task_processes")
    vars(task_processes)["subprocess"] = AS_SUBPROCESS


def _next(connection: socket.socket) -> dict[str, Any]:
    """Fork a process for every request, and return the request in that process; end with the one who asks."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, LARGEST, MOST_DESCRIPTORS)
        if not message:
            os._exit(0)
        reading, writing = os.pipe()
        between = os.fork()
        if between == 0:
            between = os.getpid()
            child = os.fork()
            if child != 0:
                os.write(writing, str(child).encode())
                os._exit(0)
            while os.getppid() == between:
                time.sleep(0.001)
            high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, HIGH) for each in descriptors]
            for each in (reading, writing, *descriptors, connection.detach()):
                os.close(each)
            return json.loads(message) | {"descriptors": high}
        for each in (writing, *descriptors):
            os.close(each)
        os.waitpid(between, 0)  # from now on the process is a child of the one who asks
        with open(reading, "rb") as pipe:  # noqa: PTH123 a descriptor
            connection.send(pipe.read())


def _nursery_of_its_own(request: dict[str, Any]) -> socket.socket | None:
    """Fork a nursery for what a process will start; in it, return its end of the connection, else None.

    Without TensorFlow there is nothing to be had from it.
    """
    if not _has_tensorflow():
        return None
    _adopt()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        for each in request["descriptors"]:
            os.close(each)
        return theirs
    theirs.close()
    _NURSERIES.append(Nursery(ours))
    return None


def _become(request: dict[str, Any]) -> None:
    """Take the streams, the environment and the folder of a request."""
    if request["session"]:
        os.setsid()
    for at, each in zip([0, 1, 2, *request["keep"]], request["descriptors"], strict=True):
        os.dup2(each, at)
        os.close(each)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", 1 if os.isatty(1) else -1, errors=sys.__stdout__.errors, closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    words = os.memfd_create("words")
    os.write(words, "\0".join([sys.executable, *request["command"]]).encode())
    os.dup2(words, WORDS, inheritable=False)
    os.close(words)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _python_path() -> list[str]:
    """Return the folders that the environment adds to those in which Python looks for modules."""
    return [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]


def _run(command: list[str], installed: list[str]) -> None:
    """Run a command of Python: `-m MODULE`, `-c CODE` or a file.

    After `-P`, modules beside the file are not found; after `-u`, output is written at once.
    """
    safe = command[0] == "-P"
    if command[0] == "-u":
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    command = command[command[0] in {"-P", "-u"} :]
    sys.argv = command[1:] if command[0].startswith("-") else command
    first = {"-m": os.getcwd(), "-c": ""}.get(command[0], str(Path(command[0]).resolve().parent))  # noqa: PTH109
    sys.path[:] = [*([] if safe else [first]), *_python_path(), *installed]
    if command[0] == "-m":
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    elif command[0] == "-c":
        sys.argv[0] = "-c"
        exec(compile(command[1], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 it is what `-c` does
    else:
        runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main()
