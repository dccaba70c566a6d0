"""What a tracker gets of a run: everything once, however slow it is, and the run does not wait for it."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dsl.files.typed_json import read_record
from tests import forked
from tests.cli.test_fuzz import SPEC
from tests.patience import wait_until
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.track import deliver
from tfdeploy.runtime.track.deliver import Delivery, batches
from tfdeploy.runtime.track.tracking import Tracked, undelivered

PATIENCE = 240.0
HOOK = '''
"""A tracker that writes down what it gets."""
import os
from pathlib import Path

class Kept:
    def __init__(self, file, failures=0, gate=None):
        self.file, self.failures, self.gate = Path(file), failures, gate

    def _take(self, words):
        with self.file.open("a") as file:
            file.write(words + "\\n")

    def begin(self, run, known):
        self._take(f"begin {known} {os.getpid()} {len(run.settings) > 3}")
        if self.gate is not None:
            Path(self.gate).read_bytes()  # of a pipe: for ever, until somebody writes into it
        return known or "first"

    def log(self, records):
        self.failures -= 1
        if self.failures >= 0:
            raise OSError("not now")
        self._take("log " + " ".join(f"{each.split}:{each.step}" for each in records))

    def end(self, run):
        self._take(f"end {run.files.result.exists()}")
'''


def written(folder: Path, *, lines: int, **changes: Any) -> Delivery:
    """Write a run directory with a history and what its tracker has got; return its delivery."""
    (folder / "kept_tracker.py").write_text(HOOK)
    directory = RunDirectory(folder / "run")
    directory.path.mkdir(exist_ok=True)
    records = (HistoryRecord(at, "train", 0.5, 0.5) for at in range(1, lines + 1))
    directory.history.write_text("".join(f"{each.to_json()}\n" for each in records) + '{"step": 9')
    arguments = {"function": "kept_tracker:Kept", "file": str(folder / "got"), "wait": 1.0}
    record = Tracked("python", arguments | changes.pop("arguments", {}), str(folder), "m", **changes)
    directory.track.write_text(record.to_json())
    return Delivery.of(directory.path)


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the module of a hook be imported anew, and leave the path as it was."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "kept_tracker", raising=False)


def test_whole_lines_some_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is being written is left for later, and what is no record is passed over."""
    monkeypatch.setattr(deliver, "AT_ONCE", 2)
    history = written(tmp_path, lines=5).directory.history
    found = [(count, [each.step for each in records]) for count, records in batches(history, 1)]
    assert found == [(3, [2, 3]), (5, [4, 5])]
    assert list(batches(history, 5)) == []
    with history.open("a") as file:
        file.write("\n")
    assert [(count, records) for count, records in batches(history, 5)] == [(6, [])]
    assert list(batches(tmp_path / "none", 0)) == []


def test_a_failure_loses_nothing(tmp_path: Path) -> None:
    """What has been taken is not sent again, and the reason is kept until an attempt succeeds."""
    delivery = written(tmp_path, lines=3, arguments={"failures": 1}, run="known")
    assert not delivery.attempt(ended=True)
    assert (delivery.record.fault, delivery.record.complete) == ("OSError: not now", False)
    missing = undelivered(delivery.directory)
    assert missing.message == "`python` has got 0 of 3 lines of the history, and no files"
    assert missing.notes == ("OSError: not now", "the run directory has everything")
    assert delivery.attempt(ended=False)
    assert delivery.attempt(ended=True)
    record = read_record(delivery.directory.track, Tracked)
    assert (record.run, record.lines, record.complete, record.fault) == ("known", 3, True, None)
    got = (tmp_path / "got").read_text().splitlines()
    assert got == [f"begin known {os.getpid()} False", "log train:1 train:2 train:3", "end False"]
    assert undelivered(delivery.directory) is None


def test_a_tracker_that_cannot_be_made(tmp_path: Path) -> None:
    """It is kept why."""
    delivery = written(tmp_path, lines=1, arguments={"function": "no_such_module:Kept"})
    assert not delivery.attempt(ended=False)
    assert delivery.record.fault == "ModuleNotFoundError: No module named 'no_such_module'"


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """Run a command in a folder with the spec and the hook."""
    (folder / "spec.tfdeploy").write_text(SPEC)
    (folder / "kept_tracker.py").write_text(HOOK)
    done = forked.run([sys.executable, "-m", "tfdeploy", *words], cwd=folder, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def track(folder: Path, more: str) -> tuple[str, str]:
    """Return the option that names the hook."""
    return "--set", f'train.track=python("kept_tracker:Kept", file = "{folder / "got"}", {more})'


@pytest.mark.slow
def test_a_run_and_its_tracker(tmp_path: Path) -> None:
    """One that hangs costs a run its `wait` and no more; what it missed is sent later, or by the next run."""
    train, gate = ("compile-and-run", "spec.tfdeploy", "--allow-python"), tmp_path / "gate"
    os.mkfifo(gate)
    given = f'gate = "{gate}"'
    code, _, err = run(tmp_path, *train, *track(tmp_path, f"{given}, wait = 1s"))
    assert code == 0
    assert "warning[TFD782]: `python` has got 0 of 3 lines of the history, and no files" in err
    assert "it was too slow" in err
    directory = RunDirectory(tmp_path / "runs" / "spec")
    got = (tmp_path / "got").read_text().split()
    assert got[:2] == ["begin", "None"]
    assert got[3] == "True"
    wait_until(lambda: not Path(f"/proc/{got[2]}").exists())
    record = read_record(directory.track, Tracked)
    assert (record.run, record.lines, record.complete) == (None, 0, False)
    assert [line.step for line in map(HistoryRecord.read, directory.history.read_bytes().splitlines())] == [
        1,
        2,
        3,
    ]
    assert directory.result.exists()
    gate.unlink()
    gate.touch()  # the tracker answers again
    code, _, err = run(tmp_path, "runs", "--deliver")
    assert (code, "--allow-python" in err) == (1, True)
    code, out, err = run(tmp_path, "runs", "--deliver", "--allow-python")
    assert (code, out, err) == (0, "runs/spec: python has got everything\n", "")
    got = (tmp_path / "got").read_text().splitlines()[1:]
    assert [each for each in got if each[0] != "b"] == ["log train:1 train:2 train:3", "end True"]
    code, _, err = run(
        tmp_path, *train, "--set", "train.steps=5", *track(tmp_path, f"{given}, wait = {PATIENCE:.0f}s")
    )
    assert (code, err) == (0, "")
    seen = (tmp_path / "got").read_text().splitlines()
    assert any(each.startswith("begin first") for each in seen)
    assert " ".join(seen[-3:]).endswith("train:5 end True")


def test_without_the_extra(tmp_path: Path) -> None:
    """It is said before anything runs what installs it."""
    code, out, err = run(tmp_path, "compile-and-run", "spec.tfdeploy", "--set", "train.track=mlflow()")
    assert (code, out) == (2, "")
    assert err.startswith("error[TFD778]: `track = mlflow()` needs the package `mlflow`")
    assert "pip install 'tfdeploy[mlflow]'" in err
    assert not (tmp_path / "runs").exists()
