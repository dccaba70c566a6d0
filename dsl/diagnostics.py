"""What is wrong with a spec, as records: rendering is elsewhere, and so is the wording of each code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Literal

from attrs import field, frozen

from dsl.source import Span

MAX_SHOWN = 50


class Severity(Enum):
    """How bad a diagnostic is; only an error makes a spec invalid."""

    ERROR = "error"
    WARNING = "warning"


@frozen
class Label:
    """A second place that a diagnostic points at, and what is to be seen there."""

    span: Span
    text: str


@frozen
class Edit:
    """Replace the text of `span` by `replacement`."""

    span: Span
    replacement: str


@frozen
class Fix:
    """Edits that mend the spec; `safe` ones cannot change what a correct spec means."""

    title: str
    edits: tuple[Edit, ...]
    applicability: Literal["safe", "unsafe"] = "unsafe"


@frozen
class Diagnostic:
    """One thing that is wrong.

    `message` says what is wrong, `span` is the smallest stretch that shows it (none for a fault
    that no spec line causes), `text` stands beside the marker, `notes` give facts and only `help`
    says what to do. `file` is the file that a fault without a span is about.
    """

    code: str
    name: str
    message: str
    span: Span | None = None
    text: str = ""
    severity: Severity = Severity.ERROR
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    help: str | None = None
    fix: Fix | None = None
    file: str | None = None

    @property
    def path(self) -> str | None:
        """The file that it is shown in."""
        return self.span.source.name if self.span is not None else self.file

    @property
    def is_error(self) -> bool:
        """Whether this alone makes the spec invalid."""
        return self.severity is Severity.ERROR


def _kept(found: Iterable[Diagnostic]) -> dict[Diagnostic, None]:
    return dict.fromkeys(found)


@frozen
class Diagnostics:
    """A collector that the stages of reading a spec add to; one cause is kept once."""

    _found: dict[Diagnostic, None] = field(factory=dict, alias="found", converter=_kept)

    def add(self, diagnostic: Diagnostic) -> None:
        """Keep `diagnostic` unless an equal one is there already."""
        self._found[diagnostic] = None

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Keep each of `diagnostics`."""
        for diagnostic in diagnostics:
            self.add(diagnostic)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def has_errors(self) -> bool:
        """Whether any of them is an error."""
        return any(each.is_error for each in self._found)


class SpecError(Exception):
    """A spec cannot be used; `diagnostics` say why, each with its place."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(f"{each.code}: {each.message}" for each in self.diagnostics))


class RunError(Exception):
    """A run cannot go on for a reason outside the spec: data, a checkpoint, a task, a loss not finite.

    `diagnostic` is of the range TFD7xx.
    """

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(f"{diagnostic.code}: {diagnostic.message}")
