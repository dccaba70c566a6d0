"""The part of `docs/reference/forecasts.md` on the time of a step, which is written from measurements."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from textwrap import wrap

from benchmarks.forecasts.measured import Compared, by_family, by_model, kendall_tau, quantile
from compiler.figures import duration

HEAD = (
    "| layouts | number | median error | 95th | tau | tau beyond the noise | called best, against best "
    "| calibrated step |"
)
BEGIN, END = "<!-- time: begin -->\n", "<!-- time: end -->\n"


def write_page(page: Path, compared: list[Compared], where: str) -> None:
    """Replace the part of the page between two comments.

    Args:
        page: The file of the page.
        compared: The layouts.
        where: A description of the machine.
    """
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n{text(compared, where)}\n{END}{after}", encoding="utf-8")


def text(compared: list[Compared], where: str) -> str:
    """Return the text for the page.

    Args:
        compared: The layouts.
        where: A description of the machine.
    """
    errors = [abs(each.error) for each in compared]
    noise = [each.noise for each in compared]
    drifts = [abs(each.drift) for each in compared if each.drift is not None]
    others = sum(each.others for each in compared) / max(1, len(compared))
    models, stated = len(list(by_model(compared))), _noise(compared)
    said = (
        f"Measured on {where}, by `python -m benchmarks.forecasts`: {len(compared)} layouts of {models} "
        "models. The profile of a model is that of two clones with `add_n`, and is made in processes of its "
        "own. The layouts of a model take many short turns between those of its "
        "calibration, so that calibration and test meet the machine in the same states. "
        "A turn in which the machine was slow is slow for all layouts, and that is divided out by median "
        "polish; what counts is the lower quartile of what is left. An error is that of the forecast as a "
        "part of the measured time; the noise is how far the odd and the even turns are apart. "
        f"Other work had {others:.0%} of the processors meanwhile. The order is that of a model's layouts. "
        "Two layouts whose measured times differ by less than the median noise have no order that a "
        "measurement could tell: Kendall's tau is given for all pairs, and for those that differ by more. "
        "The column `95th` is the 95th percentile of the error. "
        "Two layouts of a model are the step that was calibrated, with one op at a time and with one on each "
        "core. How much longer that took in the calibration than in the test, without a trace in either, is "
        "the column `calibrated step`, as a mean of both: the machine was so much slower, or faster, then, "
        "which no forecast can know. "
        "The best takes the least time for an example; the last column says how much longer that takes which "
        "is called best, for the model with the largest difference."
    )
    lines = [
        *wrap(said, 120),
        "",
        "| what | median | 95th percentile | largest |",
        "| --- | ---: | ---: | ---: |",
        _spread("error of the forecast", errors),
        _spread("difference between repeated measurements", noise),
        *([_spread("difference between calibration and test, of the same step", drifts)] if drifts else []),
        "",
        *_goals(compared, stated),
        "",
        HEAD,
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        _figures("all", compared, stated),
        *(_figures(WORDS[family], same, stated) for family, same in by_family(compared)),
        *(_figures(model, same, stated) for model, same in by_model(compared)),
        "",
        "| model | layout | forecast | measured | error | noise |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        *(_row(each) for each in compared),
    ]
    return "\n".join(lines) + "\n"


def _spread(what: str, values: list[float]) -> str:
    return f"| {what} | {quantile(values, 0.5):.1%} | {quantile(values, 0.95):.1%} | {max(values):.1%} |"


GOALS = (("median error", 0.07), ("95th percentile of the error", 0.2))
LEAST_TAU, FURTHEST_BEST = 0.9, 0.05
"""What forecasts should reach: errors of at most so much, an order that agrees at least so much, and a layout
called best that takes at most this part longer than the best."""

WORST = 5


def _goals(compared: list[Compared], noise: float) -> list[str]:
    """Return a table of what is wanted and what was found, and the layouts with the largest errors."""
    taus = (
        ("tau of the layouts of each model", _tau(compared)),
        ("tau of these, beyond the noise", _tau(compared, noise)),
        (
            "tau of all layouts of all models",
            kendall_tau([(each.forecast, each.measured) for each in compared]),
        ),
    )
    best = _best(compared)
    worst = sorted(compared, key=lambda each: -abs(each.error))[:WORST]
    goal, reached = f"at most {FURTHEST_BEST:+.0%}", _yes(reached=best <= FURTHEST_BEST)
    return [
        "| what | wanted | found | reached |",
        "| --- | ---: | ---: | --- |",
        *(
            f"| {what} | at most {most:.0%} | {found:.1%} | {_yes(reached=found <= most)} |"
            for (what, most), found in zip(
                GOALS, (_error(compared, 0.5), _error(compared, 0.95)), strict=True
            )
        ),
        *(
            f"| {what} | at least {LEAST_TAU} | {found:.2f} | {_yes(reached=found >= LEAST_TAU)} |"
            for what, found in taus
        ),
        f"| called best, against best | {goal} | {best:+.1%} | {reached} |",
        "",
        "The largest errors are those of:",
        "",
        *(f"- {each.model}, {each.case}: {each.error:+.1%}" for each in worst),
    ]


def _yes(*, reached: bool) -> str:
    return "yes" if reached else "no"


WORDS = {
    "clones": "clones of one process",
    "groups": "clones on groups of devices",
    "cluster": "two processes with one graph",
    "between": "two processes with a graph each",
}
"""The families of layouts in words."""


def summary(compared: list[Compared]) -> list[str]:
    """Return a line with the four figures for all layouts, and one for each family."""
    families = [("all", compared), *by_family(compared)]
    return [
        f"{family}: {len(same)} layouts, median error {_error(same, 0.5):.1%}, 95th percentile "
        f"{_error(same, 0.95):.1%}, tau {_tau(same):.2f}, beyond the noise "
        f"{_tau(same, _noise(compared)):.2f}, best within {_best(same):.1%}"
        for family, same in families
        if same
    ]


def _figures(what: str, same: list[Compared], noise: float) -> str:
    """Return a row about some layouts."""
    return (
        f"| {what} | {len(same)} | {_error(same, 0.5):.1%} | {_error(same, 0.95):.1%} | {_tau(same):.2f} "
        f"| {_tau(same, noise):.2f} | {_best(same):+.1%} | {_drift(same)} |"
    )


def _drift(same: list[Compared]) -> str:
    """Return how much longer the calibrated step took in the calibration, or nothing if it is not there."""
    drifts = [each.drift for each in same if each.drift is not None]
    return f"{sum(drifts) / len(drifts):+.1%}" if drifts else ""


def _error(same: list[Compared], part: float) -> float:
    return quantile([abs(each.error) for each in same], part)


def _tau(same: list[Compared], noise: float = 0.0) -> float:
    """Return Kendall's tau of the order of layouts by time; only those of one model have an order.

    Args:
        same: The layouts.
        noise: The part of the shorter time by which two measured times must differ to have an order.
    """
    pairs = [
        pair
        for _, of_model in by_model(same)
        for pair in combinations([(each.forecast, each.measured) for each in of_model], 2)
        if max(each[1] for each in pair) > (1 + noise) * min(each[1] for each in pair)
    ]
    return sum(kendall_tau(list(pair)) for pair in pairs) / len(pairs) if pairs else 1.0


def _noise(compared: list[Compared]) -> float:
    """Return the noise that the page states: the median of that of all layouts."""
    return quantile([each.noise for each in compared], 0.5) if compared else 0.0


def _best(same: list[Compared]) -> float:
    """Return how much longer the layout forecast as best takes than the best one, in the worst model."""
    return max((_best_of_model(of_model) for _, of_model in by_model(same)), default=0.0)


def _best_of_model(same: list[Compared]) -> float:
    called = min(same, key=lambda each: each.forecast / _examples(each))
    best = min(each.measured / _examples(each) for each in same)
    return called.measured / _examples(called) / best - 1


def _examples(compared: Compared) -> int:
    """Return the clones whose examples a step of a layout takes, or those of an update."""
    return 1 if "mode = async" in compared.case else int(compared.case.split()[0]) * _rounds(compared)


def _rounds(compared: Compared) -> int:
    return int(compared.case.rpartition("accumulate = ")[2]) if "accumulate" in compared.case else 1


def _row(each: Compared) -> str:
    return (
        f"| {each.model} | {each.case} | {duration(each.forecast)} | {duration(each.measured)} "
        f"| {each.error:+.1%} | {each.noise:.1%} |"
    )
