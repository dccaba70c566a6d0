"""The specs in the folders that an editor has open, whether the editor shows them or not."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

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


def matching(query: str, shown: Sequence[Document], folders: Iterable[str]) -> list[types.WorkspaceSymbol]:
    """Return the blocks, constants and bindings of all specs whose names contain some letters.

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
        with suppress(OSError):
            there = os.stat(path)  # noqa: PTH116 a path as it is
            found += _named_in(path, (there.st_mtime_ns, there.st_size), encoding)
    return [each for each in found if query.lower() in each.name.lower()]


@lru_cache(maxsize=MOST)
def _named_in(
    path: str, state: tuple[int, int], encoding: types.PositionEncodingKind | str
) -> list[types.WorkspaceSymbol]:
    """Return what a file names, which is kept for its time and size, its `state`."""
    del state
    text = files.text_of(path)
    return outline.named(Document(uri_of(path), path, 0, text if isinstance(text, str) else "", encoding))


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
