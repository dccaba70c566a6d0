"""A verification for people, as a table that grows while it runs, and for programs, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from compiler.figures import plural
from dsl.files import typed_json
from tfdeploy.runtime.verify.session import Outcome, Verification

FORMAT_VERSION = "1.0"
MOST_SHOWN = 20  # combinations beyond the tolerance that are listed one by one
_HEAD = ("mode", "aggregate", "variables", "cases", "weights", "slots", "losses", "evaluated")
_WIDTHS = (5, 22, 10, 5, 7, 7, 7, 9)


def heading(verification: Verification) -> Iterator[str]:
    """Yield what is verified against what, and the head of the table."""
    what = (
        "the same clones with add_n and shared variables (a step depends on how the batch is cut)"
        if verification.depends_on_clones
        else "one tower on the whole batch"
    )
    number = len(verification.selected.cases)
    yield f"{plural(number, 'combination')}, {verification.options.steps} steps each, held against {what};"
    yield "async against single towers in turn, local against single towers averaged in NumPy"
    if verification.spec.update.compress is not None:
        yield "sums between machines against gradients that are compressed and summed in NumPy"
    yield ""
    yield _line(_HEAD)


def rows(outcomes: Iterable[Outcome], tolerance: float) -> Iterator[str]:
    """Yield a line for each mode, aggregation and placement as soon as its cases are through."""
    group: list[Outcome] = []
    for outcome in outcomes:
        if group and _key(group[0]) != _key(outcome):
            yield _row(group, tolerance)
            group = []
        group.append(outcome)
    if group:
        yield _row(group, tolerance)


def summary(verification: Verification, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield what came of it: what was left out, what failed, and the largest difference of all."""
    tolerance = verification.tolerance
    yield ""
    for reason, number in verification.selected.left_out:
        yield f"left out: {plural(number, 'combination')}, {reason}"
    rounded = dict.fromkeys(name for each in outcomes for name in each.differences.rounded)
    if rounded:
        yield f"moved by rounding alone, as far as it moves them in one tower: {', '.join(rounded)}"
    failed = [each for each in outcomes if not each.differences.largest <= tolerance]
    for each in failed[:MOST_SHOWN]:
        yield f"differs by {each.differences.largest:.1e} in {each.differences.worst}: {each.case.title}"
    if len(failed) > MOST_SHOWN:
        yield f"and {len(failed) - MOST_SHOWN} more"
    worst = max(outcomes, key=lambda each: each.differences.largest)
    seconds = sum(each.seconds for each in outcomes)
    yield (
        f"largest relative difference {worst.differences.largest:.1e} ({worst.differences.worst}, "
        f"{worst.case.title}), tolerance {tolerance:.0e}, {seconds:.0f} s"
    )
    verdict = f"{len(failed)} of {plural(len(outcomes), 'combination')} differ" if failed else "all agree"
    yield verdict


def to_json(verification: Verification, outcomes: Sequence[Outcome]) -> str:
    """Return a verification as one line of JSON; a difference that is infinite is null."""
    tolerance = verification.tolerance
    cases = [
        {
            "mode": each.case.mode,
            "aggregate": each.case.aggregation,
            "variables": each.case.variables,
            "clones": each.case.clones,
            "batches": list(each.case.batches),
            "pack": each.case.pack,
            "average_slots": each.case.average_slots,
            **{what: getattr(each.differences, what) for what in _HEAD[4:]},
            "worst": each.differences.worst,
            "seconds": round(each.seconds, 3),
        }
        for each in outcomes
    ]
    left_out = [{"reason": reason, "cases": number} for reason, number in verification.selected.left_out]
    found = {
        "format_version": FORMAT_VERSION,
        "spec": verification.spec.path,
        "tolerance": tolerance,
        "agrees": all(each.differences.largest <= tolerance for each in outcomes),
        "left_out": left_out,
        "cases": cases,
    }
    return typed_json.to_json(found)


def _key(outcome: Outcome) -> tuple[str, str, str]:
    return outcome.case.mode, outcome.case.aggregation, outcome.case.variables


def _row(group: Sequence[Outcome], tolerance: float) -> str:
    mode, aggregate, variables = _key(group[0])
    figures = [max(getattr(each.differences, what) for each in group) for what in _HEAD[4:]]
    cells = [mode, "" if mode == "async" else aggregate, variables, str(len(group))]
    line = _line([*cells, *(f"{each:.1e}" for each in figures)])
    return line if max(figures) <= tolerance else f"{line}  beyond the tolerance"


def _line(cells: Sequence[str]) -> str:
    left = 3  # columns of words; the others are figures
    parts = [
        cell.ljust(width) if at < left else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, _WIDTHS, strict=True))
    ]
    return "  ".join(parts).rstrip()
