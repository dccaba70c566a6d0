"""TFD755 to TFD757 and the warnings about forecasts of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors.making import error, warning
from dsl.errors.words import in_full

if TYPE_CHECKING:
    from dsl.diagnostics import Diagnostic
    from dsl.source import Span


def bad_profile(path: str, reason: str) -> Diagnostic:
    """Report a profile that cannot be used; `reason` follows the name of the file.

    Args:
        path: The file.
        reason: What is wrong with it, as the end of a sentence that begins with `it`.
    """
    return error(
        "TFD755",
        f"{in_full(path)} is not a profile of a machine: it {reason}",
        None,
        help="write a new one with `tfdeploy calibrate`",
    )


def bad_trace(path: str, reason: str) -> Diagnostic:
    """Report a file with which a forecast cannot be compared; `reason` follows the name of the file.

    Args:
        path: The file.
        reason: What is wrong with it, as the end of a sentence that begins with `it`.
    """
    return error(
        "TFD757",
        f"{in_full(path)} is not the trace of a run: it {reason}",
        None,
        help="run the spec with `--profile`, and give `profile/trace.json` of the run directory",
    )


def link_not_measured(reason: str) -> Diagnostic:
    """Report that two processes of this machine could not work on a step, with the reason as a sentence."""
    return error(
        "TFD756",
        "the link between two processes of this machine cannot be measured",
        None,
        notes=(reason,),
        help="end what keeps these processes from starting or from reaching each other, and calibrate again",
    )


def link_without_effect(span: Span | None) -> Diagnostic:
    """Warn of `link` in a spec without GPUs and without jobs."""
    return warning(
        "TFD516",
        "`link` has no effect",
        span,
        text="no tensor is copied between these devices",
        notes=("CPU devices of one process hand tensors to each other without a copy",),
        help="leave it out",
    )
