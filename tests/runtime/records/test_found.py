"""Runs below a folder, and what a run adds up: how they ended, their scores, and how their specs differ."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests import forked
from tests.support import make_result
from tfdeploy.cli.group import load
from tfdeploy.runtime.records.found import differing, runs_below
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.records.lock import MARKER, locked
from tfdeploy.runtime.records.result import Clock, Scores, Seconds, SplitResult
from tfdeploy.runtime.show.runs import compare_lines, list_lines, short_names

SPEC = """tfdeploy = 1

update {{
  optimizer = SGD(learning_rate = {rate})
}}

train {{
  steps = {steps}
  directory = "/somewhere/{steps}"
}}
"""


def write(
    folder: Path, *, rate: float = 0.1, steps: int = 9, end: str | None = "finished", **result: Any
) -> Path:
    """Write what a run leaves: its mark, spec and history, and its result if it has come to an end."""
    folder.mkdir(parents=True)
    (folder / MARKER).write_text("")
    (folder / "spec.tfdeploy").write_text(SPEC.format(rate=rate, steps=steps))
    lines = [
        HistoryRecord(4, "train", 0.5, 0.5, {"accuracy": 0.75}, 1500.0),
        HistoryRecord(4, "validation", 0.25, 0.25, {"accuracy": 0.8}),
    ]
    (folder / "history.jsonl").write_text("".join(f"{line.to_json()}\n" for line in lines) + '{"cut')
    if end is not None:
        found = make_result(
            status=end, steps=steps, examples_per_second=2000.0, directory=str(folder), **result
        )
        (folder / "result.json").write_text(found.to_json())
    return folder


def test_what_runs_tell(tmp_path: Path) -> None:
    """The scores are those of the result, else the last of the history; the state is told without the run."""
    best = SplitResult(0.125, {"accuracy": 0.9}, 100)
    write(tmp_path / "b" / "done", validation=best, test=SplitResult(9.0, {}, 1))
    write(tmp_path / "a", end="interrupted")
    cut = write(tmp_path / "c", end=None)
    (tmp_path / "other").mkdir()
    found = list(runs_below([tmp_path]))
    assert [Path(each.directory).name for each in found] == ["a", "done", "c"]
    assert [each.state for each in found] == ["interrupted", "finished", "cut off"]
    assert [each.step for each in found] == [9, 9, 4]
    assert [each.split for each in found] == ["validation"] * 3
    assert found[1].scores == {"loss": 0.125, "accuracy": 0.9}
    assert found[2].scores == {"loss": 0.25, "accuracy": 0.8}
    assert [each.examples_per_second for each in found] == [2000.0, 2000.0, 1500.0]
    with locked(cut):
        assert [each.state for each in runs_below([cut])] == ["running"]
    assert [each.state for each in runs_below([cut])] == ["cut off"]


def test_differences_leave_out_what_is_the_run_s_own(tmp_path: Path) -> None:
    """The directory is no difference, and a run whose spec was not written has none."""
    write(tmp_path / "a", rate=0.1, steps=9)
    write(tmp_path / "b", rate=0.2, steps=9)
    (write(tmp_path / "c") / "spec.tfdeploy").unlink()
    runs = list(runs_below([tmp_path]))
    assert differing(runs) == {"update.optimizer.learning_rate": ["0.1", "0.2", None]}
    assert differing(runs[:1]) == {}


def test_lines_of_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each run; settings that do not fit the width are named below."""
    monkeypatch.chdir(tmp_path)
    write(Path("a"), rate=0.1, steps=9)
    write(Path("b"), rate=0.2, steps=1000, end=None)
    runs = list(runs_below([Path("a"), Path("b")]))
    assert list_lines(runs, 90) == [
        "run  state     step       split    loss  accuracy  examples/s  learning_rate  steps",
        "a    finished     9  validation  0.2500    0.8000     2,000/s            0.1      9",
        "b    cut off      4  validation  0.2500    0.8000     1,500/s            0.2   1000",
    ]
    assert max(map(len, list_lines(runs, 80))) <= 80
    assert list_lines(runs, 80)[-1] == "also different, and shown by --compare: train.steps"


