"""The records of diagnostics. `dsl/formats/` renders them, and `dsl/errors/` has the wording of each code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Literal

from attrs import field, frozen
from attrs.converters import optional

from dsl.codes import name_of
from dsl.source import Source, Span

MAX_SHOWN = 50

LONGEST = 5000
"""No text of a diagnostic is longer: it can quote a path, but not the whole of a cell of megabytes."""


def _bounded(text: str) -> str:
    """Return a text, or its start and its end if it is longer than the texts of diagnostics are."""
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} ... {text[-half:]}"


def _all_bounded(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(_bounded, texts))


class Severity(Enum):
    """How serious a diagnostic is. Only an error makes a spec invalid."""

    ERROR = "error"
    WARNING = "warning"


@frozen
class Label:
    """A second place that a diagnostic points at.

    Attributes:
        span: The place.
        text: What there is to see at the place.
    """

    span: Span
    text: str = field(converter=_bounded)


@frozen
class Edit:
    """One replacement in the source text.

    Attributes:
        span: The text to be replaced.
        replacement: The new text.
    """

    span: Span
    replacement: str


@frozen
class Fix:
    """Edits that correct the spec.

    Attributes:
        title: What the fix does, in a few words.
        edits: The replacements; they are applied together.
        applicability: `safe` if the edits cannot change the meaning of a correct spec, else `unsafe`.
    """

    title: str
    edits: tuple[Edit, ...]
    applicability: Literal["safe", "unsafe"] = "unsafe"

    @classmethod
    def replacing(cls, title: str, span: Span, replacement: str, *, safe: bool = False) -> Fix:
        """Return a fix with a single edit.

        Args:
            title: What the fix does, as an editor shows it.
            span: The characters that are replaced.
            replacement: The text in their place; an empty one removes them.
            safe: Whether the fix cannot change what is meant, so that it may be made without asking.
        """
        return cls(title, (Edit(span, replacement),), "safe" if safe else "unsafe")


@frozen
class Diagnostic:
    """One thing that is wrong.

    Attributes:
        code: The number of its kind, such as `TFD101`.
        message: What is wrong.
        span: The smallest part of the text that shows the fault, or None if no line of the spec causes it.
        text: The text beside the marker of `span`.
        severity: Error or warning.
        labels: Other places that help to understand the fault.
        notes: Facts about the fault.
        help: What to do.
        fix: Edits that correct the spec, if there are any.
        file: The file that a fault without a span is about.
    """

    code: str
    message: str = field(converter=_bounded)
    span: Span | None = None
    text: str = field(default="", converter=_bounded)
    severity: Severity = Severity.ERROR
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = field(default=(), converter=_all_bounded)
    help: str | None = field(default=None, converter=optional(_bounded))
    fix: Fix | None = None
    file: str | None = None

    @property
    def name(self) -> str:
        """The name of its kind in kebab case."""
        return name_of(self.code)

    @property
    def path(self) -> str | None:
        """The name of the file that the diagnostic is shown for."""
        return self.span.source.name if self.span is not None else self.file

    @property
    def is_error(self) -> bool:
        """Whether this diagnostic makes the spec invalid."""
        return self.severity is Severity.ERROR


class SpecError(Exception):
    """Raised if a spec cannot be used.

    Attributes:
        diagnostics: The reasons, each with its place.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(f"{each.code}: {each.message}" for each in self.diagnostics))


class RunError(Exception):
    """Raised if a run cannot go on for a reason outside the spec, such as damaged data or a lost task.

    Attributes:
        diagnostic: The reason; its code is in the range TFD7xx.
    """

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(f"{diagnostic.code}: {diagnostic.message}")


# --- applying fixes to texts ------------------------------------------------------------------------------


def safe_fixes(diagnostics: Iterable[Diagnostic], may_edit: Callable[[Source], bool]) -> tuple[Fix, ...]:
    """Return the safe fixes that can be applied together.

    Of fixes that touch the same part of a text, only the first is returned: the others are found when the
    text is read again. A fix is applied whole or not at all.

    Args:
        diagnostics: The diagnostics.
        may_edit: Whether a text may be edited.
    """
    taken: dict[Source, list[Edit]] = {}
    fixes = []
    for each in diagnostics:
        if each.fix is None or each.fix.applicability != "safe" or not each.fix.edits:
            continue
        edits = each.fix.edits
        if any(_overlaps(edit, taken.get(edit.span.source, [])) for edit in edits):
            continue
        if not all(may_edit(edit.span.source) for edit in edits):
            continue
        for edit in edits:
            taken.setdefault(edit.span.source, []).append(edit)
        fixes.append(each.fix)
    return tuple(fixes)


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return a text after some edits, none of which overlap.

    Args:
        text: The text for which the spans of the edits are.
        edits: The edits, in any order.
    """
    for edit in sorted(edits, key=lambda each: each.span.start, reverse=True):
        text = text[: edit.span.start] + edit.replacement + text[edit.span.end :]
    return text


def _overlaps(edit: Edit, others: list[Edit]) -> bool:
    """Whether `edit` touches what one of `others` does; two insertions at one place touch."""
    start, end = edit.span.start, edit.span.end
    return any(start <= other.span.end and other.span.start <= end for other in others)
