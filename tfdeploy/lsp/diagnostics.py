"""Diagnostics as the protocol has them: those of `check`, for the document and the files that it includes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from attrs import frozen
from lsprotocol import types

import grammar
from compiler.checks import diagnose
from dsl.codes import CODES
from dsl.diagnostics import Diagnostic
from tfdeploy.lsp.documents import Document, Documents, absolute
from tfdeploy.lsp.names import Names, names_of
from tfdeploy.lsp.settings import Settings

SOURCE = "tfdeploy"
PAGES = Path(__file__).parents[1] / "pages"
_UNUSED = ("TFD601", "TFD602", "TFD604", "TFD605", "TFD516")
"""Codes of what has no effect; editors show such text in grey."""


@frozen(eq=False)
class Findings:
    """What reading a document gave."""

    document: Document
    texts: Mapping[str, str]
    reading: grammar.Reading
    diagnostics: tuple[Diagnostic, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The absolute paths of the files that were read."""
        return tuple(absolute(each.name) for each in self.reading.sources if each.name != "--set")

    @cached_property
    def names(self) -> Names:
        """The names in the syntax trees."""
        return names_of(self.reading.trees)

    def is_of(self, texts: Mapping[str, str]) -> bool:
        """Whether the open texts among the files that were read are still the same."""
        return all(self.texts.get(path) == texts.get(path) for path in self.paths)


def examine(document: Document, texts: Mapping[str, str], settings: Settings) -> Findings:
    """Read a document and check it, as `check` does."""
    reading = grammar.read(
        document.path,
        settings.overrides,
        text=document.source.text,
        texts=texts,
        allow_python=settings.allow_python,
    )
    return Findings(document, texts, reading, tuple(diagnose(reading)))


def by_file(findings: Findings, documents: Documents) -> dict[str, list[types.Diagnostic]]:
    """Return the diagnostics of the protocol by the addresses of the files that they are shown in.

    Every file of the spec is among them, so that what was shown and is mended disappears.
    """
    own = findings.document.uri
    read = [each for each in findings.reading.sources if each.name != "--set"]
    shown: dict[str, list[types.Diagnostic]] = {
        own: [],
        **{documents.of_source(each).uri: [] for each in read},
    }
    for each in findings.diagnostics:
        span = each.span
        uri = own if span is None or span.source.name == "--set" else documents.of_source(span.source).uri
        shown.setdefault(uri, []).append(shown_as(each, documents))
    return shown


def shown_as(diagnostic: Diagnostic, documents: Documents) -> types.Diagnostic:
    """Return a diagnostic as the protocol has it; one without a place is at the start of its document."""
    lines = [diagnostic.message, *(f"note: {note}" for note in diagnostic.notes)]
    if diagnostic.help:
        lines.append(f"help: {diagnostic.help}")
    page = PAGES / f"{diagnostic.code}.md"
    return types.Diagnostic(
        _range(diagnostic, documents),
        "\n".join(lines),
        types.DiagnosticSeverity.Error if diagnostic.is_error else types.DiagnosticSeverity.Warning,
        diagnostic.code,
        types.CodeDescription(page.as_uri()) if diagnostic.code in CODES and page.exists() else None,
        SOURCE,
        [types.DiagnosticTag.Unnecessary] if diagnostic.code in _UNUSED else None,
        _related(diagnostic, documents) or None,
    )


def _range(diagnostic: Diagnostic, documents: Documents) -> types.Range:
    span = diagnostic.span
    if span is None or span.source.name == "--set":
        return types.Range(types.Position(0, 0), types.Position(0, 0))
    return documents.location(span).range


def _related(diagnostic: Diagnostic, documents: Documents) -> Sequence[types.DiagnosticRelatedInformation]:
    return [
        types.DiagnosticRelatedInformation(documents.location(each.span), each.text or "here")
        for each in diagnostic.labels
        if each.span.source.name != "--set"
    ]
