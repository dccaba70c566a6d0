"""What is shown of a comparison of two placements: what has moved, and the devices that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import asdict

from compiler.figures import duration, plural, size
from compiler.report.comparison.diff_text import place_of
from compiler.report.text.device_table import device_head, device_row
from compiler.report.totals import Totals
from dsl.shown import Summary, Table

if TYPE_CHECKING:
    from compiler.report.comparison.compare import Change, Comparison


def summary(comparison: Comparison) -> Summary:
    """Return what is shown of a comparison."""
    title = f"{comparison.spec_before.path} compared with {comparison.spec_after.path}"
    if not comparison.different:
        return Summary(f"{title}: no difference")
    moved = sum(each.moved for each in comparison.ops)
    appeared = sum(not each.before for each in comparison.ops)
    facts = [
        (
            "ops",
            f"{moved:,} moved, {appeared:,} appeared, {len(comparison.ops) - moved - appeared:,} vanished",
        ),
        ("links", f"{plural(len(comparison.links), 'link')} of devices with other traffic"),
    ]
    time = comparison.time
    if time is not None and time.before.seconds != time.after.seconds:
        facts.append(("step", f"{duration(time.before.seconds)} -> {duration(time.after.seconds)}"))
    before, after = asdict(comparison.mode_before), asdict(comparison.mode_after)
    facts += [(name, f"{was} -> {after[name]}") for name, was in before.items() if was != after[name]]
    largest = sorted(comparison.variables, key=lambda each: -each.bytes)
    variables = Table(
        ("variable or slot", "before", "after", "bytes"),
        tuple(_variable_row(each) for each in largest),
        left=3,
    )
    sides = [
        (when, each.ref, totals or Totals())
        for each in comparison.devices
        for when, totals in (("before", each.before), ("after", each.after))
    ]
    forecast = any(totals.memory is not None for _, _, totals in sides)
    rows = tuple((when, *device_row(ref, totals, forecast=forecast)) for when, ref, totals in sides)
    return Summary(
        title, tuple(facts), (variables, Table(("", *device_head(forecast=forecast)), rows, left=2))
    )


def _variable_row(change: Change) -> tuple[str, ...]:
    was, now = change.cuts
    return change.name, place_of(change.before, was), place_of(change.after, now), size(change.bytes)
