"""Places where tasks meet: who is entered as what, whose entry counts, and what becomes of the place."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from attrs import evolve

from dsl.diagnostics import RunError
from tests.runtime.tasks import SPEC, free_ports, secret_of_folder
from tests.support import spec_of
from tfdeploy.runtime.membership import meeting
from tfdeploy.runtime.membership.addresses import Membership, Task
from tfdeploy.runtime.membership.meeting import (
    GONE_AFTER,
    Address,
    Entry,
    Folder,
    Meeting,
    Renewal,
    meet,
    this_machine,
)

reserve = meeting.bound_socket

Place = Callable[[], Meeting]
TASKS = ["ps:0", "worker:0", "worker:1"]
HERE = Entry("", "here", 0, this_machine(), os.getpid(), "abc")
THERE = evolve(HERE, host="there", machine="another one", process=1)


@pytest.fixture(params=["folder", "127.0.0.1", "[::1]"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return what each process makes of the same place for itself."""
    if request.param == "folder":
        return lambda: Folder(tmp_path / "meeting")
    address, secret = f"{request.param}:{free_ports(1)[0]}", secret_of_folder(tmp_path)
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


def test_who_comes_back_does_not_wait_for_others_that_have_gone(place: Place) -> None:
    """As long as one of those who had met goes on: where the others were counts until it has gone too."""
    three = [evolve(THERE, process=each, port=each, met=True) for each in (1, 2, 3)]
    keeper = place()
    entered = [keeper.enter(each, [task]) for each, task in zip(three, TASKS, strict=True)]
    for each in entered[1:]:
        place().leave(each)
    assert [place().present()[each].port for each in TASKS] == [1, 2, 3]
    back = place().enter(evolve(THERE, process=4, port=4), TASKS)
    assert (back.task, back.port) == ("worker:0", 2)
    place().leave(entered[0])
    assert sorted(place().present()) == ["worker:0"]


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


def test_nothing_is_left_of_those_that_come_and_go_at_once(tmp_path: Path) -> None:
    """Whoever comes while the last one leaves makes the folder anew, and is not told that it is missing."""
    path = tmp_path / "meeting"

    def come_and_go(task: str) -> None:
        for _ in range(20):
            renewal = Renewal(Folder(path), Folder(path).enter(HERE, [task]), reserve("", 0))
            assert renewal.renew()
            renewal.leave()
            assert not renewal.renew()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(come_and_go, [f"worker:{at}" for at in range(8)])) == [None] * 8
    assert not path.exists()


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


def test_a_folder_with_other_files_is_no_place_to_meet(tmp_path: Path) -> None:
    """It is refused before anything is written, and nothing is removed from it."""
    (tmp_path / "result-1.json").write_text("{}")
    (tmp_path / "secret").write_text("mine")
    with pytest.raises(RunError, match="TFD788") as caught:
        Folder(tmp_path).enter(HERE, TASKS)
    assert "the folder has other files, such as `result-1.json`" in str(caught.value)
    Folder(tmp_path).leave(HERE)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["result-1.json", "secret"]
    assert (tmp_path / "secret").read_text() == "mine"


