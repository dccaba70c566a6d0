"""A table of scopes and devices: the number of ops of each scope on each device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.figures import count
from compiler.mapping.records import PlacementMap
from compiler.report import refs, scopes
from compiler.report.choose import choose_ops
from compiler.report.columns import Group, first_that_fits
from compiler.report.scopes import Scope
from compiler.report.table import GAP, shorten, table, width_of
from compiler.report.view import View

SCREEN = 40
"""The most rows if no depth is asked for."""

NARROWEST = 24
"""The characters that a scope's name has at least, however many devices there are."""

Row = tuple[int, Scope]


def matrix(placement: PlacementMap, view: View) -> list[str]:
    """Return the lines of the table of the ops that `view` chooses, by the devices asked for."""
    ops = choose_ops(placement, view.glob, only_misplaced=view.only_misplaced)
    if not ops:
        return [view.nothing()]
    root = scopes.tree_of(ops, scopes.op_name if view.every_clone else scopes.fold(placement))
    depth = fitting_depth(root) if view.depth is None else view.depth
    shown = list(root.walk(depth))
    devices = [each.ref for each in placement.devices if root.counts[each.ref]]
    groups = _columns(devices, shown, root, view)
    chosen = view.glob is not None or view.only_misplaced
    return [*_lines(shown, root, groups, view), *_remarks(placement, devices, root, depth, chosen=chosen)]


def fitting_depth(root: Scope) -> int:
    """Return the greatest depth whose rows fit a screen, at least 1."""
    depth, deepest = 1, root.depth
    while depth < deepest and sum(1 for _ in root.walk(depth + 1)) <= SCREEN:
        depth += 1
    return depth


def _columns(devices: Sequence[str], shown: Sequence[Row], root: Scope, view: View) -> tuple[Group, ...]:
    """Return the columns: each device if there is room, else several combined."""
    counted = [scope for _, scope in shown] + [root]
    label = max((len(_label(row)) for row in shown), default=0)
    room = view.width - min(NARROWEST, label) - len(GAP)
    return first_that_fits(
        devices,
        lambda device: tuple(scope.counts[device] for scope in counted),
        lambda groups: width_of(_cells(groups, counted)) <= room,
    )


def _lines(shown: Sequence[Row], root: Scope, groups: Sequence[Group], view: View) -> list[str]:
    cells = _cells(groups, [scope for _, scope in shown] + [root])
    room = max(NARROWEST, view.width - width_of(cells) - len(GAP))
    labels = ["scope", "", *(shorten(_label(row), room) for row in shown), "all"]
    rows = [(label, *row) for label, row in zip(labels, cells, strict=True)]
    if not any(rows[1]):
        del rows[1]
    lines = table(rows)
    lines[0] = view.ink(lines[0], "bold")
    return lines


def _cells(groups: Sequence[Group], counted: Sequence[Scope]) -> list[tuple[str, ...]]:
    """Return the two rows of the head and a row for each scope, without the names of the scopes."""
    head = [tuple(each.label for each in groups), tuple(each.note for each in groups)]
    return head + [tuple(count(_figure(each, scope)) for each in groups) for scope in counted]


def _figure(group: Group, scope: Scope) -> int:
    if group.figures == "each":
        return scope.counts[group.devices[0]]
    return sum(scope.counts[each] for each in group.devices)


def _label(row: Row) -> str:
    level, scope = row
    return f"{'  ' * level}{scope.name}/"


def _remarks(
    placement: PlacementMap, devices: Sequence[str], root: Scope, depth: int, *, chosen: bool
) -> Iterator[str]:
    """Return notes on what the table leaves out."""
    others = [each for each in placement.devices if each.ref not in devices]
    alike = [each.ref for each in others if placement.workers and each.ops]
    idle = [each.ref for each in others if each.ref not in alike]
    if idle:
        yield f"{'none of these' if chosen else 'no ops'} on {refs.label(idle)}"
    if alike and not chosen:
        yield f"{refs.label(alike)}: the same as on the worker that is listed"
    if depth < root.depth:
        yield f"depth {depth} of {root.depth}; --depth N shows more, --ops every op"
