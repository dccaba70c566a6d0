"""Collects diagnostics without those that only follow from others, and joins those that have one cause."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TypeAlias

from attrs import evolve, field, frozen

from dsl.diagnostics import Diagnostic
from dsl.errors.wording import here_too
from dsl.source import Source, Span

MOST = 200
"""Reading stops after this many diagnostics, because a text of a megabyte can have a hundred thousand."""

MOST_TOKENS = 70_000
"""A spec has at most so many tokens in all of its files, so that it is read within two seconds."""

_OF_STRUCTURE = ("TFD20", "TFD301", "TFD4")
"""Codes of errors that can follow from misunderstood block boundaries."""


_OF_BRACKETS = frozenset({"TFD104", "TFD105"})
_OF_SYNTAX = _OF_BRACKETS | {"TFD102"}
_OF_ITEMS = frozenset({"TFD201", "TFD202", "TFD203", "TFD204", "TFD205"})
_PART = r"\n(?=[A-Za-z_])"
_OF_TOKENS = frozenset({"TFD101", "TFD102", "TFD103", "TFD106", "TFD109"})


class TooManyError(Exception):
    """Raised when a spec has more errors than it is useful to report."""


class Ranges:
    """Ranges of offsets in a text, sorted, with overlapping and adjacent ones joined."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Add the range from `start` to `end`."""
        low = bisect_left(self._ends, start)
        high = bisect_right(self._starts, end)
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high] = [start]
        self._ends[low:high] = [end]

    def touch(self, start: int, end: int) -> bool:
        """Whether any of the ranges overlaps the one from `start` to `end`."""
        at = bisect_right(self._ends, start)
        return at < len(self._starts) and self._starts[at] < end and start < self._ends[at]


@frozen
class Reports:
    """The diagnostics of one reading, without those that only follow from others."""

    found: dict[Diagnostic, None] = field(factory=dict)
    _tainted: dict[int, Ranges] = field(factory=dict, init=False)
    _distrusted: set[int] = field(factory=set, init=False)
    _tokens: dict[int, int] = field(factory=dict, init=False)

    @property
    def has_errors(self) -> bool:
        """Whether any of the diagnostics is an error."""
        return any(each.is_error for each in self.found)

    def add(self, diagnostic: Diagnostic) -> None:
        """Keep a diagnostic, unless it points into a tainted part or follows from guessed block boundaries.

        Raises:
            TooManyError: If as many diagnostics are kept as are useful.
        """
        span = diagnostic.span
        if span is not None:
            if self.is_tainted(span):
                return
            if id(span.source) in self._distrusted and diagnostic.code.startswith(_OF_STRUCTURE):
                return
        self.found[diagnostic] = None
        if len(self.found) >= MOST:
            raise TooManyError

    def left_for(self, source: Source) -> int:
        """Return how many tokens `source` may have beside the other texts of the spec."""
        return MOST_TOKENS - sum(count for key, count in self._tokens.items() if key != id(source))

    def count(self, source: Source, tokens: int) -> None:
        """Count the tokens of a text towards those that a spec may have."""
        self._tokens[id(source)] = tokens

    def thin(self, source: Source) -> None:
        """Keep one error of a line if the others may follow from it, and one error of each token.

        A string without an end makes the rest of its line meaningless, and an unexpected token makes what
        follows it unreliable. A bracket without a partner is also an unexpected token.
        """
        lonely = {each.span for each in self.found if each.code in _OF_BRACKETS}
        for each in [each for each in self.found if each.code == "TFD102" and each.span in lonely]:
            del self.found[each]
        lines: dict[int, list[Diagnostic]] = {}
        for each in self.found:
            if each.span is not None and each.span.source is source and each.code in _OF_TOKENS:
                lines.setdefault(each.span.begin.line, []).append(each)
        for found in lines.values():
            found.sort(key=lambda each: 0 if each.span is None else each.span.start)
            torn = [
                each for each in found if each.code == "TFD103" and each.span and each.span.text[0] == '"'
            ]
            unfitting = any(each.code == "TFD102" for each in found)
            kept = torn or (found[:1] if unfitting else found)
            for each in found:
                if each not in kept:
                    del self.found[each]

    def settle(self, source: Source) -> None:
        """Drop errors that follow from errors in the tokens: several misplaced items in one part of the text.

        A part starts at a line that is not indented, as the blocks at the top level do.
        """
        if not self.found:
            return
        self._settle_attributes(source)
        parts = [0] + [at.end() for at in re.finditer(_PART, source.text)]
        unfitting: set[int] = set()
        misplaced: dict[int, list[Diagnostic]] = {}
        for each in self.found:
            if each.span is not None and each.span.source is source:
                part = bisect_right(parts, each.span.start)
                if each.code in _OF_SYNTAX:
                    unfitting.add(part)
                elif each.code in _OF_ITEMS:
                    misplaced.setdefault(part, []).append(each)
        for part, found in misplaced.items():
            if len(found) > (1 if part in unfitting else 2) and unfitting:
                for each in found:
                    del self.found[each]

    def _settle_attributes(self, source: Source) -> None:
        """If an attribute is written as a block, drop the error for its `=`."""
        signs = set()
        for each in self.found:
            if each.code == "TFD205" and each.span is not None and each.span.source is source:
                after = source.text[each.span.end :]
                signs.add(each.span.end + len(after) - len(after.lstrip()))
        for each in [each for each in self.found if each.code == "TFD102"]:
            if each.span is not None and each.span.source is source and each.span.start in signs:
                del self.found[each]

    def taint(self, span: Span) -> None:
        """Drop all further diagnostics that point into `span`."""
        self._tainted.setdefault(id(span.source), Ranges()).add(span.start, span.end)

    def distrust(self, source: Source) -> None:
        """Drop all further diagnostics of `source` that depend on where its blocks start and end."""
        self._distrusted.add(id(source))

    def is_tainted(self, span: Span) -> bool:
        """Whether `span` overlaps a tainted part."""
        tainted = self._tainted.get(id(span.source))
        return tainted is not None and tainted.touch(span.start, max(span.end, span.start + 1))

    def in_source(self, source: Source) -> int:
        """Return the number of diagnostics that point into `source`."""
        return sum(1 for each in self.found if each.span is not None and each.span.source is source)


# --- uses of an undefined name, which have a single cause -------------------------------------------------

_OF_NAMES = frozenset({"TFD401", "TFD402", "TFD404"})

Cause: TypeAlias = "tuple[object, ...]"


def joined(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Join diagnostics that have the same cause, at the place of the first; labels point to the others."""
    causes: dict[Cause, list[Diagnostic]] = {}
    for each in found:
        causes.setdefault(_cause(each), []).append(each)
    return [_one_of(alike) for alike in causes.values()]


def _cause(diagnostic: Diagnostic) -> Cause:
    if diagnostic.code not in _OF_NAMES or diagnostic.span is None or diagnostic.labels:
        return (diagnostic,)
    return (diagnostic.code, diagnostic.message, diagnostic.span.text, diagnostic.notes, diagnostic.help)


def _one_of(alike: list[Diagnostic]) -> Diagnostic:
    first, *others = alike
    if not others:
        return first
    spans = [each.span for each in others if each.span is not None]
    labels, more = here_too(spans)
    fixes = [each.fix for each in alike if each.fix is not None]
    edits = tuple(edit for fix in fixes for edit in fix.edits)
    fix = evolve(fixes[0], edits=edits) if fixes and len(fixes) == len(alike) else None
    return evolve(first, labels=labels, notes=(*first.notes, *more), fix=fix)
