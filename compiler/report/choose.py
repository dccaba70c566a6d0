"""Choose ops of a placement map by glob."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import translate

from compiler.kinds.expanding.counted import Counted, chosen_ops, counted_ops, single
from compiler.kinds.expanding.members import Sought
from compiler.kinds.records.kind_map import AnyMap
from compiler.mapping.records import MapOp, PlacementMap
from compiler.report.scopes import clone_scopes, inner_name


def matcher(glob: str) -> Callable[[str], bool]:
    """Return a test of names: a glob matches a whole name, or the whole name of a scope around it."""
    glob = glob.removesuffix("/")
    pattern = re.compile(f"(?:{translate(glob)})|(?:{translate(f'{glob}/*')})")
    return lambda name: pattern.match(name) is not None


def choose_counted(
    placement: AnyMap, glob: str | None = None, *, only_misplaced: bool = False
) -> list[Counted]:
    """Return ops of a map of any version, those of a kind together.

    Args:
        placement: The map.
        glob: A glob of names, with or without the scope of a clone; None chooses all ops.
        only_misplaced: Whether to leave out ops that are where they were asked to be, and ops that have not
            run.
    """
    if isinstance(placement, PlacementMap):
        return [single(op) for op in choose_ops(placement, glob, only_misplaced=only_misplaced)]
    if only_misplaced:
        return []  # no step of it has run
    if glob is None:
        return list(counted_ops(placement))
    return list(chosen_ops(placement, Sought.of_glob(glob, matcher(glob))))


def choose_ops(
    placement: PlacementMap, glob: str | None = None, *, only_misplaced: bool = False
) -> tuple[MapOp, ...]:
    """Return ops of a map.

    Args:
        placement: The map.
        glob: Chooses ops whose name in the graph, or in the tower, matches; None for all.
        only_misplaced: Whether to choose misplaced ops only.
    """
    ops: Iterable[MapOp] = placement.misplaced if only_misplaced else placement.ops
    if glob is None:
        return tuple(ops)
    matches, scopes = matcher(glob), clone_scopes(placement)
    return tuple(op for op in ops if matches(op.name) or matches(inner_name(op, scopes)))
