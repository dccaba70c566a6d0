"""Processes that measure in turn, and how much of the machine other work has meanwhile."""

import os
import socket
import sys
from pathlib import Path

import pytest
from attrs import evolve

from tests import forked
from tfdeploy.cli.commands.calibrate import _disturbed
from tfdeploy.runtime.calibrate import processes
from tfdeploy.runtime.calibrate.processes import (
    BUSY,
    OtherWork,
    Turns,
    busy_processors,
    own_processors,
    run_in_turns,
)
from tfdeploy.runtime.launch.task_processes import SCRIPT

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


@pytest.mark.parametrize(
    ("busy", "own", "expected"), [(16.0, 2.0, 0.5), (10.0, 0.0, 0.0), (40.0, 0.0, 1.0), (12.0, 5.0, 0.0)]
)
def test_what_this_process_does_is_not_other_work(busy: float, own: float, expected: float) -> None:
    """In 2 seconds 4 processors have 8. What they were busy with beyond this process is other work."""
    before, after = OtherWork(100.0, 10.0, 1.0), OtherWork(102.0, busy, 1.0 + own)
    assert before.share_until(after, 4) == pytest.approx(expected)
    assert before.share_until(before, 4) is None
    for unknown in (evolve(before, busy=None), before):
        assert unknown.share_until(evolve(after, busy=None), 4) is None


def test_the_system_tells(tmp_path: Path) -> None:
    """Idle processors and those that wait for files are not busy; those that the host has taken are."""
    stat = tmp_path / "stat"
    stat.write_text("cpu 1 2 3 1000 1000 4 5 6 9 9\ncpu0 0\n")
    assert busy_processors(stat) == pytest.approx(21 / os.sysconf("SC_CLK_TCK"))
    assert busy_processors(tmp_path / "missing") is None


def test_other_work_is_a_part_of_the_machine() -> None:
    """Of this one, from now on."""
    work = OtherWork()
    share = work.share()
    assert share is None or 0.0 <= share <= 1.0
    assert OtherWork(busy=None).share() is None


def test_the_processors_of_this_process_are_counted() -> None:
    """Work of this process makes them more."""
    before = own_processors()
    while own_processors() == before:
        sum(range(100_000))
    assert own_processors() > before


def test_a_busy_machine_is_named() -> None:
    """Nothing is said of a little, and of what is not known."""
    assert _disturbed(BUSY / 2) == []
    assert _disturbed(None) == []
    (line,) = _disturbed(0.34)
    assert line.startswith("other work had 34% of the processors meanwhile")


def test_who_measures_ends_with_who_calibrates(monkeypatch: pytest.MonkeyPatch) -> None:
    """However that ends: the processes are started as those of a launcher are."""
    started: list[list[str]] = []

    def run(commands: list[list[str]], between: object, pipe: int) -> bool:
        del between
        started.extend([*each[1:4], str(pipe)] for each in commands)
        return False

    monkeypatch.setattr(processes, "run_in_turns", run)
    assert processes.measure_in_processes(["calibrate"], [1, 2]) is None
    assert [(each[0], each[2]) for each in started] == [(str(SCRIPT), str(os.getpid()))] * 2
    assert all(each[1] == each[3] for each in started)
