"""TFD752 and TFD753: output files that would overwrite something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors.making import error
from dsl.errors.words import in_full

if TYPE_CHECKING:
    from dsl.diagnostics import Diagnostic
    from dsl.source import Span


def output_is_read(output: str, read: str, span: Span | None = None) -> Diagnostic:
    """Report an output that would replace a file which is read.

    Args:
        output: The path of the output.
        read: The path under which the same file is read.
        span: The place of the output in the spec; None if it is not known.
    """
    notes = () if read == output else (f"it is the same file as {in_full(read)}",)
    return error(
        "TFD752",
        f"{in_full(output)} is read by this command, and would be overwritten",
        span,
        notes=notes,
        help="write to another file",
    )


def foreign_output(output: str) -> Diagnostic:
    """Report an output that would replace a file which this tool has not written."""
    return error(
        "TFD753",
        f"{in_full(output)} exists, and was not written by this command",
        None,
        help="write to another file, or replace this one with `--force`",
    )


def never_replaced(output: str) -> Diagnostic:
    """Report a file that is in the way of a command that only writes new files."""
    return error(
        "TFD753",
        f"{in_full(output)} exists, and this command replaces no files",
        None,
        help="give the spec another name or folder",
    )