def test_a_folder_is_named_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that processes in two working directories are seen to meet in two places."""
    monkeypatch.chdir(tmp_path)
    assert Folder(Path("meeting")).where == str(tmp_path / "meeting")


class Taken:
    """A place where this process gets no task."""

    where = "there"

    def __init__(self, *entries: Entry) -> None:
        self.met: Mapping[str, Entry] = {}
        self.entries = {each.task: each for each in entries}

    def enter(self, entry: Entry, tasks: object) -> None:
        """Enter nobody."""

    def present(self) -> dict[str, Entry]:
        """Return who is there."""
        return self.entries

    def leave(self, entry: Entry) -> None:
        """Do nothing."""


PS, WORKER = evolve(HERE, task="ps:0", process=7), evolve(THERE, task="worker:0", process=8)


@pytest.mark.parametrize(
    ("there", "wanted", "says", "error", "notes"),
    [
        ((), [WORKER], "nothing answers there yet", "cannot meet in `there`: nothing listens there", 0),
        ((PS, WORKER), [WORKER], "worker:0 is process 8 on there", "no task is left", 2),
        ((PS, WORKER), [PS, WORKER], "a task that is free: all have been taken", "no task is left", 3),
    ],
)
def test_who_gets_no_task_hears_why(
    monkeypatch: pytest.MonkeyPatch,
    there: tuple[Entry, ...],
    wanted: list[Entry],
    says: str,
    error: str,
    notes: int,
) -> None:
    """While it waits and in the end: nobody is there, or others are the tasks that it could be."""
    monkeypatch.setattr(meeting, "SAY_AFTER", 0.0)
    monkeypatch.setattr(meeting, "POLL", 0.01)
    spec = spec_of(SPEC.format(ps="tasks = 1", worker="tasks = 1"))
    spec = evolve(spec, train=evolve(spec.train, task_timeout=0.05))
    said: list[str] = []
    with pytest.raises(RunError, match=error) as caught:
        meet(
            spec,
            Taken(*there),
            "abc",
            wanted=[Task.parse(each.task) for each in wanted],
            host=None,
            say=said.append,
        )
    assert said[0].endswith(f": {says}")
    assert len(caught.value.diagnostic.notes) == notes


def test_who_waits_for_long_is_still_there(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    """A process that comes much later than the first meets it, and does not count it as gone."""
    monkeypatch.setattr(meeting, "RENEW_EVERY", 0.02)
    monkeypatch.setattr(meeting, "GONE_AFTER", 0.4)
    monkeypatch.setattr(meeting.atexit, "register", lambda *_: None)
    reserved: list[socket.socket] = []
    monkeypatch.setattr(
        meeting, "bound_socket", lambda host, port: reserved.append(reserve(host, port)) or reserved[-1]
    )
    spec = spec_of(SPEC.format(ps="tasks = 1", worker="tasks = 1"))
    spec = evolve(spec, train=evolve(spec.train, task_timeout=60.0))

    def come(task: Task) -> Membership:
        membership, _ = meet(spec, place(), "abc", wanted=[task], host=None, say=lambda _: None)
        return membership

    first, second = Task("ps", 0), Task("worker", 0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(come, first)
        time.sleep(1.0)
        found = come(second)
        assert (waiting.result().task, found.task) == (first, second)
        assert waiting.result().cluster == found.cluster
        assert all(each.met for each in place().present().values())
    for each in reserved:  # by which nothing is renewed any more
        each.close()


@pytest.mark.parametrize("lost", TASKS)
def test_who_comes_after_the_one_that_kept_the_list_takes_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lost: str
) -> None:
    """It keeps a new list, and has taken the first task, until those that still train say who is who."""
    monkeypatch.setattr(meeting, "POLL", 0.01)
    monkeypatch.setattr(meeting.atexit, "register", lambda *_: None)
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    ports = dict(zip(TASKS, free_ports(3), strict=True))
    met = {each: evolve(THERE, task=each, port=ports[each]) for each in TASKS}
    met[lost] = evolve(HERE, task=lost, port=ports[lost], process=killed.pid)
    address, secret = f"127.0.0.1:{free_ports(1)[0]}", secret_of_folder(tmp_path)
    spec = spec_of(SPEC.format(ps="tasks = 1", worker="tasks = 2"))
    spec = evolve(spec, train=evolve(spec.train, task_timeout=60.0))
    wanted = [Task.parse(each) for each in TASKS]
    with ThreadPoolExecutor(1) as pool:
        new = Address(address, secret)
        coming = pool.submit(meet, spec, new, "abc", wanted=wanted, host=None, say=lambda _: None)
        while not new.present():
            time.sleep(0.01)
        for task in {*TASKS} - {lost}:
            left = Address(address, secret)
            left.met = met
            assert left.enter(met[task], [task]) == met[task]
        membership, _ = coming.result()
    assert membership.task == Task.parse(lost)
    assert membership.cluster.address(membership.own).endswith(f":{ports[lost]}")
    new.leave(met[lost])  # which it is not
    assert sorted(new.present()) == TASKS


def test_who_gives_up_leaves(tmp_path: Path) -> None:
    """Nothing of it is left where the tasks meet."""
    spec = spec_of(SPEC.format(ps="tasks = 1", worker="tasks = 1"))
    spec = evolve(spec, train=evolve(spec.train, task_timeout=0.0))
    path = tmp_path / "meeting"
    with pytest.raises(RunError, match="TFD763"):
        meet(spec, Folder(path), "abc", wanted=[Task("ps", 0)], host=None, say=lambda _: None)
    assert not path.exists()
