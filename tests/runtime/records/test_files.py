"""Files of a run are replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dsl.diagnostics import RunError
from tfdeploy.runtime.records.files import remove_partial, replacing, write_atomically


def test_a_file_is_replaced(tmp_path: Path) -> None:
    """The new text takes the place of the old, and nothing is left beside it."""
    path = tmp_path / "result.json"
    write_atomically(path, "old\n")
    write_atomically(path, "new\n")
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"result.json": "new\n"}


def test_a_failure_keeps_the_old_file(tmp_path: Path) -> None:
    """What raises inside leaves the file as it was, and removes what was half written."""
    path = tmp_path / "model.keras"
    write_atomically(path, "old")

    def write() -> None:
        with replacing(path) as beside:
            beside.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        write()
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"model.keras": "old"}


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    """An error of the operating system becomes a diagnostic with the path, and with advice."""
    path = tmp_path / "result.json"
    with pytest.raises(RunError) as caught, replacing(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    found = caught.value.diagnostic
    assert (found.code, found.message) == ("TFD733", f"`{path}` cannot be written: no space left on device")
    assert found.help == "make room on the disk and run again: the run goes on from its last checkpoint"


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    """A process killed in the middle of a write leaves the old file, and a part that the next run removes."""
    path = tmp_path / "result.json"
    write_atomically(path, "old")
    code = (
        "import os, sys, signal; from pathlib import Path\n"
        "from tfdeploy.runtime.records.files import replacing\n"
        "with replacing(Path(sys.argv[1])) as beside:\n"
        "    beside.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2
    kept = (".partial-notes.txt", ".partial-0123abcd-notes.txt", ".partial-")
    for name in (*kept, ".partial-result.json"):  # the last as versions before named them
        (tmp_path / name).touch()
    for name in (".partial-0123abcd-result.json.folder", ".partial-0123abcd-notes.txt.folder"):
        (tmp_path / name / "inside").mkdir(parents=True)
    kept = (*kept, ".partial-0123abcd-notes.txt.folder")
    remove_partial(tmp_path, lambda name: name == "result.json")
    assert {each.name for each in tmp_path.iterdir()} == {"result.json", *kept}


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes first, then the name, then the folder that has the name: a power cut leaves old or new."""
    done: list[str] = []

    def fsync(descriptor: int) -> None:
        done.append(f"sync {os.readlink(f'/proc/self/fd/{descriptor}')}")  # noqa: PTH115 a number, no path

    def replace(self: Path, target: Path) -> Path:
        done.append(f"name {target}")
        os.replace(self, target)  # noqa: PTH105 the method is what is replaced
        return target

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    path = tmp_path / "result.json"
    with replacing(path) as beside:
        beside.write_text("text")
    assert done == [f"sync {beside}", f"name {path}", f"sync {tmp_path}"]
    assert path.read_text() == "text"


def test_what_is_written_meanwhile_is_nobody_elses_file(tmp_path: Path) -> None:
    """Two writers of one file have a file of their own each, so neither finds the other's half."""
    path = tmp_path / "result.json"
    with replacing(path) as first, replacing(path) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert [each.name for each in tmp_path.iterdir()] == ["result.json"]
