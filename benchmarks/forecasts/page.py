"""The part of `docs/reference/forecasts.md` on the time of a step, which is written from measurements."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap

from benchmarks.forecasts.measured import Compared, by_model, kendall_tau, quantile
from compiler.figures import duration

BEGIN, END = "<!-- time: begin -->\n", "<!-- time: end -->\n"


def write_page(page: Path, compared: list[Compared], where: str) -> None:
    """Replace the part of the page between two comments."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n{text(compared, where)}\n{END}{after}", encoding="utf-8")


def text(compared: list[Compared], where: str) -> str:
    """Return the text about what was compared on a machine that `where` describes."""
    errors = [abs(each.error) for each in compared]
    noise = [each.noise for each in compared]
    models = len(list(by_model(compared)))
    said = (
        f"Measured on {where}, by `python -m benchmarks.forecasts`: {len(compared)} layouts of {models} "
        "models. The profile of a model is that of two clones with `add_n`. Each layout is measured in "
        "processes of its own, apart from the calibration. An error is that of the forecast as a part of the "
        "measured time; the noise is how far the medians of the processes are apart."
    )
    lines = [
        *wrap(said, 120),
        "",
        "| what | median | 95th percentile | largest |",
        "| --- | ---: | ---: | ---: |",
        _spread("error of the forecast", errors),
        _spread("difference between repeated measurements", noise),
        "",
        "| model | layouts | median error | Kendall's tau of the order | best by forecast, against best |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(_model(model, same) for model, same in by_model(compared)),
        "",
        "| model | layout | forecast | measured | error | noise |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        *(_row(each) for each in compared),
    ]
    return "\n".join(lines) + "\n"


def _spread(what: str, values: list[float]) -> str:
    return f"| {what} | {quantile(values, 0.5):.1%} | {quantile(values, 0.95):.1%} | {max(values):.1%} |"


def _model(model: str, same: list[Compared]) -> str:
    """Return a row about the layouts of a model. Only those that do the same work are put in an order."""
    errors = quantile([abs(each.error) for each in same], 0.5)
    tau = kendall_tau([(each.forecast, each.middle) for each in same])
    called = min(same, key=lambda each: each.forecast / _clones(each))
    best = min(each.middle / _clones(each) for each in same)
    against = called.middle / _clones(called) / best - 1
    return f"| {model} | {len(same)} | {errors:.1%} | {tau:.2f} | {against:+.1%} |"


def _clones(compared: Compared) -> int:
    """Return the number of clones of a layout, by which its examples grow."""
    return int(compared.case.split()[0])


def _row(each: Compared) -> str:
    return (
        f"| {each.model} | {each.case} | {duration(each.forecast)} | {duration(each.middle)} "
        f"| {each.error:+.1%} | {each.noise:.1%} |"
    )
