"""Trials that Optuna chooses."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import pytest

from dsl.diagnostics import RunError
from tests.sweeping.test_sweeps import RECORD, made
from tfdeploy.sweeping.sampled import chosen
from tfdeploy.sweeping.space import Space
from tfdeploy.sweeping.sweep import Sweep, Trial

if TYPE_CHECKING:
    from pathlib import Path

SPACE = Space.of(
    {"model.y.Dense.activation": "relu,tanh"},
    {"update.optimizer.learning_rate": "1e-4..1,log", "clones.batch": "8..64"},
)


def end(sweep: Sweep, trial: Trial) -> None:
    """Let a trial end with a score that is the better the nearer its learning rate is to 0.01."""
    from tfdeploy.runtime.records.found import FoundRun

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
    with pytest.raises(RunError) as caught:
        next(chosen(Sweep.open(tmp_path / "s", RECORD), SPACE, 4, seed=0))
    assert caught.value.diagnostic.code == "TFD778"
    assert caught.value.diagnostic.help == "install it: `pip install 'tfdeploy[optuna]'`"
