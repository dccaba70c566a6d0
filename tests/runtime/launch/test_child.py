"""The process of a task: it ends with the process that has started it, and finds the project."""

from __future__ import annotations

import os
import runpy
import sys
from importlib import util
from pathlib import Path

import pytest

from tests.folders import ROOT
from tfdeploy.runtime.launch import child


def test_a_task_without_its_launcher_ends_as_if_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exit code is that of a process that SIGKILL has ended."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    reading, writing = os.pipe()
    os.close(writing)
    child._end_with(reading)
    os.close(reading)
    assert codes == [128 + 9]


@pytest.mark.parametrize("installed", [True, False])
def test_the_project_is_found_if_it_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, *, installed: bool
) -> None:
    """Its folder comes last, and only if it is needed; that of the script is no place for imports."""
    ran: list[str] = []
    own, path = str(Path(child.__file__).parent), ["first"]
    monkeypatch.setattr(child, "follow", lambda pipe, parent: ran.append(f"{pipe} {parent}"))
    monkeypatch.setattr(runpy, "run_module", lambda name, **_: ran.append(name))
    monkeypatch.setattr(util, "find_spec", lambda _: child if installed else None)
    monkeypatch.setattr(sys, "argv", ["child.py", "5", "77", "check", "a"])
    monkeypatch.setattr(sys, "path", [own, *path])
    child.main()
    assert ran == ["5 77", "tfdeploy"]
    assert sys.argv == ["tfdeploy", "check", "a"]
    assert sys.path == (path if installed else [*path, str(ROOT)])
