"""A table of scopes and devices: the number of ops of each scope on each device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.figures import count, gathered
from compiler.kinds.records.kind_map import AnyMap
from compiler.report import refs
from compiler.report.refs import Group, first_that_fits
from compiler.report.scopes import FOLD_FROM, CountedScopes, Scope, folded
from compiler.report.table import GAP, headed, shorten, width_of
from compiler.report.view import View

SCREEN = 40
"""The most rows if no depth is asked for."""

NARROWEST = 24
"""The characters that a scope's name has at least, however many devices there are."""

Row = tuple[int, Scope]


def matrix(placement: AnyMap, view: View) -> list[str]:
    """Return the lines of the table of the ops that `view` chooses, by the devices asked for.

    Args:
        placement: The map. One by kinds is expanded if every clone is to be shown.
        view: What is shown.
    """
    if view.every_clone:
        placement = placement.expanded()
    ops = view.chosen(placement)
    if not ops:
        return [view.nothing()]
    fold_from = len(placement.clones) + 1 if view.every_clone else FOLD_FROM
    tree = CountedScopes.of(ops, folded(placement, fold_from))
    root = tree.root
    depth = fitting_depth(root) if view.depth is None else view.depth
    shown = list(root.walk(depth))
    everything = placement.devices
    used = [each.ref for each in everything if tree.number(root, each.ref)]
    groups = _columns(used, shown, tree, view)
    others = [each for each in everything if each.ref not in set(used)]
    has_workers = bool(placement.workers)
    alike = [each.ref for each in others if has_workers and each.ops]
    chosen = view.glob is not None or view.only_misplaced
    idle = [each.ref for each in others if each.ref not in set(alike)]
    return [*_lines(shown, tree, groups, view), *_remarks(alike, idle, root, depth, chosen=chosen)]


def fitting_depth(root: Scope) -> int:
    """Return the greatest depth whose rows fit a screen, at least 1."""
    depth, deepest = 1, root.depth
    while depth < deepest and sum(1 for _ in root.walk(depth + 1)) <= SCREEN:
        depth += 1
    return depth


def _columns(
    devices: Sequence[str], shown: Sequence[Row], tree: CountedScopes, view: View
) -> tuple[Group, ...]:
    """Return the columns: each device if there is room, else several combined."""
    counted = [scope for _, scope in shown] + [tree.root]
    label = max((len(_label(row)) for row in shown), default=0)
    room = view.width - min(NARROWEST, label) - len(GAP)
    known: dict[tuple[str, ...], tuple[int, ...]] = {}

    def figures(device: str) -> tuple[int, ...]:
        sort = tree.sort_of(device)
        if sort not in known:
            known[sort] = tuple(tree.number(scope, device) for scope in counted)
        return known[sort]

    def fits(groups: tuple[Group, ...]) -> bool:
        labels = sum(len(each.label) for each in groups)  # no column is narrower than its label
        return labels <= room and width_of(_cells(groups, counted, tree)) <= room

    return first_that_fits(devices, figures, fits)


def _lines(shown: Sequence[Row], tree: CountedScopes, groups: Sequence[Group], view: View) -> list[str]:
    cells = _cells(groups, [scope for _, scope in shown] + [tree.root], tree)
    room = max(NARROWEST, view.width - width_of(cells) - len(GAP))
    labels = ["scope", "", *(shorten(_label(row), room) for row in shown), "all"]
    rows = [(label, *row) for label, row in zip(labels, cells, strict=True)]
    if not any(rows[1]):
        del rows[1]
    return headed(rows, view.ink)


def _cells(groups: Sequence[Group], counted: Sequence[Scope], tree: CountedScopes) -> list[tuple[str, ...]]:
    """Return the two rows of the head and a row for each scope, without the names of the scopes."""
    head = [tuple(each.label for each in groups), tuple(each.note for each in groups)]
    sorts = [_sorts(each, tree) for each in groups]
    return head + [tuple(count(_figure(each, scope, tree)) for each in sorts) for scope in counted]


def _sorts(group: Group, tree: CountedScopes) -> list[tuple[str, int]]:
    """Return devices of which a group has the figures, one for all that are alike, with their number."""
    if group.figures == "each":
        return [(group.devices[0], 1)]
    sorts = gathered((tree.sort_of(ref), ref) for ref in group.devices)
    return [(alike[0], len(alike)) for alike in sorts.values()]


def _figure(sorts: Sequence[tuple[str, int]], scope: Scope, tree: CountedScopes) -> int:
    return sum(tree.number(scope, ref) * number for ref, number in sorts)


def _label(row: Row) -> str:
    level, scope = row
    return f"{'  ' * level}{scope.name}/"


def _remarks(
    alike: Sequence[str], idle: Sequence[str], root: Scope, depth: int, *, chosen: bool
) -> Iterator[str]:
    """Return notes on what the table leaves out."""
    if idle:
        yield f"{'none of these' if chosen else 'no ops'} on {refs.label(idle)}"
    if alike and not chosen:
        yield f"{refs.label(alike)}: the same as on the worker that is listed"
    if depth < root.depth:
        yield f"depth {depth} of {root.depth}; --depth N shows more, --ops every op"
