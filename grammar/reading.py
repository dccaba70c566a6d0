"""The stages of reading a spec, in order: files, overrides, meaning, checks."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from attrs import evolve

from dsl.diagnostics import Diagnostic, Diagnostics
from dsl.errors import files as file_errors
from dsl.source import Source, Span
from grammar import Reading, files, overrides
from grammar.lower import lower
from grammar.reports import Reports

if TYPE_CHECKING:
    from dsl import ir


def read(path: str, changes: tuple[tuple[str, str], ...], text: str | None, *, allow_python: bool) -> Reading:
    """Read a spec as `grammar.read` says."""
    data = files.contents(path) if text is None else text.encode("utf-8", "surrogatepass")
    decoded = files.decoded(path, data) if isinstance(data, bytes) else data
    if isinstance(data, Diagnostic) or isinstance(decoded, Diagnostic):
        return Reading(None, Diagnostics([decoded]), ())  # type: ignore[list-item] # one of the two is the diagnostic
    source = Source(path, decoded)
    reports = Reports()
    spec = _spec(source, changes, reports, allow_python=allow_python)
    found = _sorted(reports.found, source)
    if spec is not None and any(each.is_error for each in found):
        spec = None
    if spec is not None:
        spec = evolve(spec, path=path, sha256=sha256(data).hexdigest())
    sources = dict.fromkeys([source, *(each.span.source for each in found if each.span is not None)])
    return Reading(spec, Diagnostics(found), tuple(sources))


def _spec(
    source: Source, changes: tuple[tuple[str, str], ...], reports: Reports, *, allow_python: bool
) -> ir.Spec | None:
    gathered = files.gather(source, reports)
    start = Span(source, 0, 0)
    if not gathered.items and gathered.complete and not len(reports.found):
        reports.add(file_errors.empty(source.name, start))
        return None
    if not gathered.complete and not gathered.items:
        return None
    items = overrides.apply(gathered.items, changes, reports)
    return lower(items, start, reports, allow_python=allow_python).spec


def _sorted(found: Diagnostics, main: Source) -> list[Diagnostic]:
    """Sort by place: the spec itself, then its other texts in the order in which they came up."""
    order: dict[int, int] = {id(main): 0}
    for each in found:
        if each.span is not None:
            order.setdefault(id(each.span.source), len(order))

    def place(diagnostic: Diagnostic) -> tuple[int, int, int]:
        if diagnostic.span is None:
            return (-1, 0, 0)
        span = diagnostic.span
        return (order[id(span.source)], span.start, span.end)

    return sorted(found, key=place)
