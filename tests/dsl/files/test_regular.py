"""Nobody waits for a file that is none: pipes, devices and sockets are refused by every reader."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dsl import ir
from dsl.files.regular import open_regular, read_text

PIPE = "it is a pipe, and only regular files are read"


def test_regular_files_are_read(tmp_path: Path) -> None:
    """A file, and one that a symbolic link leads to, with its newlines as they are."""
    (tmp_path / "file").write_bytes(b"a\r\nb")
    (tmp_path / "link").symlink_to("file")
    assert read_text(tmp_path / "file") == read_text(tmp_path / "link") == "a\r\nb"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A pipe that nobody writes to, a socket, a device and a folder each are named for what they are."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        found = {}
        for path in (tmp_path / "pipe", tmp_path / "socket", Path("/dev/zero"), tmp_path):
            with pytest.raises(OSError, match=r"regular|directory") as caught:
                open_regular(path)
            assert caught.value.filename == str(path)
            found[path.name] = caught.value.strerror
    assert list(found.values()) == [
        PIPE,
        PIPE.replace("pipe", "socket"),
        PIPE.replace("pipe", "device"),
        "Is a directory",
    ]


def test_a_file_that_becomes_a_pipe_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is opened is looked at, and not only what stood there a moment before."""
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    there = os.stat(tmp_path / "file")  # noqa: PTH116 what the look before the opening shall see
    monkeypatch.setattr(os, "stat", lambda _: there)
    with pytest.raises(OSError, match=PIPE):
        open_regular(tmp_path / "pipe")


@pytest.mark.full
def test_every_reader_refuses_a_pipe(tmp_path: Path) -> None:
    """A spec, an include, a map, and a history."""
    for name in ("pipe.tfdeploy", "placement.json", "history.jsonl"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "spec.tfdeploy").write_text('tfdeploy = 1\ninclude = ["pipe.tfdeploy"]\n')
    commands = [
        ("check", "pipe.tfdeploy"),
        ("check", "spec.tfdeploy"),
        ("fmt", "pipe.tfdeploy"),
        ("plan", "placement.json"),
        ("diff", ".", "placement.json"),
        ("plot", "."),
    ]
    for command in commands:
        done = _tfdeploy(tmp_path, *command)
        assert done.returncode == 2, (command, done.stderr)
        assert PIPE in done.stderr, command
        assert "TFD901" not in done.stderr, command


@pytest.mark.slow
def test_data_is_no_pipe(tmp_path: Path) -> None:
    """The file of any source is refused before TensorFlow opens it."""
    from dsl.diagnostics import RunError
    from tfdeploy.data import StreamOptions, open_split

    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pictures" / "cats").mkdir(parents=True)
    os.mkfifo(tmp_path / "pictures" / "cats" / "tom.png")
    feature = ir.Call("feature", ("float32", (4,)))
    sources = [
        ir.Call("csv", ("pipe",), {"x": "column"}),
        ir.Call("npz", ("pipe",)),
        ir.Call("tfrecord", ("pipe",), {"x": feature}),
        ir.Call("cifar10", ("pipe",)),
        ir.Call("mnist", ("pipe", "pipe")),
        ir.Call("images", ("pictures", (8, 8))),
    ]
    for source in sources:
        with pytest.raises(RunError, match="this is a pipe, not a file"):
            open_split(ir.Split("train", source), [], StreamOptions(base=tmp_path)).check()


def _tfdeploy(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfdeploy", *arguments]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=300)
