"""What each device holds, sends and receives, and how full its memory is, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.figures import count, gathered, size, size_of_known
from compiler.kinds.records.kind_map import AnyMap
from compiler.report import refs
from compiler.report.refs import first_that_fits
from compiler.report.table import GAP, headed, table, width_of
from compiler.report.totals import Totals, add_up, device_totals, of_group, pools
from compiler.report.view import View

MANY = 16
"""If there are more devices than this, those with equal figures share a row."""


def device_table(placement: AnyMap, view: View) -> list[str]:
    """Return the lines of the table, with a sum below if there are several devices."""
    totals = device_totals(placement)
    groups = first_that_fits(list(totals), totals.__getitem__, lambda groups: len(groups) <= MANY)
    named = [(each.title, of_group(each, totals)) for each in groups]
    if len(totals) > 1:
        named.append((f"all {len(totals)}", add_up(list(totals.values()))))
    forecast = any(each.memory is not None for each in totals.values())
    timed = placement.time is not None
    rows = [(*device_head(forecast=forecast), *(["busy"] if timed else []))]
    rows += [
        device_row(name, each, forecast=forecast) + ((_busy(each.busy),) if timed else ())
        for name, each in named
    ]
    lines = _fitted(rows, view.width)
    lines[0] = view.ink(lines[0], "bold")
    if any(each.in_unknown for each in totals.values()):
        lines.append("+ and tensors whose size is not known before a step")
    return lines


def _fitted(rows: Sequence[tuple[str, ...]], width: int) -> list[str]:
    """Return the lines of a table; a name that leaves too little room is on a line before its figures."""
    room = width - width_of([row[1:] for row in rows]) - len(GAP)
    long = [row[0] if len(row[0]) > room else "" for row in rows]
    short = [("" if name else row[0], *row[1:]) for name, row in zip(long, rows, strict=True)]
    return [line for name, line in zip(long, table(short), strict=True) for line in (name, line) if line]


def _busy(part: float | None) -> str:
    return "" if part is None else f"{part:.0%}"


def device_head(*, forecast: bool) -> tuple[str, ...]:
    """Return the names of the columns; `forecast` is whether the memory of a step is known."""
    return ("device", "ops", "variables", "slots", *(["memory"] if forecast else []), "in/step", "out/step")


def device_row(name: str, totals: Totals, *, forecast: bool) -> tuple[str, ...]:
    """Return the cells for a device, or for several.

    Args:
        name: The first cell.
        totals: The ops and bytes of the device, or the sums of several.
        forecast: Whether there is a column for the forecast of memory.
    """
    memory = (size(totals.memory) if totals.memory is not None else "?",) if forecast else ()
    return (
        name,
        count(totals.ops),
        size(totals.variables),
        size(totals.slots),
        *memory,
        size_of_known(totals.bytes_in, totals.in_unknown),
        size_of_known(totals.bytes_out, totals.out_unknown),
    )


def fullness(placement: AnyMap, view: View) -> list[str]:
    """Return a line for each GPU and machine; nothing if the spec does not give their memory."""
    alike = gathered(
        ((refs.parse(pool.devices[0].ref).job_kind, pool.needed, pool.limit), pool)
        for pool in pools(placement)
    )
    if not alike:
        return []
    rows = [("memory", "forecast", "there is", "full")]
    for (_, needed, limit), same in alike.items():
        label = refs.label([device.ref for pool in same for device in pool.devices])
        each = f" (each of {len(same)})" if len(same) > 1 else ""
        rows.append((f"{label}{each}", size(needed), size(limit), f"{needed / limit:.1%}"))
    return headed(rows, view.ink)
