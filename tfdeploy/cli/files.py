"""The files that commands are given and write: specs, pages, graphs, traces and placement maps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

import grammar
from dsl.diagnostics import RunError, SpecError
from dsl.errors import files as errors
from dsl.errors.plan import bad_map
from dsl.files import atomic
from dsl.files.regular import read_text
from dsl.formats.cells import printable
from grammar.files import LARGEST
from grammar.format import source_of
from tfdeploy.cli.common import INPUT, read_input, say, write_result
from tfdeploy.cli.faults import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from compiler.kinds.kind_map import AnyMap
    from dsl import ir
    from dsl.source import Source
    from tfdeploy.cli.common import Common
    from tfdeploy.runtime.records.files import InputFiles


def replace_file(path: str, text: str) -> None:
    """Replace the content of a file by `text`, completely or not at all, and keep its permissions.

    A symbolic link stays one: the file that it leads to is replaced.

    Raises:
        OSError: The file cannot be replaced. The error has the name of the file.
    """
    try:
        atomic.replace_file(atomic.link_target(Path(path)), text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def is_unchanged(source: Source) -> bool:
    """Whether `source` is a file that still holds what was read from it."""
    try:
        return read_text(source.name).removeprefix("\ufeff") == source.text
    except (OSError, UnicodeDecodeError):
        return False


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
    """Read the spec at `path` with the overrides of the command line; with `stdin`, `-` is standard input."""
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
    spec = found.require()
    show(found.diagnostics, common)
    return spec


# --- results as files, and placement maps that are read ---------------------------------------------------


STDOUT = "-"


def require_free(outputs: Iterable[str], reading: Iterable[str], *, force: bool) -> None:
    """Raise RunError for outputs that are read here, that are somebody else's files, or that have no place.

    Args:
        outputs: The paths of files that will be written; those that do not exist are free.
        force: Whether files of others may be replaced. Files that are read may not, even so.
    """
    from tfdeploy.runtime.records.files import InputFiles, is_own_text, require_place
    from tfdeploy.runtime.records.files import require_free as require_own

    inputs = InputFiles(tuple(map(Path, reading)))
    for each in outputs:
        inputs.require_not_input(Path(each))
        require_place(Path(each))
        require_own(Path(each), is_own_text, force=force)


def require_distinct(results: Iterable[str]) -> None:
    """Raise UsageError if two results would go to the same file, or both to standard output."""
    taken: set[str] = set()
    for each in results:
        place = each if each == STDOUT else os.path.realpath(each)
        if place in taken:
            where = "standard output" if each == STDOUT else each
            raise click.UsageError(f"{where} can take only one of the results that are asked for")
        taken.add(place)


def require_apart(outputs: Iterable[str], reading: InputFiles) -> None:
    """Raise RunError for outputs that are among the files that are read."""
    for each in outputs:
        reading.require_not_input(Path(each))


def write_text(path: str, text: str) -> None:
    """Write `text`, made printable, to a file, which is named on standard error, or to standard output."""
    text = printable(text)
    if path == STDOUT:
        write_result(text)
        return
    from tfdeploy.runtime.records.files import write_output

    write_output(Path(path), text)
    say(f"{path}: written, {len(text.encode(errors='backslashreplace')):,} bytes", err=True)


def write_page(path: str, page: str, *, open_page: bool) -> None:
    """Write a page, and open it in a browser if that is wanted: in $BROWSER, or in that of the desktop.

    Raises:
        ClickException: No program of this machine opens pages. The page is written even so.
    """
    write_text(path, page)
    if not open_page:
        return
    import webbrowser

    # `click.launch` also says that all went well if the desktop's opener finds no browser.
    if not webbrowser.open(Path(path).absolute().as_uri()):
        raise click.ClickException(
            f"no program opens pages here; {path} is written and can be opened by hand"
        )


FILE = "placement.json"


def map_file(path: str) -> str | None:
    """Return the file of the placement map that `path` names, None if it names a spec.

    A run directory, or a folder of `compile`, means the map in it.
    """
    inside = os.path.join(path, FILE)  # noqa: PTH118 Path.exists raises OSError for a name that is too long
    if os.path.lexists(inside):
        return inside
    return path if path.endswith(".json") else None


def read_map(path: str) -> AnyMap:
    """Return the placement map in a file; raises RunError if it is none, or of a format that is not known."""
    from compiler.kinds import reading
    from dsl.files.typed_json import BadRecord

    try:
        return reading.read_map(path)
    except BadRecord as fault:
        raise RunError(bad_map(path=path, reason=str(fault))) from fault
