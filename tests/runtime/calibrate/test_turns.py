"""Processes that measure in turn, each of which writes into one file what it does."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tests import forked
from tfdeploy.runtime.calibrate import processes
from tfdeploy.runtime.calibrate.processes import Turns, run_in_turns

WORK = """
import sys
from tfdeploy.runtime.calibrate.processes import Turns

name, count, status, path = sys.argv[1:]
wait = Turns()
for number in range(int(count)):
    wait()
    with open(path, "a") as log:
        log.write(f"{name}{number} ")
sys.exit(int(status))
"""


@pytest.fixture(autouse=True)
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "subprocess", forked.AS_SUBPROCESS)


@pytest.mark.parametrize(
    ("ends", "done", "between"),
    [
        (("2 0", "4 0"), (True, "a0 b0 a1 b1 b2 b3 "), 3),
        (("3 0", "2 0", "1 0"), (True, "a0 b0 c0 a1 b1 a2 "), 2),
        (("2 1", "4 0"), (False, "a0 b0 a1 "), 1),
        (("1 0",), (True, "a0 "), 0),
    ],
)
def test_one_works_at_a_time(
    tmp_path: Path, ends: tuple[str, ...], done: tuple[bool, str], between: int
) -> None:
    """They alternate as long as they have turns; one that fails ends the others."""
    log = tmp_path / "log"
    commands = [
        [sys.executable, "-c", WORK, name, *end.split(), str(log)]
        for name, end in zip("abc", ends, strict=False)
    ]
    rounds: list[str] = []
    assert (run_in_turns(commands, lambda: rounds.append(log.read_text())), log.read_text()) == done
    assert rounds == [log.read_text()[: len(each)] for each in rounds]  # it was called while all waited
    assert len(rounds) == between


def test_a_process_whose_turns_end_ends() -> None:
    """It does not measure for nobody: the one that gave the turns has gone."""
    ours, theirs = socket.socketpair()
    with theirs:
        wait = Turns(theirs.fileno())
        ours.sendall(b"\n\n")
        wait()
        wait()
        assert ours.recv(9) == b"\n"  # its first turn has ended
        ours.close()
        with pytest.raises((SystemExit, BrokenPipeError)):
            wait()
