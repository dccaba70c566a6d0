"""The files that commands are given: specs below folders are found, read, and rewritten."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import grammar
from dsl.diagnostics import SpecError
from dsl.errors import files as errors
from dsl.files import atomic
from grammar.files import LARGEST
from grammar.format import source_of
from tfdeploy.cli.common import INPUT, read_input
from tfdeploy.cli.faults import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dsl import ir
    from dsl.source import Source
    from tfdeploy.cli.common import Common


def replace_file(path: str, text: str) -> None:
    """Replace the content of a file by `text`, completely or not at all, and keep its permissions.

    A symbolic link stays one: the file that it leads to is replaced.

    Args:
        path: The file, which exists.
        text: The new content, written as UTF-8 with its line ends as they are.

    Raises:
        OSError: The file cannot be replaced. The error has the name of the file.
    """
    try:
        atomic.replace_file(atomic.link_target(Path(path)), text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


ENDING = ".tfdeploy"
SKIPPED = ("build",)
"""Folders whose specs are copies; hidden ones, `.venv` among them, are not looked into either."""


def specs_of(paths: Iterable[str]) -> list[str]:
    """Return `paths` in which each folder is replaced by the specs below it, in the order of their names.

    A file that is named as well as found is returned once.

    Raises:
        SpecError: A folder has no specs below it.
    """
    found: dict[str, None] = {}
    for path in paths:
        if not os.path.isdir(path):  # noqa: PTH112 Path.is_dir raises OSError for a name that is too long
            found[path] = None
            continue
        below = sorted(_below(path))
        if not below:
            raise SpecError([errors.no_specs(folder=path, ending=ENDING)])
        found.update(dict.fromkeys(below))
    return list(found)


def _below(folder: str) -> Iterator[str]:
    """Yield the specs below `folder`; links to folders are not followed, so that nothing goes in circles."""
    for directory, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".") and each not in SKIPPED]
        for name in files:
            path = Path(directory, name)
            if name.endswith(ENDING) and not name.startswith(".") and path.is_file():
                yield str(path)


STDIN = "-"


def read(path: str, common: Common, *, stdin: bool = False) -> grammar.Reading:
    """Read the spec at `path` with the overrides of the command line; with `stdin`, `-` is standard input.

    Raises:
        SpecError: Standard input is no text, or is too large.
    """
    name, text = path, None
    if stdin and path == STDIN:
        source = standard_input()
        name, text = source.name, source.text
    return grammar.read(name, common.overrides, text=text, allow_python=common.allow_python)


def standard_input() -> Source:
    """Return the text of standard input, of which no more is read than a spec may have.

    Raises:
        SpecError: Standard input is no text, or is too large.
    """
    return source_of(INPUT, read_input(LARGEST + 1))


def read_spec(path: str, common: Common, *, stdin: bool = False) -> ir.Spec:
    """Return the spec at `path` (see `read`), its warnings on standard error.

    Raises:
        SpecError: There are errors. The exception has all diagnostics, warnings included.
    """
    found = read(path, common, stdin=stdin)
    if found.spec is None:
        raise SpecError(found.diagnostics)
    if len(found.diagnostics):
        show(found.diagnostics, common)
    return found.spec
