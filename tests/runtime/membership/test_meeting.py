"""Places where tasks meet: who is entered as what, whose entry counts, and what becomes of the place."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from dsl.diagnostics import RunError
from tests.runtime.tasks import free_ports, secret_of_folder
from tfdeploy.runtime.membership.meeting import GONE_AFTER, Address, Entry, Folder, this_machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfdeploy.runtime.membership.meeting import Meeting

    Place = Callable[[], Meeting]

TASKS = ["ps:0", "worker:0", "worker:1"]
HERE = Entry("", "here", 0, this_machine(), os.getpid(), "abc")
THERE = evolve(HERE, host="there", machine="another one", process=1)


@pytest.fixture(params=["folder", "address"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return what each process makes of the same place for itself."""
    if request.param == "folder":
        return lambda: Folder(tmp_path / "meeting")
    address, secret = f"127.0.0.1:{free_ports(1)[0]}", secret_of_folder(tmp_path)
    return lambda: Address(address, secret)


def test_each_process_becomes_the_first_task_that_is_free(place: Place) -> None:
    """A process that enters again is what it was, and the fourth one of three tasks is none."""
    first = place()
    entered = first.enter(HERE, TASKS)
    assert entered.task == "ps:0"
    others = [place().enter(evolve(THERE, process=each), TASKS) for each in (1, 2, 3)]
    assert [each and each.task for each in others] == ["worker:0", "worker:1", None]
    assert first.enter(HERE, TASKS) == entered
    assert {task: each.host for task, each in place().present().items()} == {
        "ps:0": "here",
        "worker:0": "there",
        "worker:1": "there",
    }
    place().leave(entered)
    assert sorted(first.present()) == ["worker:0", "worker:1"]


def test_a_task_whose_process_was_killed_is_free_and_keeps_its_port(place: Place) -> None:
    """Others know the port; it is taken again only on the machine on which it was."""
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    (port,) = free_ports(1)
    before = evolve(HERE, process=killed.pid, port=port)
    first = place()
    assert first.enter(HERE, ["ps:0"]) is not None
    assert first.enter(before, ["worker:0"]) is not None
    assert sorted(first.present()) == ["ps:0"]
    again = place().enter(evolve(HERE, process=os.getppid(), port=1), ["worker:0"])
    assert again.port == port
    assert first.enter(evolve(before, task=""), ["worker:1"]) is not None
    elsewhere = place().enter(evolve(THERE, port=2), ["worker:1"])
    assert elsewhere.port == 2


def test_a_port_that_another_program_has_is_not_taken_again(place: Place) -> None:
    """The task gets the port that its new process has found."""
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        before = evolve(HERE, process=killed.pid, port=other.getsockname()[1])
        assert place().enter(before, ["worker:0"]) is not None
        again = place().enter(evolve(HERE, port=7), ["worker:0"])
        assert again.port == 7


def test_an_entry_that_nobody_renews_is_of_a_process_that_is_gone(tmp_path: Path) -> None:
    """Its age is that of its file, by the clock of the folder; the last one to leave removes what is ours."""
    folder, path = Folder(tmp_path / "meeting"), tmp_path / "meeting" / "worker-0.json"
    entered = folder.enter(THERE, ["worker:0"])
    assert entered is not None
    assert sorted(folder.present()) == ["worker:0"]
    old = path.stat().st_mtime - GONE_AFTER - 1
    os.utime(path, (old, old))
    assert folder.present() == {}
    assert folder.enter(entered, ["worker:0"]) is not None
    assert sorted(folder.present()) == ["worker:0"]
    path.with_name("worker-1.json").write_text("{}")  # damaged: it counts as absent
    assert sorted(folder.present()) == ["worker:0"]
    (tmp_path / "meeting" / "mine.txt").touch()
    folder.leave(entered)
    assert [each.name for each in (tmp_path / "meeting").iterdir()] == ["mine.txt"]


def test_only_who_has_the_secret_is_answered(tmp_path: Path) -> None:
    """A process with another secret learns nothing, and enters nobody."""
    (tmp_path / "other").mkdir()
    address = f"127.0.0.1:{free_ports(1)[0]}"
    keeper = Address(address, secret_of_folder(tmp_path))
    assert keeper.enter(HERE, TASKS) is not None
    with pytest.raises(RunError, match="TFD788") as caught:
        Address(address, secret_of_folder(tmp_path / "other")).enter(THERE, TASKS)
    assert "another secret" in str(caught.value)
    assert sorted(keeper.present()) == ["ps:0"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file is in the way."""
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="TFD788") as caught:
        Folder(tmp_path / "file").present()
    assert "file" in str(caught.value)
