"""TFD758 and TFD759: placement maps in files, and names of what is on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors.making import error
from dsl.errors.words import in_full, options, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.diagnostics import Diagnostic


def bad_map(path: str, reason: str) -> Diagnostic:
    """Report a file that is not a placement map; `reason` follows the name of the file.

    Args:
        path: The file.
        reason: What is wrong with it, as the end of a sentence that begins with `it`.
    """
    return error(
        "TFD758",
        f"{in_full(path)} is not a placement map: it {reason}",
        None,
        help="write one with `tfdeploy plan SPEC --json`, or give the spec itself",
    )


def nothing_named(name: str, nearest: Sequence[str]) -> Diagnostic:
    """Report a name of nothing in a graph.

    Args:
        name: The name, as it was asked for.
        nearest: The names in the graph that are most like it, the nearest first.
    """
    return error(
        "TFD759",
        f"{quoted(name)} names no op or variable",
        None,
        notes=options("the nearest names are", nearest),
    )
