"""The placement map in a terminal: a headline, a table of devices, and a table of scopes and devices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from compiler.figures import duration, gathered, plural, ranges, share, size
from compiler.kinds.records.kind_map import AnyMap, KindTime
from compiler.mapping.records import MapClone
from compiler.mapping.step_time import MapPathPart, MapTime
from compiler.report import refs
from compiler.report.comparison.changes import change_lines
from compiler.report.comparison.compare import Change
from compiler.report.table import headed
from compiler.report.text.device_table import device_table, fullness
from compiler.report.text.matrix import matrix
from compiler.report.view import View

MISPLACED_SHOWN = 10
"""More misplaced ops than this are listed by scope."""


def terminal_map(placement: AnyMap, view: View) -> str:
    """Return the map as text, in lines of at most `view.width` characters unless names are longer."""
    blocks = [
        headline(placement),
        device_table(placement, view),
        fullness(placement, view),
        step_time(placement, view),
        assumptions(placement),
        matrix(placement, view),
        misplaced(placement, view),
    ]
    return "\n".join("".join(f"{line}\n" for line in block) for block in blocks if block)


def headline(placement: AnyMap) -> list[str]:
    """Return a few lines that say what the map is of."""
    mode = placement.mode
    counts = plural(placement.op_count, "op"), plural(len(placement.variables_like), "variable")
    workers = placement.workers
    listed = next((each.task for each in workers if each.listed), None)
    whose = () if listed is None else (f"{plural(len(workers), 'worker')}, of which {listed} is listed",)
    lines = [
        f"{placement.spec.path}: {mode.update}, {mode.replication}, {mode.aggregate}, {mode.reduce}",
        ", ".join((*counts, *whose, f"TensorFlow {placement.tensorflow}")),
    ]
    alike = gathered(((len(each.devices), each.batch), each) for each in placement.clones)
    return lines + [_clones(clones, *both) for both, clones in alike.items()]


def _clones(clones: Sequence[MapClone], members: int, batch: int) -> str:
    """Return where clones are that have equally many devices and examples each."""
    used = list(dict.fromkeys(device for clone in clones for device in clone.devices))
    several = len(clones) > 1
    return (
        f"{'clones' if several else 'clone'} {ranges(each.index for each in clones)}"
        f" on {refs.label(used)}{f' in groups of {members}' if members > 1 else ''},"
        f" {plural(batch, 'example')}{' each' if several else ''}"
    )


def assumptions(placement: AnyMap) -> list[str]:
    """Return lines about the sizes that the forecasts assume."""
    return [
        f"forecasts assume the size {each.size:,} for axis {each.axis} of `{each.input}` ({each.source})"
        for each in placement.assumptions
    ]


def misplaced(placement: AnyMap, view: View) -> list[str]:
    """Return lines about the ops that are not where they were requested; nothing before a step has run."""
    ran = placement.ran
    if not ran:
        return []
    ops = placement.misplaced
    if not ops:
        return [f"{plural(ran, 'op')} ran, each where it was asked to be"]
    lines = [view.ink(f"{ran:,} ops ran, {len(ops):,} of them elsewhere than asked", "red")]
    if len(ops) <= MISPLACED_SHOWN:
        return lines + [f"  {op.name}: {op.requested} -> {op.assigned}" for op in ops]
    moves = [
        Change(each.op.name, each.own_name, each.op.clone, each.devices, (each.op.assigned or "",))
        for each in placement.counted(misplaced=True)
    ]
    return [*lines, *change_lines(moves, MISPLACED_SHOWN), "--ops --only-misplaced lists each of them"]


SHOWN = 5
"""How many scopes, rules and links are shown."""


def step_time(placement: AnyMap, view: View) -> list[str]:
    """Return the lines about the time of a step; nothing if it was not forecast."""
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
    """Return how long a step takes, and what that was forecast from, in words."""
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
