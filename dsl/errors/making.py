"""Functions with which the factories make diagnostics. The name of a code comes from the table of codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.codes import name_of
from dsl.diagnostics import Diagnostic, Edit, Fix, Severity

if TYPE_CHECKING:
    from dsl.diagnostics import Label
    from dsl.source import Span


def error(
    code: str,
    message: str,
    span: Span | None,
    *,
    text: str = "",
    labels: tuple[Label, ...] = (),
    notes: tuple[str, ...] = (),
    help: str | None = None,  # noqa: A002 the field's name
    fix: Fix | None = None,
) -> Diagnostic:
    """Make an error.

    Args:
        code: The number of the code.
        message: What is wrong.
        span: The place, or None if there is none.
        text: The text beside the marker of the place.
        labels: Other places that help to understand the fault.
        notes: Facts about the fault.
        help: What to do.
        fix: Edits that correct the spec.
    """
    return Diagnostic(code, name_of(code), message, span, text, Severity.ERROR, labels, notes, help, fix)


def warning(
    code: str,
    message: str,
    span: Span | None,
    *,
    text: str = "",
    labels: tuple[Label, ...] = (),
    notes: tuple[str, ...] = (),
    help: str | None = None,  # noqa: A002 the field's name
    fix: Fix | None = None,
) -> Diagnostic:
    """Make a warning; the arguments are those of `error`."""
    return Diagnostic(code, name_of(code), message, span, text, Severity.WARNING, labels, notes, help, fix)


def replacing(title: str, span: Span, replacement: str, *, safe: bool = False) -> Fix:
    """Make a fix with a single edit."""
    return Fix(title, (Edit(span, replacement),), "safe" if safe else "unsafe")
