"""The texts that an editor has open, the files that they include, and places in them."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from attrs import define, evolve, field, frozen
from lsprotocol import types
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import PositionCodec

from dsl import syntax
from dsl.source import Source, Span

_LINE_END = re.compile(r"\r\n|\n|\r")


@frozen(eq=False)
class Positions:
    """Converts between offsets in a text and positions of the protocol."""

    text: str
    encoding: types.PositionEncodingKind | str = types.PositionEncodingKind.Utf16

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(each.end() for each in _LINE_END.finditer(self.text))]

    @cached_property
    def _ends(self) -> list[int]:
        """The offsets of the line ends themselves."""
        return [*(each.start() for each in _LINE_END.finditer(self.text)), len(self.text)]

    @cached_property
    def _codec(self) -> PositionCodec:
        return PositionCodec(self.encoding)

    def position(self, offset: int) -> types.Position:
        """Return the position of an offset."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._starts, offset) - 1
        start = self._starts[line]
        return types.Position(line, self._units(self.text[start : min(offset, self._ends[line])]))

    def offset(self, position: types.Position) -> int:
        """Return the offset of a position; a column beyond the end of its line means the end of the line."""
        if position.line >= len(self._starts):
            return len(self.text)
        start, end = self._starts[position.line], self._ends[position.line]
        line = self.text[start:end]
        if line.isascii():
            return min(start + position.character, end)
        left = position.character
        for at, character in enumerate(line):
            if left <= 0:
                return start + at
            left -= self._units(character)
        return end

    def range(self, start: int, end: int) -> types.Range:
        """Return the range between two offsets."""
        return types.Range(self.position(start), self.position(end))

    def span(self, span: Span) -> types.Range:
        """Return the range of a span of this text."""
        return self.range(span.start, span.end)

    def units(self, start: int, end: int) -> int:
        """Return how many units of the encoding are between two offsets of a line."""
        return self._units(self.text[start:end])

    def _units(self, text: str) -> int:
        return len(text) if text.isascii() else self._codec.client_num_units(text)


BOM = "\ufeff"
HIGHEST = 4
"""In how many folders above a file specs that include it are looked for."""
MOST = 200
"""How many files of a folder are looked into for includes."""


@frozen(eq=False)
class Document:
    """One text at one version. A change makes another document."""

    uri: str  # the address by which the editor knows it
    path: str  # its file, or the name of a text that has none
    version: int
    text: str
    # The unit of columns in positions.
    encoding: types.PositionEncodingKind | str = types.PositionEncodingKind.Utf16
    _parsed: list[syntax.File] = field(factory=list, init=False)

    @cached_property
    def source(self) -> Source:
        """The text as the reader gets it: as long as the text, so that offsets are the same in both."""
        return Source(self.path, f" {self.text[1:]}" if self.text.startswith(BOM) else self.text)

    @cached_property
    def positions(self) -> Positions:
        """Converts between offsets and positions."""
        return Positions(self.text, self.encoding)

    @property
    def tree(self) -> syntax.File:
        """The syntax tree; without items if nothing could be parsed."""
        from grammar.parsing.parser import parse
        from grammar.reports import Reports

        if not self._parsed:
            self._parsed.append(parse(self.source, Reports()) or syntax.File(self.source))
        return self._parsed[0]

    def note_tree(self, trees: Iterable[syntax.File]) -> None:
        """Remember the syntax tree of the document, which is among some trees if it could be parsed."""
        own = absolute(self.path)
        self._parsed[:] = [each for each in trees if absolute(each.source.name) == own]


@define
class Documents:
    """All open documents, and which files include which."""

    encoding: types.PositionEncodingKind | str = types.PositionEncodingKind.Utf16
    _open: dict[str, Document] = field(factory=dict, init=False)
    _included: dict[str, frozenset[str]] = field(factory=dict, init=False)

    def open(self, uri: str, version: int, text: str) -> Document:
        """Add a document that the editor has opened."""
        document = Document(uri, path_of(uri), version, text, self.encoding)
        self._open[uri] = document
        return document

    def change(self, uri: str, version: int, text: str) -> Document:
        """Replace a document by its next version."""
        self._open[uri] = evolve(self._open[uri], version=version, text=text)
        return self._open[uri]

    def close(self, uri: str) -> None:
        """Forget a document; its file is what counts from now on."""
        document = self._open.pop(uri, None)
        if document is not None:
            self._included.pop(document.path, None)

    def at(self, uri: str) -> Document:
        """Return an open document."""
        return self._open[uri]

    def __iter__(self) -> Iterator[Document]:
        return iter(tuple(self._open.values()))

    @property
    def texts(self) -> dict[str, str]:
        """The open texts by their absolute paths."""
        return {absolute(each.path): each.source.text for each in self}

    def of_source(self, source: Source) -> Document:
        """Return the document with the text of a source, which may be of a file that is not open."""
        path = absolute(source.name)
        for each in self:
            if absolute(each.path) == path:
                return each
        return Document(uri_of(path), path, 0, source.text, self.encoding)

    def location(self, span: Span) -> types.Location:
        """Return where a span is, in whatever file."""
        document = self.of_source(span.source)
        return types.Location(document.uri, document.positions.span(span))

    def edits(self, replaced: Iterable[tuple[Span, str]]) -> types.WorkspaceEdit:
        """Return edits that put other text in the place of spans, in whatever files."""
        changes: dict[str, list[types.TextEdit]] = {}
        for span, text in replaced:
            at = self.location(span)
            changes.setdefault(at.uri, []).append(types.TextEdit(at.range, text))
        return types.WorkspaceEdit(changes)

    def note_includes(self, document: Document, included: Iterable[str]) -> None:
        """Remember which files a spec includes, by their absolute paths."""
        self._included[document.path] = frozenset(included) - {absolute(document.path)}

    def spec_with(self, document: Document) -> Document:
        """Return the spec that a document belongs to: one that includes it, or the document itself."""
        path = absolute(document.path)
        for root, included in self._included.items():
            if path in included:
                return self._file(root)
        return document

    def find_specs_with(self, document: Document) -> None:
        """Look for a spec that includes a document, in the folders around it, and remember it."""
        from grammar import files
        from grammar.reports import Reports

        path = absolute(document.path)
        if not os.path.isabs(document.path) or self.spec_with(document) is not document:  # noqa: PTH117 as elsewhere
            return
        for folder in list(Path(path).parents)[:HIGHEST]:
            for other in sorted(folder.glob(f"*{files.SUFFIX}"))[:MOST]:
                if str(other) == path:
                    continue
                source = self._source(str(other))
                if source is None or "include" not in source.text:
                    continue
                trees = files.gather(source, Reports(), self.texts).parsed
                names = {absolute(each.source.name) for each in trees}
                if path in names:
                    self._included[str(other)] = frozenset(names - {str(other)})
                    return

    def _file(self, path: str) -> Document:
        source = self._source(path)
        return self.of_source(source if source is not None else Source(path, ""))

    def _source(self, path: str) -> Source | None:
        from grammar import files

        texts = self.texts
        if path in texts:
            return Source(path, texts[path])
        text = files.text_of(path)
        return Source(path, text) if isinstance(text, str) else None


def absolute(path: str) -> str:
    """Return an absolute path without `..`; links in it are not followed, as the reader does not either."""
    return os.path.abspath(path)  # noqa: PTH100 Path.absolute keeps `..`


def path_of(uri: str) -> str:
    """Return the path of a file, or the address itself of what is no file."""
    return to_fs_path(uri) or uri


def uri_of(path: str) -> str:
    """Return the address of a file."""
    return from_fs_path(absolute(path)) or path
