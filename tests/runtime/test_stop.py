"""Signals end a run after its step and a checkpoint; a second one ends it at once."""

import contextvars
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.patience import wait_until
from tests.runtime.tasks import is_pending
from tfdeploy.own_process import cleanup
from tfdeploy.runtime.stop import (
    GivenUp,
    Interrupted,
    ReleasableThread,
    StopSignals,
    Terminated,
    temporary_folder,
)
from tfdeploy.runtime.watchdog import Activity

DEFERRED = """
import sys, time
from tfdeploy.runtime.stop import StopSignals
with StopSignals() as stop:
    print("ready", flush=True)
    while stop.received is None:
        time.sleep(0.01)
    print("checkpoint", flush=True)
    stop.check()
print("not reached")
"""

STUCK = """
import ctypes
from tfdeploy.runtime.stop import StopSignals
with StopSignals(own_process=True) as stop:
    print("ready", flush=True)
    library = ctypes.CDLL(None)
    while True:
        library.usleep(900_000)  # as a step does, outside of Python
        [None for _ in range(10)] if stop.received is None else library.pause()
"""


ANOTHERS = """
import time
from tfdeploy.runtime.stop import StopSignals
with StopSignals() as stop:
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
"""


def start(code: str) -> subprocess.Popen[str]:
    """Start a process that runs `code`, and wait until it is ready."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


NOTED_BY_TWO = DEFERRED.replace("StopSignals()", "StopSignals(own_process=True)").replace("0.01", "0.5")
"""The process is the run's own, where a thread reads what the main thread has handled already."""


@pytest.mark.parametrize("program", [DEFERRED, NOTED_BY_TWO], ids=["a program of others", "noted by two"])
def test_sigterm_ends_after_a_checkpoint(program: str) -> None:
    """The exit code is 143, and what had to be done was done, once."""
    process = start(program)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20) == ("checkpoint\n", None)
    assert process.returncode == 143


@pytest.mark.parametrize(
    ("program", "number", "code"),
    [
        pytest.param(STUCK, signal.SIGINT, 130, id="SIGINT while its main thread is outside of Python"),
        pytest.param(STUCK, signal.SIGTERM, 143, id="SIGTERM while its main thread is outside of Python"),
        pytest.param(ANOTHERS, signal.SIGTERM, -signal.SIGTERM, id="a program that does not handle SIGTERM"),
    ],
)
def test_a_second_signal_ends_at_once(program: str, number: signal.Signals, code: int) -> None:
    """A process of the run's own, and one of others as it would without a run."""
    process = start(program)
    process.send_signal(number)
    wait_until(lambda: not is_pending(process.pid, number))
    process.send_signal(number)
    assert process.wait(timeout=20) == code
    process.stdout.close()


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, Interrupted), (signal.SIGTERM, Terminated)])
def test_a_signal_is_kept_until_it_is_asked_for(number: signal.Signals, kind: type[BaseException]) -> None:
    """The first signal raises nothing by itself, and the handlers come back afterwards."""
    before = signal.getsignal(number)
    with StopSignals() as stop:
        stop.check()
        signal.raise_signal(number)
        assert stop.received is number
        with pytest.raises(kind):
            stop.check()
    assert signal.getsignal(number) is before


def test_in_a_program_of_others_the_second_is_theirs() -> None:
    """Where the process is not the run's own, a second SIGINT does what it did before."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with StopSignals():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_exceptions_are_those_that_python_programs_expect() -> None:
    """Interrupted is a KeyboardInterrupt, Terminated a SystemExit with code 143."""
    assert issubclass(Interrupted, KeyboardInterrupt)
    assert Terminated().code == 143


def test_a_run_that_is_given_up_goes_on_no_more() -> None:
    """Whoever waits for it gets the exception of the signal, and what the run holds is released once."""
    asleep, woken, released = threading.Event(), threading.Event(), []

    def work() -> Any:
        with cleanup(lambda: released.append(1)):
            asleep.set()
            woken.wait(60)
            try:
                Activity(stop=stop).note_progress()
            except GivenUp:
                released.append(2)
                raise

    with StopSignals() as stop:
        threading.Thread(target=lambda: (asleep.wait(60), stop.end_run(signal.SIGTERM))).start()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Terminated):
            stop.run(work)
        assert released == [1]
        woken.set()
        wait_until(lambda: len(released) == 2)
    assert released == [1, 2]


def test_a_run_in_a_program_of_others_gives_its_outcome() -> None:
    """The result or the exception is that of the work, whose thread has the context of the caller."""
    word = contextvars.ContextVar("word", default="")
    word.set("own")
    with StopSignals() as stop:
        assert stop.run(word.get) == "own"  # type: ignore[arg-type]
        with pytest.raises(ZeroDivisionError):
            stop.run(lambda: 1 // 0)  # type: ignore[arg-type, return-value]


def test_when_a_signal_arrived_is_known_before_a_thread_has_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait that looks at both finds both, though the main thread is often the first to handle a signal."""
    over = threading.Event()
    monkeypatch.setattr(StopSignals, "_end_at_second", lambda _self, end: over.wait() and end.close())
    with StopSignals(own_process=True) as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.received is signal.SIGINT
        assert stop.arrived[0] is signal.SIGINT
    over.set()


def test_a_thread_is_released_from_what_never_ends() -> None:
    """What it waits for goes on beside it, and the next thing is done whatever comes of that."""
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def stuck() -> None:
        begun.set()
        may_end.wait()
        ended.set()

    with ReleasableThread("waiting") as waiting:

        def release() -> None:
            begun.wait()
            waiting.release(TimeoutError("released"))

        releasing = threading.Thread(target=release)
        releasing.start()
        with pytest.raises(TimeoutError, match="released"):
            waiting.run(stuck)
        releasing.join()
        assert waiting.run(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            waiting.run(lambda: 1 / 0)
        waiting.release(TimeoutError("nothing waits"))
        may_end.set()
        assert ended.wait()
        assert waiting.run(lambda: 8) == 8


KILLED = """
import os, signal
from tfdeploy.runtime.stop import temporary_folder
with temporary_folder() as folder:
    (folder / "secret").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_has_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the next that makes such a folder; those that are in use stay, and so do folders of others."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "tfdeploy-packages").mkdir()
    (tmp_path / "tfdeploy-packages" / ".lock").touch()
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with temporary_folder() as first:
        subprocess.run([sys.executable, "-c", KILLED], env=environment, check=False)
        assert len(list(tmp_path.iterdir())) == 3
        with temporary_folder() as second:
            assert set(tmp_path.iterdir()) == {first, second, tmp_path / "tfdeploy-packages"}
    assert [each.name for each in tmp_path.iterdir()] == ["tfdeploy-packages"]
