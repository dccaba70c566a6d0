"""What a sweep has come to: a table, a picture of the score over each setting, and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

from compiler.report.view import shorten, table, width_of
from dsl.files.typed_json import to_json
from tfdeploy.runtime.show.reporting import duration
from tfdeploy.runtime.show.runs import COLORS, NONE, Curve, Frame, score, short_names, speed, svg
from tfdeploy.sweeping.sweep import Sweep, Trial

LONGEST = 24
"""The most characters of a value in a table."""


def told(sweep: Sweep, trial: Trial, seconds: float, *, total: int) -> str:
    """Return the line that says how a trial has ended; `total` is the number of trials."""
    names = short_names(list(trial.settings))
    settings = ", ".join(f"{names[path]} {value}" for path, value in trial.settings.items())
    outcome = trial.failure or f"{sweep.record.score} {_outcome(sweep, trial)}"
    return f"run {trial.number}/{total}  {settings}  {outcome}  ({duration(seconds)})"


def lines(sweep: Sweep, width: int) -> list[str]:
    """Return a table with a line for each trial, the best first; scores that do not fit are left out."""
    trials, own = sweep.ranked(), sweep.record.score
    found = {each.number: sweep.found(each) for each in trials}
    paths = list(dict.fromkeys(path for each in trials for path in each.settings))
    names = short_names(paths)
    rows = [["run", *(names[path] for path in paths), own]]
    for each in trials:
        values = (shorten(each.settings.get(path, NONE), LONGEST) for path in paths)
        rows.append([each.name, *values, _outcome(sweep, each)])
    others = dict.fromkeys(name for each in found.values() for name in each.scores if name != own)
    columns = [(name, [score(found[each.number].scores.get(name)) for each in trials]) for name in others]
    columns.append(("examples/s", [speed(found[each.number].examples_per_second) for each in trials]))
    for head, cells in columns:
        wider = [[*row, cell] for row, cell in zip(rows, [head, *cells], strict=True)]
        rows = wider if width_of(wider) <= width else rows
    return table(rows)


def _outcome(sweep: Sweep, trial: Trial) -> str:
    """Return the score of a trial, or in a word why it has none."""
    return score(sweep.value(trial)) if sweep.is_done(trial) else sweep.state(trial)


def to_text(sweep: Sweep) -> str:
    """Return a line of JSON with the trials, the best first."""
    trials = [
        {
            "run": str(sweep.directory(each)),
            "settings": dict(each.settings),
            "state": sweep.state(each),
            "failure": each.failure,
            "split": sweep.found(each).split,
            "scores": dict(sweep.found(each).scores),
            "examples_per_second": sweep.found(each).examples_per_second,
        }
        for each in sweep.ranked()
    ]
    record = sweep.record
    whole: dict[str, Any] = {"score": record.score, "goal": record.goal, "trials": trials}
    return to_json(whole)


# --- the picture: a panel for each setting, its values from left to right, a dot for each trial -------------

PANEL, HEIGHT = 320, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 56, 44
ROW = 3
"""The most panels beside each other."""
TICKS = 3
SMALL = 'font-size="11"'
MOST_WORDS = 6
"""With more values than this, those that are numbers stand at their sizes, and only the ends are named."""


def picture(sweep: Sweep) -> str | None:
    """Return the text of an SVG file, or None if no trial has a score."""
    trials = [each for each in sweep.ranked() if math.isfinite(sweep.value(each))]
    if not trials:
        return None
    paths = list(dict.fromkeys(path for each in trials for path in each.settings))
    scores = [sweep.value(each) for each in trials]
    columns = min(len(paths), ROW)
    width, height = PANEL * columns, HEIGHT * math.ceil(len(paths) / ROW)
    parts: list[str] = []
    for at, path in enumerate(paths):
        x, y = PANEL * (at % ROW), HEIGHT * (at // ROW)
        values = [each.settings.get(path, NONE) for each in trials]
        panel = _panel(path, sweep.record.score, values, scores)
        parts += [f'<g transform="translate({x} {y})">', *panel, "</g>"]
    return svg(width, height, parts)


def _panel(path: str, name: str, values: Sequence[str], scores: Sequence[float]) -> list[str]:
    places, named = _axis(values)
    frame = Frame.around([Curve(name, tuple((0, each) for each in scores))])
    across, up = PANEL - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    parts = [
        f'<text x="{LEFT}" y="20">{escape(path)}</text>',
        f'<text x="{LEFT}" y="40" {SMALL}>{escape(name)}</text>',
    ]
    for tick in range(TICKS):
        share = tick / (TICKS - 1)
        y = TOP + up * (1 - share)
        value = frame.bottom + share * (frame.top - frame.bottom)
        parts.append(f'<line x1="{LEFT}" x2="{PANEL - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    for text, share in named.items():
        place = f'x="{LEFT + across * share:.1f}" y="{HEIGHT - BOTTOM + 20}"'
        parts.append(
            f'<text {place} text-anchor="middle" {SMALL}>{escape(shorten(text, LONGEST // 2))}</text>'
        )
    for at in reversed(range(len(values))):  # the best is drawn last, above the others
        x, y = LEFT + across * places[at], TOP + up * (1 - frame.up(scores[at]))
        radius, fill = (4, COLORS[4]) if at == 0 else (3, COLORS[0])
        said = f"<title>{escape(values[at])}: {scores[at]:.4g}</title>"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}">{said}</circle>')
    return parts


def _axis(values: Sequence[str]) -> tuple[list[float], dict[str, float]]:
    """Return how far right each value is, from 0 to 1, and the values that are named there."""
    numbers = [_number(each) for each in values]
    distinct = sorted(set(values), key=lambda each: (math.isnan(_number(each)), _number(each), each))
    if len(distinct) <= MOST_WORDS or any(map(math.isnan, numbers)):
        shares = {each: (at + 0.5) / len(distinct) for at, each in enumerate(distinct)}
        return [shares[each] for each in values], shares if len(distinct) <= MOST_WORDS else {}
    low, high = min(numbers), max(numbers)
    if low > 0 and high / low > 100:  # noqa: PLR2004 two decades
        numbers, low, high = [math.log(each) for each in numbers], math.log(low), math.log(high)
    return [(each - low) / (high - low) for each in numbers], {distinct[0]: 0.0, distinct[-1]: 1.0}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
