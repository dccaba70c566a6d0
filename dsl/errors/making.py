"""Functions with which the factories make diagnostics. The name of a code comes from the table of codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    return Diagnostic(code, message, span, text, Severity.ERROR, labels, notes, help, fix)


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
    """Make a warning.

    Args:
        code: The code, such as `TFD603`.
        message: What is wrong, in one line.
        span: The place of what is wrong in the spec; None if it is not known.
        text: What is written at the span; it may be empty.
        labels: Notes at other places of the spec.
        notes: What else is known, a sentence each.
        help: What to do about it; None if there is no advice.
        fix: Edits that put it right; None if there are none.
    """
    return Diagnostic(code, message, span, text, Severity.WARNING, labels, notes, help, fix)


def replacing(title: str, span: Span, replacement: str, *, safe: bool = False) -> Fix:
    """Make a fix with a single edit.

    Args:
        title: What the fix does, as an editor shows it.
        span: The characters that are replaced.
        replacement: The text in their place; an empty one removes them.
        safe: Whether the fix cannot change what is meant, so that it may be made without asking.
    """
    return Fix(title, (Edit(span, replacement),), "safe" if safe else "unsafe")
