"""What a sweep varies: lists of values and ranges, by the paths that `--set` takes."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from attrs import field, frozen

from dsl.diagnostics import RunError
from dsl.errors import running as errors
from dsl.files.regular import read_text
from tfdeploy.sweeping.sweep import Sweep, Trial

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"\s*(?P<low>{_NUMBER})\s*\.\.\s*(?P<high>{_NUMBER})\s*(?P<log>,\s*log)?\s*")
OPENING, CLOSING, QUOTE = "([{", ")]}", '"'


class BadSpaceError(ValueError):
    """Raised for a list or range that cannot be read; the message says why."""


@frozen
class Range:
    """All numbers between two, both of which belong to it."""

    low: float
    high: float
    whole: bool  # whether only whole numbers are meant, because both ends are
    log: bool = False  # whether numbers are chosen evenly by their logarithms

    @classmethod
    def of(cls, text: str) -> Range | None:
        """Read `1e-4..1e-1,log`; None for a text that is no range."""
        found = _RANGE.fullmatch(text)
        if found is None:
            return None
        ends = found["low"], found["high"]
        low, high = map(float, ends)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise BadSpaceError(f"{text!r} does not go from a number to a larger one")
        if found["log"] and low <= 0:
            raise BadSpaceError(f"{text!r} has no logarithms, because it begins at or below zero")
        return cls(low, high, all(re.fullmatch(r"[-+]?\d+", each) for each in ends), found["log"] is not None)


@frozen
class Space:
    """What a sweep varies."""

    # The values to try, as the language writes them, by path.
    grids: Mapping[str, tuple[str, ...]] = field(factory=dict)
    ranges: Mapping[str, Range] = field(factory=dict)  # the ranges to choose from, by path

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths, those with lists of values first."""
        return (*self.grids, *self.ranges)

    @property
    def count(self) -> int:
        """The number of combinations of the values in the lists."""
        return math.prod(map(len, self.grids.values()))

    def combinations(self) -> Iterator[dict[str, str]]:
        """Yield every combination of the values in the lists; the last path varies fastest."""
        for values in itertools.product(*self.grids.values()):
            yield dict(zip(self.grids, values, strict=True))

    @classmethod
    def of(cls, grids: Mapping[str, Any], ranges: Mapping[str, str]) -> Space:
        """Read what options and files say.

        Args:
            grids: Lists of values, or texts with commas between the values, by path.
            ranges: Ranges such as `1e-4..1e-1,log`, by path.

        Raises:
            BadSpaceError: If one of them cannot be read, or a path has several.
        """
        read: dict[str, Range] = {}
        for path, text in ranges.items():
            found = Range.of(text)
            if found is None:
                raise BadSpaceError(
                    f"{text!r} is no range for {path}: it is written LOW..HIGH or LOW..HIGH,log"
                )
            read[path] = found
        twice = [path for path in grids if path in read]
        if twice:
            raise BadSpaceError(f"{twice[0]} has a list of values as well as a range")
        return cls({path: _values(path, each) for path, each in grids.items()}, read)


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Read lists and ranges by path from a YAML file; raises BadSpaceError if it is none."""
    try:
        found = yaml.safe_load(read_text(path))
    except (yaml.YAMLError, ValueError, RecursionError) as fault:
        raise BadSpaceError(f"{path} is not YAML: {' '.join(str(fault).split())}") from fault
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found):
        raise BadSpaceError(f"{path} does not have a list or a range for each path of --set")
    ranges = {key: each for key, each in found.items() if isinstance(each, str) and Range.of(each)}
    return {key: each for key, each in found.items() if key not in ranges}, ranges


def _values(path: str, given: Any) -> tuple[str, ...]:
    parts = split(given) if isinstance(given, str) else given
    if not isinstance(parts, list) or any(isinstance(each, list | dict) for each in parts):
        raise BadSpaceError(f"{path} has neither a list of values nor a range")
    texts = [_text(each) for each in parts]
    if not texts or not all(texts):
        raise BadSpaceError(f"{path} has an empty value; values are parted by commas")
    if len(set(texts)) < len(texts):
        raise BadSpaceError(f"{path} has the same value twice")
    return tuple(texts)


def _text(value: Any) -> str:
    """Return a value of YAML as the language writes it."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return str(value).strip()


def split(text: str) -> list[str]:
    """Part a text at the commas that are in no brackets and no quotes."""
    parts, depth, quoted = [""], 0, False
    for each in text:
        quoted ^= each == QUOTE
        if not quoted:
            depth += (each in OPENING) - (each in CLOSING)
        if each == "," and depth <= 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += each
    return parts


# --- the values that Optuna chooses -----------------------------------------------------------------------

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
            path: asked.params[path] if path in space.grids else _number(asked.params[path])
            for path in space.paths
        }
        if found not in known:
            break
    return found


def _distribution(optuna: Any, of: Range) -> Any:
    if of.whole:
        return optuna.distributions.IntDistribution(int(of.low), int(of.high), log=of.log)
    return optuna.distributions.FloatDistribution(of.low, of.high, log=of.log)


def _number(value: float) -> str:
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
