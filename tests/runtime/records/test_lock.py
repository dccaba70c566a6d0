"""One run at a time in a run directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsl.diagnostics import RunError
from tests.support import refusal
from tfdeploy.runtime.records.lock import LONGEST, guard_directory, is_open_as, locked

HOLD = """
import sys
from pathlib import Path
from tfdeploy.runtime.records.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    """The message names the process that has the directory, unless its number is not there on a full disk."""
    for who in (f"process {os.getpid()}", "another process"):
        with locked(tmp_path):
            if who == "another process":
                (tmp_path / ".lock").write_text("")
            found = refusal(locked(tmp_path).__enter__)
        assert found.code == "TFD731"
        assert found.message == f"the run directory `{tmp_path}` is in use by {who}"


def test_the_lock_is_free_afterwards(tmp_path: Path) -> None:
    """A directory can be used again by the same process, and its lock names nobody, however a run ended."""
    for _ in range(2):
        with locked(tmp_path):
            assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"
        assert (tmp_path / ".lock").read_bytes() == b""
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    assert (tmp_path / ".lock").read_bytes() == b""


def test_nothing_but_a_lock_is_emptied(tmp_path: Path) -> None:
    """Neither what a link leads to nor a file of something else, under a second name too, loses its text."""
    notes = tmp_path / "notes.txt"
    notes.write_text("important")
    lock = tmp_path / ".lock"
    reasons = []
    for make in (lock.symlink_to, lock.hardlink_to):
        make(notes)
        reasons.append(refusal(locked(tmp_path).__enter__).message.rpartition(": ")[2])
        lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(RunError, match="is no lock of a run"), locked(tmp_path):
        pass
    assert reasons == ["is a symbolic link", "is no lock of a run"]
    assert notes.read_text() == "important"


@pytest.mark.parametrize(
    ("content", "is_lock"),
    [
        (b"", True),
        (b"\n", True),
        (b"123\n", True),
        (b"1" * (LONGEST - 1), True),
        (b"1" * LONGEST, False),
        (b"1" * 100, False),
        (b"12 34", False),
        (b"\xff", False),
    ],
)
def test_a_lock_is_empty_or_names_a_process(tmp_path: Path, content: bytes, *, is_lock: bool) -> None:
    """By a number that is not too long for one; a file with anything else is refused, and stays as it is."""
    lock = tmp_path / ".lock"
    lock.write_bytes(content)
    if is_lock:
        with locked(tmp_path):
            assert lock.read_text() == f"{os.getpid()}\n"
        return
    with pytest.raises(RunError, match="is no lock of a run"), locked(tmp_path):
        pass
    assert lock.read_bytes() == content


def test_a_file_is_known_by_what_is_open(tmp_path: Path) -> None:
    """Another file of the same name and content is not the one that is open, and a missing one is none."""
    path = tmp_path / "history.jsonl"
    path.touch()
    with guard_directory(tmp_path) as guard, path.open() as file:
        guard.require_file(path, file.fileno())
        assert is_open_as(path, file.fileno())
        path.rename(tmp_path / "away")
        path.touch()
        assert not is_open_as(path, file.fileno())
        with pytest.raises(RunError, match="was removed or replaced during the run"):
            guard.require_file(path, file.fileno())
        path.unlink()
        assert not is_open_as(path, file.fileno())


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    """The lock goes with the process, so a run that was killed is not in the way of the next."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunError, match=f"process {holder.pid}"), locked(tmp_path):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with locked(tmp_path):
        pass


def test_a_lock_that_cannot_be_had_makes_the_directory_unusable(tmp_path: Path) -> None:
    """What stands in the way of the lock's file is said of the directory."""
    (tmp_path / ".lock").mkdir()
    found = refusal(locked(tmp_path).__enter__)
    assert found.code == "TFD732"
    assert found.message == f"`{tmp_path}` cannot be used as run directory: `.lock`: is a directory"
