"""Joins the diagnostics for all uses of an undefined name into one, because they have a single cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from attrs import evolve

from dsl.diagnostics import Diagnostic, Fix, Label

if TYPE_CHECKING:
    from collections.abc import Iterable

_OF_NAMES = frozenset({"TFD401", "TFD402", "TFD404"})
_MOST_LABELS = 4

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
    unseen = len(spans) - _MOST_LABELS
    more = (f"and in {unseen} more place{'s' if unseen > 1 else ''}",) if unseen > 0 else ()
    fixes = [each.fix for each in alike if each.fix is not None]
    whole = len(fixes) == len(alike)
    return evolve(
        first,
        labels=tuple(Label(span, "here too") for span in spans[:_MOST_LABELS]),
        notes=(*first.notes, *more),
        fix=_together(fixes) if whole else None,
    )


def _together(fixes: list[Fix]) -> Fix:
    return evolve(fixes[0], edits=tuple(edit for fix in fixes for edit in fix.edits))
