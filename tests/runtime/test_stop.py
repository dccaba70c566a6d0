"""Signals end a run after its step and a checkpoint; a second one ends it at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.runtime.tasks import is_pending
from tfdeploy.runtime.stop import Interrupted, StopSignals, Terminated

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


def start(code: str) -> subprocess.Popen[str]:
    """Start a process that runs `code`, and wait until it is ready."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_sigterm_ends_after_a_checkpoint() -> None:
    """The exit code is 143, and what had to be done was done."""
    process = start(DEFERRED)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20) == ("checkpoint\n", None)
    assert process.returncode == 143


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_at_once(number: signal.Signals, code: int) -> None:
    """A process whose main thread is outside of Python ends at the second signal."""
    process = start(STUCK)
    process.send_signal(number)
    while is_pending(process.pid, number):
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(timeout=20) == code
    assert process.stdout is not None
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
    with StopSignals():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_the_exceptions_are_those_that_python_programs_expect() -> None:
    """Interrupted is a KeyboardInterrupt, Terminated a SystemExit with code 143."""
    assert issubclass(Interrupted, KeyboardInterrupt)
    assert Terminated().code == 143
