"""The runs below some folders: how far each has come, its scores, and what its spec sets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from attrs import frozen

from dsl.files.regular import read_regular, read_text
from dsl.files.typed_json import Count, JsonRecord, Measured
from dsl.ir import SplitName
from dsl.source import Source
from grammar.overrides import settings
from grammar.parsing.parser import parse
from grammar.reports import Reports
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.records.lock import is_held, is_marked
from tfdeploy.runtime.records.result import LOSS, Result

State = Literal["finished", "interrupted", "terminated", "running", "cut off"]
JUDGED: tuple[SplitName, ...] = ("validation", "test", "train")
"""The splits by which runs are judged; the first one of which there are scores counts."""

OWN = ("train.directory",)
"""What every run has to itself, so that it is no difference."""


@frozen
class FoundRun(JsonRecord):
    """A run, as far as its directory tells."""

    directory: str
    # How it has ended; `running` if a process holds the directory, `cut off` if none does and the run has
    # left no result.
    state: State
    step: Count  # the last step that the directory tells of
    split: SplitName | None  # the split of the scores; None if there are none
    # The loss and the metrics by name: those of the result, else the last of the history.
    scores: Mapping[str, Measured]
    examples_per_second: float | None
    settings: Mapping[str, str]  # the values of its spec by path; empty if the spec was not written

    @classmethod
    def at(cls, directory: Path) -> FoundRun:
        """Read what a run directory tells."""
        files, result = RunDirectory(directory), None
        with suppress(OSError):
            result = Result.read(read_regular(files.result))
        lines: list[HistoryRecord] = []
        with suppress(OSError):
            read = map(HistoryRecord.read, read_regular(files.history).splitlines())
            lines = [each for each in read if each is not None]
        trained = [each for each in lines if each.split == "train"]
        speed = trained[-1].examples_per_second if trained else None
        state: State = "running" if is_held(directory) else "cut off"
        if state == "running":
            result = None  # of a run before this one
        if result is not None:
            state, speed = result.status, result.examples_per_second or speed
        split, scores = _judged(result, lines)
        step = max([result.steps if result is not None else 0, *(each.step for each in lines)])
        return cls(str(directory), state, step, split, scores, speed, settings_of(files.spec))


def _judged(
    result: Result | None, lines: Sequence[HistoryRecord]
) -> tuple[SplitName | None, dict[str, float]]:
    """Return the split by which a run is judged, and its scores."""
    ended = {} if result is None else {"validation": result.validation, "test": result.test}
    for split in JUDGED:
        found = ended.get(split) or next((each for each in reversed(lines) if each.split == split), None)
        if found is not None:
            return split, {LOSS: found.loss, **found.metrics}
    return None, {}


def settings_of(spec: Path) -> dict[str, str]:
    """Return the values of a spec's file by path, without what a run has to itself; none without the file."""
    try:
        source = Source(str(spec), read_text(spec))
    except (OSError, ValueError):
        return {}
    parsed = parse(source, Reports())
    found = {} if parsed is None else settings(parsed.items)
    return {path: text for path, text in found.items() if path not in OWN}


def runs_below(folders: Iterable[Path]) -> Iterator[FoundRun]:
    """Yield the runs in folders and below, sorted by name, each once; a run directory is not looked into."""
    known = set[Path]()
    for folder in folders:
        for place, names, _ in os.walk(folder):
            if is_marked(Path(place)):
                names.clear()
                whole = Path(place).resolve()
                if whole not in known:
                    known.add(whole)
                    yield FoundRun.at(Path(place))
            names[:] = sorted(each for each in names if not each.startswith("."))


def differing(runs: Sequence[FoundRun]) -> dict[str, list[str | None]]:
    """Return the settings that differ between runs with a known spec: by path, the value of each or None."""
    known = [each for each in runs if each.settings]
    paths = dict.fromkeys(path for each in known for path in each.settings)
    return {
        path: [each.settings.get(path) for each in runs]
        for path in paths
        if len({each.settings.get(path) for each in known}) > 1
    }
