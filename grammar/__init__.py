"""Reading specs: `read` returns a spec with all diagnostics, `load` raises an exception for errors.

The stages of reading are, in order: files, overrides, lowering, checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from attrs import evolve, frozen

from dsl import ir, syntax
from dsl.checks import CHECKS, LINTS, Facts, Rule
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import files as file_errors
from dsl.errors.plan import expressions_too_deep
from dsl.source import Source, Span
from grammar import files
from grammar.lower import lower
from grammar.overrides import apply
from grammar.reports import Reports, TooManyError, joined
from grammar.tokens.lexer import allowed


@frozen
class Reading:
    """The result of reading a spec.

    Attributes:
        spec: The spec, or None if there are errors.
        diagnostics: All diagnostics, sorted by place: those of the spec first, then of included files, then
            of `--set`.
        sources: The texts that were read, in the same order.
        trees: The syntax trees of the files that could be parsed, that of the spec itself first.
    """

    spec: ir.Spec | None
    diagnostics: tuple[Diagnostic, ...]
    sources: tuple[Source, ...]
    trees: tuple[syntax.File, ...] = ()

    def require(self) -> ir.Spec:
        """Return the spec; raises SpecError with all diagnostics if it has errors."""
        if self.spec is None:
            raise SpecError(self.diagnostics)
        return self.spec


def read(
    path: str | Path,
    overrides: Sequence[tuple[str, str]] = (),
    *,
    text: str | None = None,
    texts: Mapping[str, str] | None = None,
    allow_python: bool = False,
) -> Reading:
    """Read a spec. A bad spec never raises an exception.

    Args:
        path: The file.
        overrides: Paths and values, such as `("clones.count", "4")`. The last value for a path applies.
        text: The text to read instead of the file.
        texts: The texts to read instead of included files, by the absolute paths of these; an editor has
            texts that are not saved yet.
        allow_python: Whether `python(...)` is allowed in the spec.

    Returns:
        The spec, if it has no errors, and its diagnostics.
    """
    name = str(path)
    data = files.contents(name) if text is None else text.encode("utf-8", "surrogatepass")
    if not isinstance(data, bytes):
        return Reading(None, (data,), ())
    decoded = files.decoded(name, data)
    if not isinstance(decoded, str):
        return Reading(None, (decoded,), ())
    source, reports = Source(name, decoded), Reports()
    gathered, spec = None, None
    try:
        gathered = files.gather(source, reports, texts or {})
        spec = _spec(gathered, source, overrides, reports, allow_python=allow_python)
    except TooManyError:
        pass
    except RecursionError:
        reports.found[expressions_too_deep(Span(source, 0, 0))] = None
    allowances, trees = ((), ()) if gathered is None else (gathered.allowances, gathered.parsed)
    found = [each for each in reports.found if not allowed(each, allowances)]
    included = tuple(each.source for each in trees)
    if spec is not None:
        others = tuple(each.name for each in included if each is not source)
        spec = evolve(spec, path=name, sha256=sha256(data).hexdigest(), includes=others)
    pointed_at = (each.span.source for each in found if each.span is not None)
    sources = dict.fromkeys([source, *included, *pointed_at])
    return Reading(spec, tuple(joined(_sorted(found, tuple(sources)))), tuple(sources), trees)


def load(
    path: str | Path,
    overrides: Sequence[tuple[str, str]] = (),
    allow_python: bool = False,
) -> ir.Spec:
    """Read a spec and return it.

    Args:
        path: The file.
        overrides: Paths and values, as in `read`.
        allow_python: Whether `python(...)` is allowed in the spec.

    Raises:
        SpecError: If the spec has errors; the exception has their diagnostics.
    """
    found = read(path, overrides, allow_python=allow_python)
    if found.spec is None:
        raise SpecError(each for each in found.diagnostics if each.is_error)
    return found.spec


def _spec(
    gathered: files.Files,
    source: Source,
    overrides: Sequence[tuple[str, str]],
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
    items = apply(gathered.items, overrides, reports)
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


__all__ = ["Reading", "load", "read"]
