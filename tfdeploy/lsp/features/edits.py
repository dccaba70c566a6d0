"""Edits of a document: the fixes of diagnostics, all safe fixes together, and the one style of `fmt`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from attrs import evolve
from lsprotocol import types

from dsl.diagnostics import edited, safe_fixes
from dsl.source import Source
from grammar.format import format_text
from tfdeploy.lsp.diagnostics import Findings, examine, shown_as
from tfdeploy.lsp.documents import Document, Documents, absolute
from tfdeploy.lsp.settings import FIX_ALL, Settings

ROUNDS = 10
"""How often fixes are applied and the text is read again, as `check --fix` does."""


def code_actions(
    findings: Findings,
    document: Document,
    range_: types.Range,
    only: Sequence[types.CodeActionKind | str] | None,
    documents: Documents,
    settings: Settings,
) -> list[types.CodeAction]:
    """Return the fixes of the diagnostics in a range, and the action that applies all safe ones."""
    actions = []
    if _wanted(types.CodeActionKind.QuickFix.value, only):
        actions += list(_quick_fixes(findings, document, range_, documents))
    if _wanted(FIX_ALL, only):
        text = fixed(document, findings.document, documents, settings)
        if text != document.source.text:
            edit = types.WorkspaceEdit({document.uri: difference(document, text)})
            actions.append(types.CodeAction("Apply all safe fixes", FIX_ALL, edit=edit))
    return actions


def _wanted(kind: str, only: Sequence[types.CodeActionKind | str] | None) -> bool:
    """Whether a kind of action is asked for; a kind stands for those below it too."""
    if only is None:
        return True
    asked = [each.value if isinstance(each, types.CodeActionKind) else each for each in only]
    return any(not each or kind == each or kind.startswith(f"{each}.") for each in asked)


def _quick_fixes(
    findings: Findings, own: Document, range_: types.Range, documents: Documents
) -> Iterator[types.CodeAction]:
    start, end = own.positions.offset(range_.start), own.positions.offset(range_.end)
    for each in findings.diagnostics:
        span = each.span
        if each.fix is None or not each.fix.edits or span is None:
            continue
        if absolute(span.source.name) == absolute(own.path) and span.start <= end and start <= span.end:
            yield types.CodeAction(
                each.fix.title[:1].upper() + each.fix.title[1:],
                types.CodeActionKind.QuickFix,
                diagnostics=[shown_as(each, documents)],
                is_preferred=True,
                edit=documents.edits((edit.span, edit.replacement) for edit in each.fix.edits),
            )


def fixed(document: Document, spec: Document, documents: Documents, settings: Settings) -> str:
    """Return the text of a document after all safe fixes in it, as `check --fix` leaves it."""
    own = absolute(document.path)
    text = document.source.text
    for _ in range(ROUNDS):
        now = evolve(document, text=text) if absolute(spec.path) == own else spec
        found = examine(now, {**documents.texts, own: text}, settings).diagnostics
        fixes = safe_fixes(found, lambda source: absolute(source.name) == own)
        if not fixes:
            break
        text = edited(text, [edit for fix in fixes for edit in fix.edits])
    return text


def formatting(document: Document, range_: types.Range | None = None) -> list[types.TextEdit]:
    """Return the edits that put a document into the one style; raises SpecError if it cannot be parsed."""
    edits = difference(document, format_text(Source(document.path, document.source.text)))
    if range_ is None:
        return edits
    first, last = range_.start.line, _last_line(range_)
    return [each for each in edits if each.range.start.line <= last and _last_line(each.range) >= first]


def _last_line(range_: types.Range) -> int:
    """Return the last line of which a range has something, or in which it is if it is empty."""
    start, end = range_.start, range_.end
    return end.line - (end.character == 0 and end.line > start.line)


def difference(document: Document, text: str) -> list[types.TextEdit]:
    """Return edits of whole lines that make a document have a text."""
    before, after = document.source.text.splitlines(keepends=True), text.splitlines(keepends=True)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    edits = []
    for kind, low, high, first, last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            range_ = document.positions.range(starts[low], starts[high])
            edits.append(types.TextEdit(range_, "".join(after[first:last])))
    return edits
