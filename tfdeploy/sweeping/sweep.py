"""A sweep as a folder: `sweep.json` with all trials, and for each its run directory and its output."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from attrs import define, evolve, field, frozen

from dsl import ir
from dsl.diagnostics import RunError
from dsl.errors import running as errors
from dsl.files.regular import is_text
from dsl.files.typed_json import BadRecord, Count, JsonRecord, read_record
from dsl.schema.signatures import find
from tfdeploy.runtime.records.files import write_atomically
from tfdeploy.runtime.records.found import FoundRun
from tfdeploy.runtime.records.lock import foreign_names, is_marked, unusable, usable
from tfdeploy.runtime.records.result import LOSS, Goal, goal_and_score

FILE = "sweep.json"
PICTURE = "sweep.svg"
FORMAT_VERSION = "1.0"


@frozen
class Trial:
    """A spec with one choice of settings.

    Attributes:
        number: Counts the trials of a sweep from 1; the run directory has its name.
        settings: The values by path, as `--set` takes them.
        failure: Why it has failed; None if it has not.
    """

    number: Count
    settings: Mapping[str, str]
    failure: str | None = None

    @property
    def name(self) -> str:
        """The name of its run directory."""
        return f"{self.number:03}"


@frozen
class SweepRecord(JsonRecord):
    """What `sweep.json` holds.

    Attributes:
        spec: The spec.
        sha256: The digest of the spec with what it includes and `--set`, without the settings of trials.
        score: The score by which trials are compared.
        goal: Whether the highest or the lowest is the best.
        trials: The trials that have begun or are to begin.
        format_version: The version of the format.
    """

    spec: str
    sha256: str
    score: str
    goal: Goal
    trials: tuple[Trial, ...] = ()
    format_version: str = FORMAT_VERSION


@define
class Sweep:
    """A sweep in its folder."""

    folder: Path
    record: SweepRecord
    _found: dict[int, FoundRun] = field(factory=dict, init=False)

    @classmethod
    def open(cls, folder: Path, record: SweepRecord) -> Sweep:
        """Go on with the sweep in a folder, or begin one if the folder is empty or missing.

        Raises:
            RunError: If the folder has something else, or a sweep of another spec.
        """
        if not is_text(str(folder)):
            raise unusable(folder, None, "its name is not UTF-8")
        with usable(folder, None):
            folder.mkdir(parents=True, exist_ok=True)
            there = (folder / FILE).exists()
            others = [] if there else foreign_names(folder)
            if others:
                raise RunError(errors.foreign_directory(None, directory=str(folder), names=others))
        if not there:
            return cls(folder, record)
        try:
            before = read_record(folder / FILE, SweepRecord)
        except (BadRecord, OSError) as fault:
            raise RunError(errors.other_sweep(folder=str(folder), why=f"its `{FILE}` {fault}")) from fault
        if before.sha256 != record.sha256:
            why = f"it is of {before.spec}, which has been changed since or had other values of `--set`"
            raise RunError(errors.other_sweep(folder=str(folder), why=why))
        return cls(folder, evolve(record, trials=before.trials))

    def trial(self, settings: Mapping[str, str]) -> Trial:
        """Return the trial with some settings, a new one if there is none."""
        known = next((each for each in self.record.trials if each.settings == settings), None)
        if known is None:
            known = Trial(len(self.record.trials) + 1, dict(settings))
            self.record = evolve(self.record, trials=(*self.record.trials, known))
        return known

    def note(self, trial: Trial, failure: str | None) -> None:
        """Write down how a trial has ended."""
        changed = evolve(trial, failure=failure)
        trials = (changed if each.number == trial.number else each for each in self.record.trials)
        self.record = evolve(self.record, trials=tuple(trials))
        self.look_again(trial)
        self.save()

    def look_again(self, trial: Trial) -> None:
        """Read the run directory of a trial again when it is asked for next."""
        self._found.pop(trial.number, None)

    def save(self) -> None:
        """Write `sweep.json`; raises RunError if it cannot be written."""
        write_atomically(self.folder / FILE, self.record.to_json(indent=1) + "\n")

    def directory(self, trial: Trial) -> Path:
        """Return the run directory of a trial."""
        return self.folder / trial.name

    def found(self, trial: Trial) -> FoundRun:
        """Return what the run directory of a trial tells, which is read once until the trial ends again."""
        if trial.number not in self._found:
            self._found[trial.number] = FoundRun.at(self.directory(trial))
        return self._found[trial.number]

    def state(self, trial: Trial) -> str:
        """Return in a word or two how far a trial has come."""
        if trial.failure is not None:
            return "failed"
        return self.found(trial).state if is_marked(self.directory(trial)) else "not begun"

    def is_done(self, trial: Trial) -> bool:
        """Whether the run of a trial has come to its end."""
        return trial.failure is None and self.found(trial).state == "finished"

    def value(self, trial: Trial) -> float:
        """Return the score of a trial; NaN if it has none or has not finished."""
        value = self.found(trial).scores.get(self.record.score) if self.is_done(trial) else None
        return math.nan if value is None else value

    def ranked(self) -> list[Trial]:
        """Return the trials, the best first, and those without a score last."""
        sign = 1 if self.record.goal == "lowest" else -1

        def place(trial: Trial) -> tuple[bool, float, int]:
            value = self.value(trial)
            return not math.isfinite(value), sign * value if math.isfinite(value) else 0.0, trial.number

        return sorted(self.record.trials, key=place)


def goal_of(spec: ir.Spec, score: str | None) -> tuple[str, Goal]:
    """Return by which score trials are compared, and whether the highest or the lowest is the best.

    Args:
        spec: The spec; the score of its `best` is the default.
        score: The name of a score, which overrides that one; the highest is best but for losses and errors.

    Raises:
        RunError: The model has no such score.
    """
    goal, own = (None, None) if spec.train.best is None else goal_and_score(spec.train.best)
    if goal is not None and own is not None and score in {None, own}:
        return own, goal
    name = LOSS if score is None else score
    kinds = {LOSS: LOSS, **{each.name: each.objective.call.name for each in spec.model.metrics}}
    if name not in kinds:
        raise RunError(errors.nothing_to_plot(score=name, known=sorted(kinds)))
    kind = kinds[name]
    low = {LOSS, "FalseNegatives", "FalsePositives"}
    falls = kind in low or "Error" in kind or (find("loss", kind) is not None and kind != "CosineSimilarity")
    return name, "lowest" if falls or any(each in name.lower() for each in (LOSS, "error")) else "highest"
