"""What a sweep varies, as options and files say it, and what Optuna chooses."""

import math
import sys
from pathlib import Path

import pytest

from tests.support import refusal
from tests.sweeping.test_sweeps import RECORD, made
from tfdeploy.runtime.records.found import FoundRun
from tfdeploy.sweeping.space import BadSpaceError, Range, Space, chosen, read_file, split
from tfdeploy.sweeping.sweep import Sweep, Trial


def test_values_are_parted_by_commas_outside_of_brackets_and_quotes() -> None:
    """So that a call or a list is one value."""
    text = '1,SGD(0.1, momentum = 0.9),[3, 4],"a,b)",none'
    assert split(text) == ["1", "SGD(0.1, momentum = 0.9)", "[3, 4]", '"a,b)"', "none"]


def test_every_combination() -> None:
    """The last path varies fastest."""
    space = Space.of({"a.b": "1,2", "c.d": "x, y"}, {})
    assert space.count == 4
    assert [tuple(each.values()) for each in space.combinations()] == [
        ("1", "x"), ("1", "y"), ("2", "x"), ("2", "y"),
    ]  # fmt: skip


def test_ranges() -> None:
    """A range is of whole numbers if both ends are, and by logarithms if it says so."""
    assert Range.of("16..64") == Range(16, 64, whole=True)
    assert Range.of("1e-4 .. 0.1, log") == Range(1e-4, 0.1, whole=False, log=True)
    assert Range.of("-1.5..2") == Range(-1.5, 2, whole=False)
    assert Range.of("1,2") is None


def test_a_file(tmp_path: Path) -> None:
    """Values of YAML become those of the language."""
    file = tmp_path / "space.yaml"
    file.write_text(
        "update.optimizer.learning_rate: 1e-4..1e-1,log\n"
        "clones.count: [1, 2]\nupdate.average_slots: [true, false]\nupdate.clip: [null, value(1.0)]\n"
    )
    space = Space.of(*read_file(file))
    assert space.grids == {
        "clones.count": ("1", "2"),
        "update.average_slots": ("true", "false"),
        "update.clip": ("none", "value(1.0)"),
    }
    assert list(space.ranges) == ["update.optimizer.learning_rate"]


@pytest.mark.parametrize(
    ("grids", "ranges", "words"),
    [
        ({"a": "1,,2"}, {}, "empty value"),
        ({"a": ""}, {}, "empty value"),
        ({"a": "1,1"}, {}, "same value twice"),
        ({"a": 3}, {}, "neither a list"),
        ({"a": [[1]]}, {}, "neither a list"),
        ({"a": "1,2"}, {"a": "1..2"}, "as well as a range"),
        ({}, {"a": "1,2"}, "no range"),
        ({}, {"a": "2..1"}, "larger one"),
        ({}, {"a": "0..1,log"}, "no logarithms"),
        ({}, {"a": "0..1e999"}, "larger one"),
    ],
)
def test_what_cannot_be_read(grids: dict[str, object], ranges: dict[str, str], words: str) -> None:
    """The message says which path and why."""
    with pytest.raises(BadSpaceError, match=words):
        Space.of(grids, ranges)


@pytest.mark.parametrize("text", ["- 1\n", "a: [", "1: [2]\n", "\0"])
def test_what_is_no_such_file(text: str, tmp_path: Path) -> None:
    """It is said, with its name."""
    file = tmp_path / "space.yaml"
    file.write_text(text)
    with pytest.raises(BadSpaceError, match=r"space\.yaml"):
        read_file(file)


SPACE = Space.of(
    {"model.y.Dense.activation": "relu,tanh"},
    {"update.optimizer.learning_rate": "1e-4..1,log", "clones.batch": "8..64"},
)


def end(sweep: Sweep, trial: Trial) -> None:
    """Let a trial end with a score that is the better the nearer its learning rate is to 0.01."""
    rate = float(trial.settings["update.optimizer.learning_rate"])
    found = FoundRun("", "finished", 3, "test", {"accuracy": 1 - abs(math.log10(rate) + 2) / 4}, None, {})
    sweep._found[trial.number] = found


def test_choices_come_from_results_and_a_sweep_goes_on_from_its_folder(tmp_path: Path) -> None:
    """They are in their ranges, differ, go where scores are better, and are the same after a restart."""
    whole = Sweep.open(tmp_path / "whole", RECORD)
    for trial in chosen(whole, SPACE, 30, seed=3):
        end(whole, trial)
    settings = [each.settings for each in whole.record.trials]
    assert len({tuple(each.items()) for each in settings}) == 30
    rates = [float(each["update.optimizer.learning_rate"]) for each in settings]
    assert all(1e-4 <= each <= 1 for each in rates)
    assert all(8 <= int(each["clones.batch"]) <= 64 for each in settings)
    assert {each["model.y.Dense.activation"] for each in settings} == {"relu", "tanh"}
    near = [sum(abs(math.log10(each) + 2) < 0.7 for each in part) for part in (rates[:10], rates[20:])]
    assert near[1] > near[0]

    cut = Sweep.open(tmp_path / "cut", RECORD)
    for trial in chosen(cut, SPACE, 12, seed=3):
        end(cut, trial)
    cut.save()
    again = Sweep.open(tmp_path / "cut", RECORD)
    for trial in again.record.trials:
        end(again, trial)
    for trial in chosen(again, SPACE, 30, seed=3):
        end(again, trial)
    assert [each.settings for each in again.record.trials] == settings


def test_what_has_not_finished_is_first(tmp_path: Path) -> None:
    """A trial that failed or was cut off is tried again before others are chosen."""
    sweep = made(tmp_path / "s", {"0.1": 0.5, "0.2": float("nan"), "0.3": None})
    space = Space.of({"clones.count": "1,2"}, {"update.optimizer.learning_rate": "0.01..1"})
    assert [each.number for each in chosen(sweep, space, 4, seed=0)] == [2, 3, 4]


def test_without_optuna(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said what installs it."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    found = refusal(lambda: next(chosen(Sweep.open(tmp_path / "s", RECORD), SPACE, 4, seed=0)))
    assert found.code == "TFD778"
    assert found.help == "install it: `pip install 'tfdeploy[optuna]'`"
