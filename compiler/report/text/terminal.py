"""The placement map in a terminal: a headline, a table of devices, and a table of scopes and devices."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.figures import plural, ranges
from compiler.kinds.records.kind_map import AnyMap
from compiler.mapping.records import MapClone
from compiler.report import refs
from compiler.report.comparison.changes import change_lines
from compiler.report.comparison.compare import Change
from compiler.report.text.device_table import device_table
from compiler.report.text.fullness import fullness
from compiler.report.text.matrix import matrix
from compiler.report.text.step_time import step_time
from compiler.report.view import View
from dsl.gathering import gathered

MISPLACED_SHOWN = 10
"""More misplaced ops than this are listed by scope."""


def terminal_map(placement: AnyMap, view: View) -> str:
    """Return the map as text, in lines of at most `view.width` characters unless names are longer.

    Args:
        placement: The map, of any version.
        view: The settings of the view.
    """
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
    """Return lines about the ops that are not where they were requested; nothing before a step has run.

    Args:
        placement: The map.
        view: The settings of the view, which colour the first line.
    """
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
