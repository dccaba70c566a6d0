"""The specs in the folders that an editor has open, whether the editor shows them or not."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from attrs import define, field
from lsprotocol import types

from grammar import files
from tfdeploy.lsp.documents.opened import Document, absolute, uri_of
from tfdeploy.lsp.features import outline

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MOST = 1_000
"""How many specs are read that the editor does not show."""

FURTHEST = 100_000
"""How many files of a folder are looked at in the search for specs."""

_LEFT_OUT = frozenset({"node_modules", "site-packages", "__pycache__"})
"""Folders in which no spec of the user is looked for, beside those whose names begin with a dot."""


@define
class _Known:
    """What a file had when it was read last: its time and size, and its symbols."""

    state: tuple[int, int]
    symbols: list[types.WorkspaceSymbol]


@define
class Symbols:
    """The symbols of all specs, of which those of a file are kept until the file changes."""

    _known: dict[str, _Known] = field(factory=dict)

    def matching(
        self, query: str, shown: Sequence[Document], folders: Iterable[str]
    ) -> list[types.WorkspaceSymbol]:
        """Return the blocks, constants and bindings whose names contain some letters.

        Args:
            query: The letters; their case does not matter.
            shown: The documents that the editor shows, whose texts count in place of their files.
            folders: The folders that are open.
        """
        found = [each for document in shown for each in outline.named(document)]
        paths = {absolute(each.path) for each in shown}
        encoding = shown[0].encoding if shown else types.PositionEncodingKind.Utf16
        others = (path for folder in folders for path in _specs(folder))
        for path in islice((each for each in dict.fromkeys(others) if each not in paths), MOST):
            found += self._of_file(path, encoding)
        return [each for each in found if query.lower() in each.name.lower()]

    def _of_file(self, path: str, encoding: types.PositionEncodingKind | str) -> list[types.WorkspaceSymbol]:
        try:
            there = os.stat(path)  # noqa: PTH116 a path as it is
        except OSError:
            return []
        state = (there.st_mtime_ns, there.st_size)
        known = self._known.get(path)
        if known is None or known.state != state:
            text = files.text_of(path)
            readable = text if isinstance(text, str) else ""
            symbols = outline.named(Document(uri_of(path), path, 0, readable, encoding))
            known = self._known[path] = _Known(state, symbols)
        return known.symbols


def _specs(folder: str) -> Iterator[str]:
    """Yield the paths of the specs below a folder; links to folders are not followed."""
    seen = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if each[0] != "." and each not in _LEFT_OUT)
        seen += len(names)
        if seen > FURTHEST:
            return
        for name in sorted(names):
            if name.endswith(files.SUFFIX):
                yield absolute(os.path.join(place, name))  # noqa: PTH118 a string is wanted
