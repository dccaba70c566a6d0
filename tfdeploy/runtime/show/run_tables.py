"""Tables of runs: a line for each, or a column for each to compare a few."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from compiler.report.view import table, width_of
from tfdeploy.runtime.records.found import differing
from tfdeploy.runtime.show.reporting import number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tfdeploy.runtime.records.found import FoundRun

NONE = "."
LARGE = 1e6
FIGURES = 2
"""The number of runs whose figures are also compared with each other."""


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return for each path its last parts, as many as tell it from the others."""
    found = {}
    for path in paths:
        parts = path.split(".")
        ends = (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
        found[path] = next(
            end for end in ends if end == path or not any(p != path and p.endswith(f".{end}") for p in paths)
        )
    return found


def list_lines(runs: Sequence[FoundRun], width: int) -> list[str]:
    """Return a table with a line for each run, and as many of the settings that differ as fit."""
    scores = list(dict.fromkeys(name for each in runs for name in each.scores))
    heads = ["run", "state", "step", "split", *scores, "examples/s"]
    rows = [
        [
            each.directory, each.state, number(each.step), each.split or NONE,
            *(score(each.scores.get(name)) for name in scores), speed(each.examples_per_second),
        ]
        for each in runs
    ]  # fmt: skip
    settings, left = differing(runs), []
    names = short_names(list(settings))
    for path, values in settings.items():
        wider = [[*row, _cell(value)] for row, value in zip(rows, values, strict=True)]
        if width_of([[*heads, names[path]], *wider]) <= width:
            heads, rows = [*heads, names[path]], wider
        else:
            left.append(path)
    lines = table([heads, *rows], left=2)
    if left:
        said = f"also different, and shown by --compare: {', '.join(left)}"
        lines += ["", *textwrap.wrap(said, width, break_on_hyphens=False)]
    return lines


def compare_lines(runs: Sequence[FoundRun], width: int) -> list[str]:
    """Return what some runs have come to beside each other, and then the settings that differ."""
    scores = list(dict.fromkeys(name for each in runs for name in each.scores))
    facts: dict[str, list[str]] = {
        "state": [each.state for each in runs],
        "step": [number(each.step) for each in runs],
        "split": [each.split or NONE for each in runs],
    }
    for name in scores:
        values = [each.scores.get(name) for each in runs]
        facts[name] = [*map(score, values), *_change(values, "{1:+.4f}")]
    speeds = [each.examples_per_second for each in runs]
    facts["examples/s"] = [*map(speed, speeds), *_change(speeds, "x {0:.2f}")]
    settings = {path: [*map(_cell, values)] for path, values in differing(runs).items()}
    lines = list(_rows(facts, runs, width))
    if not settings:
        return [*lines, "", "their specs set the same"]
    return [*lines, "", "settings that differ", *_rows(settings, runs, width)]


def _change(values: Sequence[float | None], words: str) -> list[str]:
    """Return how the second of two values compares with the first, in a list that may be empty."""
    if len(values) != FIGURES or values[0] is None or values[1] is None:
        return []
    return [words.format(values[1] / values[0] if values[0] else 0.0, values[1] - values[0])]


def _rows(cells: Mapping[str, list[str]], runs: Sequence[FoundRun], width: int) -> Iterator[str]:
    """Yield a table with a column for each run; rows that are too wide come after it, a line for each run."""
    most = max(map(len, cells.values()))
    heads = ["", *(each.directory for each in runs)]
    heads += [""] * (most + 1 - len(heads))
    fitting, long = [heads], []
    for name, row in cells.items():
        padded = [name, *row, *[""] * (most - len(row))]
        if width_of([*fitting, padded]) <= width:
            fitting.append(padded)
        else:
            long.append((name, row))
    if len(fitting) > 1:
        yield from table(fitting)
    wide = max(len(each.directory) for each in runs)
    for name, row in long:
        yield name
        for run, cell in zip(runs, row, strict=False):
            lead = f"  {run.directory:<{wide}}  "
            yield from textwrap.wrap(
                cell, max(width, len(lead) + 20), initial_indent=lead, subsequent_indent=" " * len(lead),
                break_on_hyphens=False,
            )  # fmt: skip


def score(value: float | None) -> str:
    """Return a score as tables have it."""
    if value is None:
        return NONE
    return f"{value:.4f}" if abs(value) < LARGE else f"{value:.4g}"


def speed(value: float | None) -> str:
    """Return a number of examples in a second as tables have it."""
    return NONE if value is None else f"{number(round(value))}/s"


def _cell(value: str | None) -> str:
    return NONE if value is None else value
