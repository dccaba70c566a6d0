"""Reading the files of a spec: the spec itself and the files that it includes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve, frozen

from dsl import syntax
from dsl.diagnostics import Diagnostic
from dsl.errors import files, names
from dsl.errors.wording import quoted
from dsl.files.regular import open_regular, system_reason
from dsl.schema import VERSION
from dsl.schema import types as kinds
from dsl.source import Source, Span
from grammar.lower.context import BAD, Context
from grammar.lower.values import typed
from grammar.parsing.parser import parse
from grammar.reports import Reports

LARGEST = 10_000_000
DEEPEST = 50
LONGEST_MARK = 8  # bytes at the start of a file by which its kind is told
SUFFIX = ".tfdeploy"
"""The suffix of spec files. Files with other suffixes are not read.

Reports show lines of the files that they read, and a spec from somebody else may include any file.
"""


def contents(path: str) -> bytes | Diagnostic:
    """Return the bytes of a file, or the diagnostic that says why it cannot be read."""
    try:
        with open_regular(path) as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        return files.missing(path=path)
    except OSError as error:
        specs = sorted(map(str, Path(path).glob(f"*{SUFFIX}")))  # if it is a folder
        return files.unreadable(None, path=path, reason=system_reason(error), specs=specs)
    return data


def decoded(path: str, data: bytes) -> str | Diagnostic:
    """Decode the bytes of a file as UTF-8, or return the diagnostic that says why they are not text."""
    if len(data) > LARGEST:
        return files.too_large(None, path=path, largest=LARGEST)
    null = data.find(b"\0")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if not 0 <= null < error.start:
            return files.not_text(path, data[:LONGEST_MARK], error.start, None, null=False)
    if null >= 0:
        return files.not_text(path, data[:LONGEST_MARK], null, None, null=True)
    return text.removeprefix("\ufeff")


def text_of(path: str) -> str | Diagnostic:
    """Return the text of a file, or the diagnostic that says why it cannot be read."""
    data = contents(path)
    return decoded(path, data) if isinstance(data, bytes) else data


@frozen
class Files:
    """The files of a spec."""

    parsed: tuple[syntax.File, ...]  # the syntax trees of the files, that of the spec itself first
    items: tuple[syntax.Item, ...]  # the items of all files, those of included ones first
    complete: bool  # whether all included files could be read

    @property
    def allowances(self) -> tuple[syntax.Allowance, ...]:
        """The lints that comments in the files switch off."""
        return tuple(each for file in self.parsed for each in file.allowances)


def gather(source: Source, reports: Reports, texts: Mapping[str, str]) -> Files:
    """Parse a text and all files that it includes."""
    gathering = _Gathering(reports, texts)
    gathering.file(source, os.path.abspath(source.name), ())  # noqa: PTH100 Path.absolute keeps `..`
    return Files(tuple(gathering.parsed), tuple(gathering.items), gathering.complete)


class _Gathering:
    """Follows the includes of a file, depth first."""

    def __init__(self, reports: Reports, texts: Mapping[str, str]) -> None:
        self.parsed: list[syntax.File] = []
        self.items: list[syntax.Item] = []
        self.complete = True
        self._reports = reports
        self._texts = texts
        self._done: set[str] = set()

    def file(self, source: Source, path: str, chain: tuple[str, ...]) -> None:
        """Parse one file, after those that it includes."""
        parsed = parse(source, self._reports)
        if parsed is None:
            self.complete = False
            return
        self.parsed.append(parsed)
        self._version(parsed, first=not chain)
        for item in syntax.attributes_in(parsed.items, "include"):
            self._include(item, source, (*chain, path))
        self.items.extend(item for item in parsed.items if not _is_header(item) or not chain)

    def _version(self, file: syntax.File, *, first: bool) -> None:
        written = syntax.attributes_in(file.items, "tfdeploy")
        if not written:
            if first and file.items:
                self._reports.add(names.missing_version(Span(file.source, 0, 0), version=VERSION))
            return
        for again in written[1:]:
            self._reports.add(names.duplicate("attribute", "tfdeploy", again.name_span, written[0].name_span))
        first_item = file.items[0]
        if first_item is not written[0] and not isinstance(first_item, syntax.Entry):
            self._reports.add(names.version_not_first(written[0].name_span))
        value = typed(written[0].value, kinds.integer(1), "`tfdeploy`", Context(self._reports))
        if value is not BAD and value > VERSION:
            self._reports.add(names.newer_version(written[0].value.span, found=value, known=VERSION))

    def _include(self, item: syntax.Attribute, source: Source, chain: tuple[str, ...]) -> None:
        context = Context(self._reports)
        if not isinstance(item.value, syntax.List):
            typed(item.value, kinds.listing(kinds.string()), "`include`", context)
            self.complete = False
            return
        for each in item.value.items:
            path = typed(each, kinds.path(), "an item of `include`", context)
            if path is BAD or not self._follow(path, each.span, source, chain):
                self.complete = False

    def _follow(self, written: str, span: Span, source: Source, chain: tuple[str, ...]) -> bool:  # noqa: PLR0911 one for each
        """Read an included file; report what keeps it from being read."""
        directory = os.path.dirname(source.name)  # noqa: PTH120 messages show the path as it was written
        path = os.path.join(directory, written)  # noqa: PTH118 a Path would lose `./`
        if not Path(written).is_absolute() and _leaves(written):
            self._reports.add(names.include_outside(span, path=written))
            return False
        real = os.path.abspath(path)  # noqa: PTH100 as in `gather`
        if real in chain:
            circle = [quoted(Path(each).name) for each in (*chain[chain.index(real) :], real)]
            told = " includes ".join(circle) if len(circle) > 2 else None  # noqa: PLR2004 it is not by others
            self._reports.add(names.include_cycle(span, path=written, circle=told))
            return False
        if real in self._done:
            return True
        if len(chain) > DEEPEST:
            self._reports.add(files.included_too_deeply(span, path=written, deepest=DEEPEST))
            return False
        self._done.add(real)
        if real in self._texts and real.endswith(SUFFIX):
            self.file(Source(path, self._texts[real]), real, chain)
            return True
        if os.path.exists(path) and not os.path.realpath(path).endswith(SUFFIX):  # noqa: PTH110 Path.exists may raise OSError
            self._reports.add(files.not_a_spec(span, path=written, suffix=SUFFIX))
            return False
        text = text_of(path)
        if not isinstance(text, str):
            missing = text.code == "TFD190"
            self._reports.add(
                files.included_missing(span, path=written) if missing else evolve(text, span=span)
            )
            return False
        self.file(Source(path, text), real, chain)
        return True


def _is_header(item: syntax.Item) -> bool:
    return isinstance(item, syntax.Attribute) and item.name in {"tfdeploy", "include"}


def _leaves(path: str) -> bool:
    """Whether a relative path leads out of the directory that it starts in."""
    return f"{os.path.normpath(path)}/".startswith("../")
