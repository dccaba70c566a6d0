"""How the factories of this package make a diagnostic: the name of a code comes from the table of codes."""

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
    """Make an error with `code`."""
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
    """Make a warning with `code`."""
    return Diagnostic(code, name_of(code), message, span, text, Severity.WARNING, labels, notes, help, fix)


def replacing(title: str, span: Span, replacement: str, *, safe: bool = False) -> Fix:
    """Make a fix of one edit."""
    return Fix(title, (Edit(span, replacement),), "safe" if safe else "unsafe")
