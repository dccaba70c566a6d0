"""Curves of runs, in text and as a picture."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from dsl.diagnostics import RunError
from tfdeploy.cli.group import load
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.show.curves import Curve, read_curves
from tfdeploy.runtime.show.curves_text import draw


def write_run(folder: Path, losses: list[float]) -> Path:
    """Write the history of a run with a logged step every 10, and return its directory."""
    folder.mkdir()
    lines = [
        HistoryRecord(step=10 * at, split="train", loss=loss, data_loss=loss, metrics={"accuracy": 1 - loss})
        for at, loss in enumerate(losses, start=1)
    ]
    lines.append(HistoryRecord(step=10 * len(losses), split="test", loss=0.5, data_loss=0.5))
    (folder / "history.jsonl").write_text("".join(f"{line.to_json()}\n" for line in lines) + '{"cut')
    return folder


def test_a_curve_for_each_split(tmp_path: Path) -> None:
    """Points that are not finite and lines that are cut are left out."""
    run = write_run(tmp_path / "run", [0.9, math.nan, 0.3, 1.7e308, -1.7e308])
    assert read_curves([run], "loss") == [
        Curve("train", ((10, 0.9), (30, 0.3))),
        Curve("test", ((50, 0.5),)),
    ]
    assert [curve.label for curve in read_curves([run, run], "accuracy")] == [f"{run} train"] * 2


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    """A run without a history and a score that no run has are errors."""
    run = write_run(tmp_path / "run", [0.9])
    with pytest.raises(RunError) as caught:
        read_curves([tmp_path], "loss")
    assert caught.value.diagnostic.message == (
        f"the history `{tmp_path / 'history.jsonl'}` cannot be read: no such file or directory"
    )
    with pytest.raises(RunError) as caught:
        read_curves([run], "precision")
    assert caught.value.diagnostic.notes == (
        "there are `accuracy`, `data_loss`, `examples_per_second`, `learning_rate` and `loss`",
    )


def test_text() -> None:
    """A falling line goes from the upper left to the lower right, and the last value stands in the legend."""
    text = draw([Curve("train", ((0, 1.0), (10, 0.0)))], "loss", width=21, height=3, color=False)
    assert text.splitlines() == [
        "loss",
        "        1 |⠉⠒⠤⡀",
        "      0.5 |   ⠈⠑⠢⢄",
        "        0 |       ⠉⠒⢄",
        "           0       10",
        "           ⠶ train: 0 at step 10",
    ]


def test_one_point_can_be_drawn() -> None:
    """A run with a single logged step has a picture too."""
    assert "5 at step 7" in draw([Curve("train", ((7, 5.0),))], "loss", width=40, height=4, color=True)


def test_the_command(tmp_path: Path) -> None:
    """Several runs are overlaid, in the terminal and in a picture that is well-formed XML."""
    runs = [str(write_run(tmp_path / name, [0.9, 0.5])) for name in ("a&b", "c")]
    done = CliRunner().invoke(load("plot"), runs, standalone_mode=False)
    assert done.return_value == 0
    assert done.stdout.count("at step 20") == 4
    out = tmp_path / "curves.svg"
    done = CliRunner().invoke(load("plot"), [*runs, "--out", str(out)], standalone_mode=False)
    assert (done.return_value, done.stdout) == (0, f"{out}\n")
    drawn = ET.fromstring(out.read_text())  # noqa: S314  written a moment ago
    lines = drawn.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 4
    assert lines[0].get("points") == "80.0,40.0 780.0,400.0"  # from corner to corner of the frame
    done = CliRunner().invoke(load("plot"), [*runs, "--out", "curves.png"])
    assert done.exit_code == 2
