"""What is shown of the outcome of a run: its figures, and the curves of its history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from compiler.figures import plural
from dsl.diagnostics import RunError
from dsl.shown import Summary, Table
from tfdeploy.runtime.show.curves import Curve, read_curves
from tfdeploy.runtime.show.curves_svg import picture
from tfdeploy.runtime.show.curves_text import draw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfdeploy.runtime.records.result import Result

MOST_CURVES = 3
"""The loss, and the first metrics."""

WIDTH, HEIGHT = 72, 10
"""The size of a drawing in characters."""


def summary(result: Result) -> Summary:
    """Return what is shown of a result, without curves if its run directory is not there any more."""
    scored = {"test": result.test, "validation": result.validation}
    names = list(dict.fromkeys(name for each in scored.values() if each for name in each.metrics))
    rows = tuple(
        (
            split,
            f"{each.loss:.4f}",
            *(_figure(each.metrics.get(name)) for name in names),
            f"{each.examples:,}",
        )
        for split, each in scored.items()
        if each is not None
    )
    curves = dict(_curves(result))
    return Summary(
        f"{result.status} at step {result.steps:,}",
        tuple(_facts(result)),
        (Table(("split", "loss", *names, "examples"), rows),),
        pictures=tuple(picture(found, score) for score, found in curves.items()),
        drawing="\n".join(
            draw(found, score, width=WIDTH, height=HEIGHT, color=False) for score, found in curves.items()
        ),
    )


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    if result.loss is not None:
        scores = "".join(f", {name} {value:.4f}" for name, value in result.metrics.items())
        yield "last logged", f"loss {result.loss:.4f}{scores}"
    if result.best is not None:
        yield "best", f"{result.best.score} {result.best.value:.4f} at step {result.best.step:,}"
    if result.examples_per_second is not None:
        yield "speed", f"{result.examples_per_second:,.0f} examples/s"
    yield "time", f"{result.seconds.train:.1f} s of training, {result.seconds.compile:.1f} s for the graph"
    if result.resumed_from is not None:
        yield "went on from", plural(result.resumed_from, "step")
    yield "directory", result.directory
    if result.model is not None:
        yield "model", result.model


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _curves(result: Result) -> Iterator[tuple[str, list[Curve]]]:
    """Yield the curves of the loss and of the first metrics, by their names."""
    for score in ("loss", *result.metrics)[:MOST_CURVES]:
        try:
            yield score, read_curves([Path(result.directory)], score)
        except RunError:
            continue
