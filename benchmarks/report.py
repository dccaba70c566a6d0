"""Results of benchmarks as ratios: a table in Markdown, a JSON file with everything, and a plot."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from attrs import asdict, frozen

from benchmarks.figures import Figures
from benchmarks.plot import bars

MEASURES = {
    "build": "build time",
    "first_step": "process start to first step",
    "steps_per_second": "steps per second",
    "peak_memory": "peak memory",
}
HIGHER_IS_BETTER = {"steps_per_second"}


class Result(Figures):
    """The figures of one process, with a line for people."""

    def line(self) -> str:
        """Return the figures on one line."""
        return (
            f"{self.model:12} x{self.towers:<2} {self.contender:9} build {self.build:6.2f} s, "
            f"first step {self.first_step:6.2f} s, {self.steps_per_second:8.2f} steps/s, "
            f"{self.peak_memory / 2**20:6.0f} MiB"
        )


@frozen
class Ratio:
    """How much better we are than a peer on one measure: above 1 is better, whichever way it runs."""

    model: str
    towers: int
    peer: str
    measure: str
    low: float
    median: float
    high: float


def ratios(results: Sequence[Figures]) -> list[Ratio]:
    """Compare ours with every peer, round by round."""
    found = []
    for model, towers in dict.fromkeys((each.model, each.towers) for each in results):
        here = [each for each in results if (each.model, each.towers) == (model, towers)]
        ours = [each for each in here if each.contender == "ours"]
        for peer in dict.fromkeys(each.contender for each in here if each.contender != "ours"):
            theirs = [each for each in here if each.contender == peer]
            found += [_ratio(model, towers, peer, measure, ours, theirs) for measure in MEASURES if ours]
    return [each for each in found if each.median > 0]


def _ratio(
    model: str, towers: int, peer: str, measure: str, ours: Sequence[Figures], theirs: Sequence[Figures]
) -> Ratio:
    values = []
    for mine, other in zip(ours, theirs, strict=False):
        a, b = getattr(mine, measure), getattr(other, measure)
        better = (a / b if measure in HIGHER_IS_BETTER else b / a) if a and b else 0.0
        values.append(better)
    return Ratio(model, towers, peer, measure, min(values), statistics.median(values), max(values))


def write_report(results: Sequence[Figures], folder: Path) -> None:
    """Write `table.md`, `results.json` and `ratios.svg` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    compared = ratios(results)
    (folder / "table.md").write_text(_table(compared))
    (folder / "results.json").write_text(
        json.dumps({"machine": _machine(), "results": [asdict(each) for each in results]}, indent=1) + "\n"
    )
    (folder / "ratios.svg").write_text(bars(compared))


def _machine() -> dict[str, object]:
    packages = {name: version(name) for name in ("tensorflow", "keras", "numpy")}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        **packages,
    }


def _table(compared: Iterable[Ratio]) -> str:
    lines = [
        "How many times better than the peer (median, and the range over the rounds); above 1 is better.",
        "",
        "| model | towers | peer | " + " | ".join(MEASURES.values()) + " |",
        "|---|---|---|" + "---|" * len(MEASURES),
    ]
    rows: dict[tuple[str, int, str], dict[str, Ratio]] = {}
    for each in compared:
        rows.setdefault((each.model, each.towers, each.peer), {})[each.measure] = each
    for (model, towers, peer), found in rows.items():
        cells = [_cell(found.get(measure)) for measure in MEASURES]
        lines.append(f"| {model} | {towers} | {peer} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(ratio: Ratio | None) -> str:
    return "" if ratio is None else f"{ratio.median:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"
