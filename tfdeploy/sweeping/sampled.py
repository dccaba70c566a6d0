"""Trials that Optuna chooses, from what those before have come to. Optuna is an extra."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from dsl.diagnostics import RunError
from dsl.errors import running as errors
from tfdeploy.sweeping.space import Range, Space
from tfdeploy.sweeping.sweep import Sweep, Trial

DIGITS = 6
"""The significant digits of a chosen number: more say nothing, and are hard to type again."""


def chosen(sweep: Sweep, space: Space, count: int, seed: int) -> Iterator[Trial]:
    """Yield trials of a sweep until there are `count`, those that have not finished first.

    Optuna keeps nothing itself: it is told of all trials in `sweep.json` whenever it has to choose, so that a
    sweep goes on from its folder alone.

    Raises:
        RunError: If Optuna is not installed.
    """
    try:
        optuna: Any = import_module("optuna")
    except ImportError:
        raise RunError(errors.extra_missing(package="optuna", extra="optuna", why="`--trials`")) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    waiting = iter([each for each in sweep.record.trials if not sweep.is_done(each)])
    for at in itertools.count(len(sweep.record.trials)):
        again = next(waiting, None)
        if again is not None:
            yield again
        elif at >= count and len(sweep.record.trials) >= count:
            return
        else:
            yield sweep.trial(_next(optuna, sweep, space, seed))


def _next(optuna: Any, sweep: Sweep, space: Space, seed: int) -> dict[str, str]:
    """Return settings that no trial has, as far as there are such."""
    spaces = {path: _distribution(optuna, each) for path, each in space.ranges.items()}
    spaces |= {
        path: optuna.distributions.CategoricalDistribution(values) for path, values in space.grids.items()
    }
    known = [each.settings for each in sweep.record.trials]
    found: dict[str, str] = {}
    for more in range(100):
        sampler = optuna.samplers.TPESampler(seed=seed + len(known) + 10_000 * more, constant_liar=True)
        study = optuna.create_study(
            direction="minimize" if sweep.record.goal == "lowest" else "maximize", sampler=sampler
        )
        study.add_trials([_told(optuna, sweep, each, spaces) for each in sweep.record.trials])
        asked = study.ask(spaces)
        found = {
            path: asked.params[path] if path in space.grids else _text(asked.params[path])
            for path in space.paths
        }
        if found not in known:
            break
    return found


def _distribution(optuna: Any, of: Range) -> Any:
    if of.whole:
        return optuna.distributions.IntDistribution(int(of.low), int(of.high), log=of.log)
    return optuna.distributions.FloatDistribution(of.low, of.high, log=of.log)


def _text(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.{DIGITS}g}"


def _told(optuna: Any, sweep: Sweep, trial: Trial, spaces: dict[str, Any]) -> Any:
    """Return a trial as Optuna knows it: finished with its score, failed, or running."""
    value = sweep.value(trial)
    states = optuna.trial.TrialState
    state = states.COMPLETE if math.isfinite(value) else states.FAIL if trial.failure else states.RUNNING
    if sweep.is_done(trial) and state is not states.COMPLETE:
        state = states.FAIL  # it has come to no number
    params = {
        path: text
        if isinstance(spaces[path], optuna.distributions.CategoricalDistribution)
        else type(spaces[path].low)(float(text))
        for path, text in trial.settings.items()
    }
    return optuna.trial.create_trial(
        state=state, value=value if state is states.COMPLETE else None, params=params, distributions=spaces
    )
