"""Results as files: pages, graphs and traces that a command writes, and placement maps that it reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dsl.diagnostics import RunError
from dsl.errors.plan import bad_map
from dsl.formats.cells import printable
from tfdeploy.cli.common import say, write_result

if TYPE_CHECKING:
    from collections.abc import Iterable

    from compiler.kinds.records.kind_map import AnyMap
    from tfdeploy.runtime.records.files import InputFiles

STDOUT = "-"


def require_free(outputs: Iterable[str], reading: Iterable[str], *, force: bool) -> None:
    """Raise RunError for outputs that are read here, that are somebody else's files, or that have no place.

    Args:
        outputs: The paths of files that will be written; those that do not exist are free.
        reading: The paths of files that are read.
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
    if os.path.isdir(path):  # noqa: PTH112 Path.is_dir raises OSError for a name that is too long
        return str(Path(path) / FILE)
    return path if path.endswith(".json") else None


def read_map(path: str) -> AnyMap:
    """Return the placement map in a file.

    Raises:
        RunError: If the file is no map, or one of a format that is not known.
        OSError: If it cannot be read.
    """
    from compiler.kinds.records import reading
    from dsl.files.typed_json import BadRecord

    try:
        return reading.read_map(path)
    except BadRecord as fault:
        raise RunError(bad_map(path=path, reason=str(fault))) from fault
