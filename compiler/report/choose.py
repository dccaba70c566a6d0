"""Choose ops of a placement map by glob."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import translate

from compiler.mapping.records import MapOp, PlacementMap
from compiler.report.scopes import clone_scopes, inner_name


def matcher(glob: str) -> Callable[[str], bool]:
    """Return a test of names: a glob matches a whole name, or the whole name of a scope around it."""
    glob = glob.removesuffix("/")
    pattern = re.compile(f"(?:{translate(glob)})|(?:{translate(f'{glob}/*')})")
    return lambda name: pattern.match(name) is not None


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
