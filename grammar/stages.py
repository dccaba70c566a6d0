"""The stages of reading a spec, in order: files, overrides, lowering, checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256

from attrs import evolve

from dsl import ir
from dsl.checks import CHECKS, LINTS, Facts, Rule
from dsl.diagnostics import Diagnostic, Diagnostics
from dsl.errors import files as file_errors
from dsl.errors.plan import expressions_too_deep
from dsl.source import Source, Span
from grammar import Reading, files, overrides
from grammar.lower import lower
from grammar.reports import Reports, TooManyError, joined
from grammar.tokens.lexer import allowed


def read(
    path: str,
    changes: tuple[tuple[str, str], ...],
    text: str | None,
    texts: Mapping[str, str],
    *,
    allow_python: bool,
) -> Reading:
    """Read a spec as `grammar.read` does."""
    data = files.contents(path) if text is None else text.encode("utf-8", "surrogatepass")
    if not isinstance(data, bytes):
        return Reading(None, Diagnostics([data]), ())
    decoded = files.decoded(path, data)
    if not isinstance(decoded, str):
        return Reading(None, Diagnostics([decoded]), ())
    source, reports = Source(path, decoded), Reports()
    gathered, spec = None, None
    try:
        gathered = files.gather(source, reports, texts)
        spec = _spec(gathered, source, changes, reports, allow_python=allow_python)
    except TooManyError:
        pass
    except RecursionError:
        reports.found[expressions_too_deep(Span(source, 0, 0))] = None
    allowances, trees = ((), ()) if gathered is None else (gathered.allowances, gathered.parsed)
    found = [each for each in reports.found if not allowed(each, allowances)]
    included = tuple(each.source for each in trees)
    if spec is not None:
        others = tuple(each.name for each in included if each is not source)
        spec = evolve(spec, path=path, sha256=sha256(data).hexdigest(), includes=others)
    pointed_at = (each.span.source for each in found if each.span is not None)
    sources = dict.fromkeys([source, *included, *pointed_at])
    return Reading(spec, Diagnostics(joined(_sorted(found, tuple(sources)))), tuple(sources), trees)


def _spec(
    gathered: files.Files,
    source: Source,
    changes: tuple[tuple[str, str], ...],
    reports: Reports,
    *,
    allow_python: bool,
) -> ir.Spec | None:
    """Return the meaning of the items of all files, or None if there is an error."""
    start = Span(source, 0, 0)
    if not gathered.items:
        if gathered.complete and not reports.has_errors:
            reports.add(file_errors.empty(start, path=source.name))
        return None
    items = overrides.apply(gathered.items, changes, reports)
    lowered = lower(items, start, reports, allow_python=allow_python, all_read=gathered.complete)
    _report_all(CHECKS, lowered.facts, reports)
    if reports.has_errors:
        for file in gathered.parsed:
            reports.settle(file.source)
        return None
    with suppress(TooManyError):
        _report_all(LINTS, lowered.facts, reports)
    return lowered.spec


def _report_all(rules: Sequence[Rule], facts: Facts, reports: Reports) -> None:
    for rule in rules:
        for diagnostic in rule(facts):
            reports.add(diagnostic)


def _sorted(found: list[Diagnostic], sources: tuple[Source, ...]) -> list[Diagnostic]:
    """Sort by place: what concerns a whole file first, then by the order of `sources` and by offset."""
    order = {id(source): number for number, source in enumerate(sources)}

    def place(diagnostic: Diagnostic) -> tuple[int, int, int]:
        if diagnostic.span is None:
            return (-1, 0, 0)
        span = diagnostic.span
        return (order[id(span.source)], span.start, span.end)

    return sorted(found, key=place)
