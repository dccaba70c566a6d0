"""Sweeps as processes: every combination, failures, kills, and what is left of them."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from attrs import evolve

import grammar
from tests import forked
from tests.cli.test_fuzz import SPEC
from tests.patience import wait_until
from tests.support import refusal
from tfdeploy.runtime.records.lock import MARKER
from tfdeploy.runtime.records.result import Result, Seconds, SplitResult
from tfdeploy.sweeping import report
from tfdeploy.sweeping.sweep import FILE, Sweep, SweepRecord, goal_of

PATIENCE = 240.0
RECORD = SweepRecord("spec.tfdeploy", "digest", "accuracy", "highest")


def start(folder: Path, *words: str, name: str = "spec.tfdeploy") -> subprocess.Popen[str]:
    """Start `tfdeploy sweep` in a folder."""
    (folder / name).write_text(SPEC)
    return forked.Popen(
        [sys.executable, "-m", "tfdeploy", "sweep", *words, "--", name],
        cwd=folder, text=True, stdout=forked.subprocess.PIPE, stderr=forked.subprocess.PIPE,
        env={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip


def sweep(folder: Path, *words: str, **options: str) -> tuple[int, str, str]:
    """Run `tfdeploy sweep` in a folder; return its code, its output and its errors."""
    with start(folder, *words, **options) as process:
        out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def told(out: str) -> list[str]:
    """Return which runs have been told of as they ended."""
    return [line.split("  ")[0] for line in out.splitlines() if re.match(r"run \d", line)]


def test_a_grid_with_a_failure(tmp_path: Path) -> None:
    """Others go on, the table has all, and the same command tries what failed again, and nothing else."""
    words = ("--grid", "update.optimizer.learning_rate=1e38,0.1", "--at-once", "2", "--set", "train.steps=9")
    code, out, err = sweep(tmp_path, *words)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert sorted(told(out)) == ["run 1/2", "run 2/2"]
    table = [each.split() for each in lines[lines.index("") + 1 :]]
    assert table[0] == ["run", "learning_rate", "loss", "examples/s"]
    assert [table[1][:2], table[2][:3]] == [["002", "0.1"], ["001", "1e38", "failed"]]
    assert any(line.startswith("001 failed: error[TFD730]") for line in lines)
    folder = tmp_path / "runs" / "spec-sweep"
    before = (folder / "002" / "result.json").stat().st_mtime_ns
    ET.parse(folder / "sweep.svg")  # noqa: S314 it is our own
    code, out, _ = sweep(tmp_path, *words)
    assert (code, told(out)) == (1, ["run 1/2"])
    assert (folder / "002" / "result.json").stat().st_mtime_ns == before


def test_names_like_an_option_and_like_a_string(tmp_path: Path) -> None:
    """Processes of trials take the name of a spec for a file, and that of a folder as it is."""
    code, _, err = sweep(tmp_path, "--grid", "train.steps=1", "--out", '"q"', name="-s.tfdeploy")
    assert (code, err) == (0, "")
    assert (tmp_path / '"q"' / "001" / "result.json").is_file()


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_that_is_ended_goes_on_where_it_was(number: signal.Signals, tmp_path: Path) -> None:
    """No process is left; the trial that was on its way goes on from its checkpoint; the first one stays."""
    words = ("--set", "train.checkpoint_every=20", "--grid", "train.steps=3,3000", "--json")
    folder = tmp_path / "runs" / "spec-sweep"
    with start(tmp_path, *words) as process:
        wait_until((folder / "002" / "checkpoints" / "model.ckpt-20.json").exists)
        first = (folder / "001" / "result.json").stat().st_mtime_ns
        holder = int((folder / "002" / ".lock").read_text())
        os.kill(process.pid, number)
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == (-9 if number == signal.SIGKILL else 130)
    if number == signal.SIGINT:  # the trial has written a checkpoint, and is not said to be cut off
        states = {each["run"][-3:]: each["state"] for each in json.loads(out.splitlines()[-1])["trials"]}
        assert states["002"] in {"interrupted", "terminated"}
    wait_until(lambda: not forked.words_of(holder))
    code, out, err = sweep(tmp_path, *words)
    assert (code, err) == (0, "")
    found = json.loads(out.splitlines()[-1])
    assert [each["state"] for each in found["trials"]] == ["finished", "finished"]
    assert (folder / "001" / "result.json").stat().st_mtime_ns == first
    result = Result.read((folder / "002" / "result.json").read_bytes())
    assert result.resumed_from is not None


def test_a_sweep_refuses_a_directory_for_its_trials(tmp_path: Path) -> None:
    """It would not be that of any trial."""
    for words in (
        ("--grid", "train.directory=a,b"),
        ("--grid", "train.steps=1,2", "--set", "train.directory=a"),
    ):
        code, _, err = sweep(tmp_path, *words)
        assert code == 2
        assert "name the folder of all with --out" in err


def test_what_a_sweep_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has run then, and nothing of others is touched."""
    monkeypatch.chdir(tmp_path)
    Path("spec.tfdeploy").write_text(SPEC)
    Path("full").mkdir()
    Path("full/notes.txt").write_text("mine")
    Path("done").mkdir()
    Path("done", FILE).write_text(RECORD.to_json())
    Path("broken").mkdir()
    Path("broken", FILE).write_text("{")
    grid = ("--grid", "train.steps=1,2")
    for words, code in (
        ((*grid, "--out", "full"), "TFD751"),
        ((*grid, "--out", "done"), "TFD776"),
        ((*grid, "--out", "broken"), "TFD776"),
        (("--grid", "train.stepps=1,2"), "TFD212"),
        (("--grid", "train.steps=1,zero"), "TFD"),
        ((*grid, "--at-once", "4096"), "TFD777"),
        ((*grid, "--score", "acc"), "TFD745"),
        ((*grid, "--seed", str(2**32)), "is not in the range"),
        ((), "give --grid"),
        (("--range", "train.steps=1..2"), "--trials"),
        (("--grid", "train.steps=" + ",".join(map(str, range(1, 10_002)))), "at most 10,000"),
    ):
        found = forked.run([sys.executable, "-m", "tfdeploy", "sweep", "spec.tfdeploy", *words], text=True)
        assert found.returncode in {1, 2}, words
        assert code in found.stderr, (words, found.stderr)
        assert "TFD901" not in found.stderr
    assert [each.name for each in Path("full").iterdir()] == ["notes.txt"]
    assert Path("done", FILE).read_text() == RECORD.to_json()


