"""How much of the machine other work has while a process measures."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tfdeploy.cli.commands.calibrate import _disturbed
from tfdeploy.runtime.calibrate import processes
from tfdeploy.runtime.calibrate.processes import BUSY, OtherWork, busy_processors, own_processors


@pytest.mark.parametrize(
    ("busy", "own", "expected"), [(16.0, 2.0, 0.5), (10.0, 0.0, 0.0), (40.0, 0.0, 1.0), (12.0, 5.0, 0.0)]
)
def test_what_this_process_does_is_not_other_work(
    monkeypatch: pytest.MonkeyPatch, busy: float, own: float, expected: float
) -> None:
    """In 2 seconds 4 processors have 8. What they were busy with beyond this process is other work."""
    monkeypatch.setattr(processes, "busy_processors", lambda: busy)
    monkeypatch.setattr(processes, "own_processors", lambda: 1.0 + own)
    monkeypatch.setattr(time, "perf_counter", lambda: 102.0)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert OtherWork(100.0, 10.0, 1.0).share() == pytest.approx(expected)


def test_the_system_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle processors and those that wait for files are not busy; those that the host has taken are."""
    stat = tmp_path / "stat"
    stat.write_text("cpu 1 2 3 1000 1000 4 5 6 9 9\ncpu0 0\n")
    monkeypatch.setattr(processes, "STAT", stat)
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_CLK_TCK": 10}[name])
    assert busy_processors() == pytest.approx(2.1)
    monkeypatch.setattr(processes, "STAT", tmp_path / "missing")
    assert busy_processors() is None
    assert OtherWork().share() is None


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