def test_lines_of_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of two runs have their difference; a setting that is too wide has lines of its own."""
    monkeypatch.chdir(tmp_path)
    write(Path("a"), rate=0.1, validation=SplitResult(0.5, {}, 1))
    write(Path("b"), rate=0.2, validation=SplitResult(0.25, {}, 1), end="terminated")
    text = Path("b/spec.tfdeploy").read_text()
    long = "; ".join(f"variables -> cpu[{at}]" for at in range(8)).replace("; ", "\n  ")
    Path("b/spec.tfdeploy").write_text(f"{text}\nplace {{\n  {long}\n}}\n")
    lines = compare_lines(list(runs_below([Path()])), 80)
    assert [each.split() for each in lines[:6]] == [
        ["a", "b"],
        ["state", "finished", "terminated"],
        ["step", "9", "9"],
        ["split", "validation", "validation"],
        ["loss", "0.5000", "0.2500", "-0.2500"],
        ["examples/s", "2,000/s", "2,000/s", "x", "1.00"],
    ]
    assert lines[7] == "settings that differ"
    assert ["update.optimizer.learning_rate", "0.1", "0.2"] in [each.split() for each in lines]
    at = lines.index("place")
    assert lines[at + 1].split() == ["a", "."]
    assert lines[at + 2].startswith("  b  variables -> cpu[0]; variables")
    assert max(map(len, lines)) <= 80


def test_runs_that_set_the_same(tmp_path: Path) -> None:
    """It is said, so that nobody looks for a difference."""
    write(tmp_path / "a")
    write(tmp_path / "b")
    assert compare_lines(list(runs_below([tmp_path])), 80)[-1] == "their specs set the same"


def test_the_shortest_names_that_tell_paths_apart() -> None:
    """The last part of a path, unless another path ends like that."""
    assert short_names(["update.optimizer.rate", "model.a.rate", "train.steps"]) == {
        "update.optimizer.rate": "optimizer.rate", "model.a.rate": "a.rate", "train.steps": "steps",
    }  # fmt: skip


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are sorted by a score, those without it last; unknown scores and empty folders are errors."""
    monkeypatch.chdir(tmp_path)
    write(Path("runs/a"), validation=SplitResult(0.5, {"f1": 0.5}, 1))
    write(Path("runs/b"), validation=SplitResult(0.25, {"f1": 0.25}, 1))
    write(Path("runs/c"))
    command = load("runs")
    done = CliRunner().invoke(command, ["--sort", "f1", "--json"])
    assert [each["directory"] for each in json.loads(done.stdout)] == ["runs/b", "runs/a", "runs/c"]
    again = CliRunner().invoke(command, ["runs/b", "runs", "--json"])
    assert [each["directory"] for each in json.loads(again.stdout)] == ["runs/b", "runs/a", "runs/c"]
    for words, code in (
        (["elsewhere"], "TFD775"),
        (["runs", "elsewhere"], "TFD775"),
        (["--sort", "recall"], "TFD745"),
    ):
        done = forked.run([forked.sys.executable, "-m", "tfdeploy", "runs", *words], cwd=tmp_path, text=True)
        assert (done.returncode, code in done.stderr) == (2, True)


def test_a_clock_adds_up_steps() -> None:
    """Examples, seconds and waiting are sums over the steps; a step of which it is not known adds none."""
    clock = Clock(compile=1.0, first_step=2.0, evaluate=3.0, checkpoint=4.0)
    assert (clock.waiting, clock.examples_per_second) == (None, None)
    clock.took(10, 0.5)
    assert (clock.waiting, clock.examples_per_second) == (None, 20.0)
    clock.took(10, 0.5, 0.25)
    clock.took(40, 1.0, 0.75)
    clock.took(20, 2.0)
    assert (clock.waiting, clock.examples_per_second) == (0.25, 20.0)
    assert clock.seconds() == Seconds(1.0, 2.0, 4.0, 3.0, 4.0, 1.0)


@pytest.mark.parametrize(
    ("waited", "share", "seconds"), [(0.75, 1.0, 0.5), (None, None, None), (0.0, 0.0, 0.0)]
)
def test_nobody_waits_longer_than_training_takes(
    waited: float | None, share: float | None, seconds: float | None
) -> None:
    """Two clocks differ a little; the share is at most the whole, and unknown if nothing was measured."""
    clock = Clock()
    clock.took(1, 0.5, waited)
    assert (clock.waiting, clock.seconds().data_waiting) == (share, seconds)


def test_the_file_has_numbers_with_few_digits() -> None:
    """Seconds have three decimal places and speeds one; scores are as they are."""
    result = make_result(
        loss=0.123456789,
        test=SplitResult.of(Scores(0.5, 0.25, {"a": 0.123456789}, 7, 1.0)),
        examples_per_second=12.3456,
        seconds=Seconds(1.23456, 2.34567, 3.45678, 4.56789, 5.6789, 6.78912),
    )
    found = json.loads(result.to_json())
    assert found["loss"] == 0.123456789
    assert found["test"] == {"loss": 0.5, "metrics": {"a": 0.123456789}, "examples": 7}
    assert found["examples_per_second"] == 12.3
    assert list(found["seconds"].values()) == [1.235, 2.346, 3.457, 4.568, 5.679, 6.789]
    assert "\n" not in result.to_json()
    assert result.to_json(indent=1).startswith('{\n "status"')
