"""Curves of runs, in text and as a picture."""

import math
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from tests.support import refusal
from tfdeploy.cli.group import load
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.show.runs import Curve, Frame, draw, picture, read_curves


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
    found = refusal(read_curves, [tmp_path], "loss")
    assert found.message == (
        f"the history `{tmp_path / 'history.jsonl'}` cannot be read: no such file or directory"
    )
    refused = refusal(read_curves, [run], "precision")
    assert refused.notes == (
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


def test_every_curve_of_a_text_has_a_colour_and_a_line_in_the_legend() -> None:
    """A cell where curves meet has the dots of both and the colour of the last; seven colours are six."""
    flat = [Curve(f"run {at}", ((0, float(at)), (1200, float(at)))) for at in range(7)]
    lines = draw(flat, "loss", width=21, height=7, color=True).splitlines()
    assert [line[:11] for line in lines[1:8]] == [
        *(
            "        6 |",
            "          |",
            "          |",
            "        3 |",
            "          |",
            "          |",
            "        0 |",
        )
    ]
    shown = [re.findall(r"\x1b\[(3\d)m", line) for line in lines[1:8]]
    assert [set(each) for each in shown] == [{str(code)} for code in (36, 31, 34, 32, 35, 33, 36)]
    assert [len(each) for each in shown] == [10] * 7
    assert lines[8] == "           0    1,200"
    assert lines[9] == "           \x1b[36m\u2836\x1b[0m run 0: 0 at step 1,200"
    met = draw(
        [Curve("a", ((0, 0.0), (1, 1.0))), Curve("b", ((0, 1.0), (1, 0.0)))],
        "",
        width=21,
        height=3,
        color=True,
    )
    assert met.splitlines()[2].count("\x1b[33m") >= 2
    assert "\x1b[33m\u2836\x1b[0m b: 0 at step 1" in met


def test_the_least_size_of_a_text() -> None:
    """However small a terminal is, there are ten columns and three rows."""
    curve = Curve("train", ((0, 1.0), (10, 0.0)))
    small = draw([curve], "loss", width=1, height=1, color=False)
    assert small == draw([curve], "loss", width=21, height=3, color=False)


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [(1.0, 2.0, (1.0, 2.0)), (5.0, 5.0, (4.5, 5.5)), (-5.0, -5.0, (-5.5, -4.5)), (0.0, 0.0, (-1.0, 1.0))],
)
def test_a_frame_always_has_an_extent(low: float, high: float, found: tuple[float, float]) -> None:
    """Equal values are in the middle of a tenth more and less, and zeros between -1 and 1."""
    frame = Frame.around([Curve("a", ((7, high),)), Curve("b", ((7, low),))])
    assert (frame.bottom, frame.top) == pytest.approx(found)
    assert (frame.left, frame.right) == pytest.approx((6.3, 7.7))
    assert frame.across(7) == pytest.approx(0.5)


def test_a_picture_has_axes_and_a_legend() -> None:
    """Five ticks go from end to end of both axes; the legend is below, and each curve ends in a dot."""
    curves = [Curve(f"run {at}", ((0, 0.0), (4000, 1.0 + at))) for at in range(7)]
    drawn = ET.fromstring(picture(curves, "loss < 1"))  # noqa: S314  written a moment ago
    assert drawn.get("viewBox") == "0 0 800 590"
    texts = drawn.findall("{*}text")
    assert texts[0].text == "loss < 1"
    ticks = [(each.text, each.get("x"), each.get("y")) for each in texts[1:11]]
    assert ticks[::2] == [
        *(("0", "72", "404.0"), ("1.75", "72", "314.0"), ("3.5", "72", "224.0")),
        *(("5.25", "72", "134.0"), ("7", "72", "44.0")),
    ]
    assert [text for text, _, _ in ticks[1::2]] == ["0", "1,000", "2,000", "3,000", "4,000"]
    assert [x for _, x, _ in ticks[1::2]] == ["80.0", "255.0", "430.0", "605.0", "780.0"]
    assert [(each.text, each.get("y")) for each in texts[11:]] == [
        (f"run {at}: {at + 1} at step 4,000", str(450 + 20 * at)) for at in range(7)
    ]
    marks = drawn.findall("{*}rect")[1:]
    lines, dots = drawn.findall("{*}polyline"), drawn.findall("{*}circle")
    colors = [each.get("stroke") for each in lines]
    assert len(set(colors)) == 6
    assert colors[6] == colors[0]
    assert colors == [each.get("fill") for each in marks] == [each.get("fill") for each in dots]
    assert [(each.get("cx"), each.get("cy")) for each in dots[:1] + dots[6:]] == [
        ("780.0", "348.6"),
        ("780.0", "40.0"),
    ]


def test_each_worker_and_each_group_of_weights_has_a_curve(tmp_path: Path) -> None:
    """The learning rate of a group is a score of its own, and what a line does not have is left out."""
    path = tmp_path / "history.jsonl"
    lines = [
        HistoryRecord(10, "train", 0.5, 0.25, worker="worker:0", learning_rate=0.1, examples_per_second=80.0),
        HistoryRecord(12, "train", 0.4, 0.2, worker="worker:1", learning_rates={"logits/*": 0.01}),
        HistoryRecord(20, "validation", 0.3, 0.1, examples_per_second=90.0),
    ]
    path.write_text("".join(f"{line.to_json()}\n" for line in lines))

    def found(score: str) -> dict[str, tuple[tuple[int, float], ...]]:
        return {curve.label: curve.points for curve in read_curves([path], score)}

    assert found("data_loss") == {
        "train worker:0": ((10, 0.25),),
        "train worker:1": ((12, 0.2),),
        "validation": ((20, 0.1),),
    }
    assert found("learning_rate") == {"train worker:0": ((10, 0.1),)}
    assert found("learning_rate/logits/*") == {"train worker:1": ((12, 0.01),)}
    assert found("examples_per_second") == {"train worker:0": ((10, 80.0),), "validation": ((20, 90.0),)}


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