# --- what it has come to, without processes ----------------------------------------------------------------


def made(folder: Path, values: dict[str, float | None]) -> Sweep:
    """Return a sweep whose trials have come to an accuracy, have failed (NaN), or not begun (None)."""
    sweep = Sweep.open(folder, RECORD)
    for at, (rate, value) in enumerate(values.items()):
        trial = sweep.trial({"update.optimizer.learning_rate": rate, "clones.count": str(at % 2 + 1)})
        if value is not None and value == value:  # noqa: PLR0124 NaN
            run = sweep.directory(trial)
            run.mkdir()
            (run / MARKER).write_text("")
            test = SplitResult(1 - value, {"accuracy": value}, 10)
            result = Result(
                status="finished", steps=3, loss=None, metrics={}, examples_per_second=1000.0, test=test,
                seconds=Seconds(1.0, 1.0, 1.0), directory=str(run),
            )  # fmt: skip
            (run / "result.json").write_text(result.to_json())
        elif value is not None:
            sweep.note(trial, "error[TFD730]: the loss is nan")
    sweep.save()
    return sweep


def test_the_table_at_eighty_columns(tmp_path: Path) -> None:
    """The best is first, and what has no score last; scores that do not fit are left out."""
    found = made(tmp_path / "s", {"0.1": 0.5, "0.2": float("nan"), "0.3": None, "0.4": 0.75, "0.5": None})
    (killed,) = (each for each in found.record.trials if each.number == 5)
    found.directory(killed).mkdir()
    (found.directory(killed) / MARKER).write_text("")
    assert report.lines(found, 80) == [
        "run  learning_rate  count   accuracy    loss  examples/s",
        "004            0.4      2     0.7500  0.2500     1,000/s",
        "001            0.1      1     0.5000  0.5000     1,000/s",
        "002            0.2      2     failed       .           .",
        "003            0.3      1  not begun       .           .",
        "005            0.5      1    cut off       .           .",
    ]
    assert max(map(len, report.lines(found, 40))) <= 40
    assert [each["settings"]["clones.count"] for each in json.loads(report.to_text(found))["trials"]] == [
        "2", "1", "2", "1", "1",
    ]  # fmt: skip
    assert [each["state"] for each in json.loads(report.to_text(found))["trials"]] == [
        "finished", "finished", "failed", "not begun", "cut off",
    ]  # fmt: skip


def test_the_picture(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    """A panel for each setting, and a dot for each score, the best above the others."""
    found = made(tmp_path / "s", {"0.1": 0.5, "0.2": float("nan"), "0.001": 0.75})
    drawn = report.picture(found)
    assert drawn is not None
    golden("sweep/picture.svg", drawn)
    assert report.picture(made(tmp_path / "t", {"0.1": None})) is None


def test_many_numbers_stand_at_their_sizes() -> None:
    """By logarithms if they span decades; words stand side by side."""
    places, named = report._axis(["1", "10", "100", "1000", "10000", "100000", "1000000"])
    assert places == pytest.approx([at / 6 for at in range(7)])
    assert named == {"1": 0.0, "1000000": 1.0}
    assert report._axis(["b", "a", "b"]) == ([0.75, 0.25, 0.75], {"a": 0.25, "b": 0.75})


def test_values_may_be_added(tmp_path: Path) -> None:
    """Trials keep their numbers, and what has been written is read again."""
    made(tmp_path / "s", {"0.1": 0.5})
    again = Sweep.open(tmp_path / "s", evolve(RECORD, score="loss", goal="lowest"))
    first, second = (
        again.trial({"update.optimizer.learning_rate": "0.1", "clones.count": "1"}),
        again.trial({"a": "b"}),
    )
    assert (first.number, second.number, again.value(first)) == (1, 2, 0.5)
    found = refusal(Sweep.open, tmp_path / "s", evolve(RECORD, sha256="other"))
    assert found.code == "TFD776"


@pytest.mark.parametrize(
    ("best", "score", "found"),
    [
        ("", None, ("loss", "lowest")),
        ("", "accuracy", ("accuracy", "highest")),
        ("", "off", ("off", "lowest")),
        (', evaluate_every = 1, best = lowest("loss")', None, ("loss", "lowest")),
    ],
)
def test_the_score_that_counts(best: str, score: str | None, found: tuple[str, str], tmp_path: Path) -> None:
    """That of `best`, unless another one is given; a loss is best if it is low."""
    split = "synthetic(8, x = feature(float32, [4]), label = feature(int32, [], classes = 2))"
    text = SPEC.replace("data {", f"data {{\n  test = {split}\n ").replace("steps = 3", f"steps = 3{best}")
    path = tmp_path / "spec.tfdeploy"
    metrics = "off = [label, y] -> MeanAbsoluteError(), accuracy = [label, y] -> Accuracy()"
    path.write_text(text.replace("= true)\n}", f"= true)\n  metrics {{ {metrics} }}\n}}"))
    assert goal_of(grammar.load(path), score) == found
