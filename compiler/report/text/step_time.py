"""The forecast of the time of a step: one line, and a table of what is on its critical path."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from compiler.figures import duration, share, size
from compiler.kinds.records.kind_map import AnyMap, KindTime
from compiler.mapping.step_time import MapPathPart, MapTime
from compiler.report.table import headed
from compiler.report.view import View

SHOWN = 5
"""How many scopes, rules and links are shown."""


def step_time(placement: AnyMap, view: View) -> list[str]:
    """Return the lines about the time of a step; nothing if it was not forecast.

    Args:
        placement: The map, of any version.
        view: The settings of the view, which colour the heads of tables.
    """
    time = placement.time
    if time is None:
        return []
    lines = [time_line(placement.mode.update, time)]
    for title, parts in (("critical path by scope", time.by_scope), ("by rule", time.by_rule)):
        if parts:
            lines += _parts(title, parts, time.seconds, view)
    links = list(islice(placement.busiest_links(), SHOWN))
    if links:
        rows = [("link", "bytes", "time", "busy")]
        rows += [
            (
                f"{each.from_device} -> {each.to_device}",
                size(each.bytes),
                duration(each.seconds),
                f"{each.busy:.0%}",
            )
            for each in links
        ]
        lines += headed(rows, view.ink)
    return lines


def time_line(update: str, time: MapTime | KindTime) -> str:
    """Return how long a step takes, and what that was forecast from, in words.

    Args:
        update: The mode of updates.
        time: The forecast.
    """
    each = "there is an update every" if update == "async" else "a step takes"
    return f"{each} {duration(time.seconds)}, {origin(time)}"


def origin(time: MapTime | KindTime) -> str:
    """Return what a forecast was made from, in words."""
    if time.estimate:
        return f"an estimate for the hardware `{time.source}`"
    if time.measured > 1 - _ALL:
        return f"forecast by {time.source}"
    return f"forecast by {time.source}, which has {time.measured:.0%} of the time of its ops"


_ALL = 0.005
"""A share of ops that were not measured which is not worth a word."""


def _parts(title: str, parts: Sequence[MapPathPart], whole: float, view: View) -> list[str]:
    rows = [(title, "time", "of step")]
    rows += [(each.name, duration(each.seconds), share(each.seconds, whole)) for each in parts[:SHOWN]]
    return headed(rows, view.ink)
