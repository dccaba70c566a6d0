"""Files that runs and commands write, as a whole (see `dsl/files/atomic.py`); what fails is a diagnostic.

Each kind of file that the tool writes where the user says is recognised by its content, so that a command
can be repeated. Any other file is replaced only with `--force`; files that are read are never replaced.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from attrs import evolve, fields, frozen, has

from compiler.report import GENERATOR
from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import files as errors
from dsl.errors.running import cannot_write
from dsl.files import atomic
from dsl.files.regular import open_regular, system_reason
from tfdeploy.runtime.records.effective import files_of

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The errors of the operating system that say that there is no room."""


@contextmanager
def replacing(path: Path, *, follow: bool = False) -> Iterator[Path]:
    """Yield an empty file to write to, which replaces `path` when the block ends without an error.

    Args:
        path: The file. Its folder must exist.
        follow: Whether a symbolic link is kept and the file to which it leads is replaced, as users expect it
            of files that they name.

    Raises:
        RunError: If the operating system refuses. The earlier file is kept then.
    """
    with writing(path), atomic.replacing(atomic.link_target(path) if follow else path) as beside:
        yield beside


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses within into the RunError about a file that cannot be written."""
    try:
        yield
    except OSError as fault:
        raise RunError(write_fault(path, fault)) from fault


def write_atomically(path: Path, text: str) -> None:
    """Replace the file `path` by one with the content `text`.

    Args:
        text: The whole content, written as UTF-8. Bytes of names that are no UTF-8 are written as escapes.
    """
    with replacing(path) as beside:
        beside.write_bytes(text.encode(errors="backslashreplace"))


def write_fault(path: Path, fault: OSError) -> Diagnostic:
    """Return the diagnostic about a file of the run that could not be written."""
    return cannot_write(path=str(path), reason=system_reason(fault), full=fault.errno in FULL)


_START = 4096
"""The number of bytes in which that text is searched."""

_IMAGES = {".jpg", ".jpeg", ".png"}
"""The endings of files that `images` reads."""

GRAPH_FILES = ("graph.pb", "placement.json", "spec.tfdeploy")
GRAPH_MARK = ".tfdeploy-graph"
GRAPH_MARK_TEXT = "`tfdeploy compile` keeps its files in this folder, and replaces them.\n"


@frozen
class InputFiles:
    """The files that a command reads, which none of its outputs may replace."""

    paths: tuple[Path, ...]

    @classmethod
    def of(cls, spec: ir.Spec, *more: str | os.PathLike[str]) -> InputFiles:
        """Return the spec, what it includes, the files that it names, and `more`."""
        return cls((Path(spec.path), *map(Path, (*spec.includes, *more)), *files_of(spec), *_named(spec)))

    def require_not_input(self, output: Path) -> None:
        """Raise RunError if `output` is one of the files, also under another name."""
        for path in self.paths:
            if _same(path, output):
                read = None if str(path) == str(output) else str(path)
                raise RunError(errors.output_is_read(None, output=str(output), read=read))


def require_free(output: Path, is_own: Callable[[Path], bool], *, force: bool) -> None:
    """Check that a file may be written; raises RunError if another file would be replaced."""
    if not force and output.is_file() and not is_own(output):
        raise RunError(errors.foreign_output(output=str(output)))


def require_new(paths: Iterable[Path]) -> None:
    """Raise RunError if one of some files that are never replaced is there."""
    for path in paths:
        if os.path.lexists(path):
            raise RunError(errors.never_replaced(output=str(path)))


def write_new(files: Mapping[Path, bytes]) -> None:
    """Write files and their folders, or none of the files if one cannot be written or is there."""
    require_new(files)
    begun: list[Path] = []
    try:
        for path, data in files.items():
            with writing(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
            begun.append(path)
            with replacing(path) as beside:
                beside.write_bytes(data)
    except BaseException:  # an interrupt, too
        for path in begun:
            with suppress(OSError):
                path.unlink()
        raise


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write to, which gets the name `folder` when the block ends without an error.

    Raises:
        RunError: If the operating system refuses, or `folder` is there by then.
    """
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = atomic.temporary_name(folder)
        try:
            beside.mkdir()
            yield beside
            beside.rename(folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def require_place(output: Path) -> None:
    """Raise RunError if a file cannot be where it is to be written, before the work for it is done."""
    for number, wrong in ((errno.EISDIR, output.is_dir()), (errno.ENOENT, not output.parent.exists())):
        if wrong:
            raise RunError(write_fault(output, OSError(number, os.strerror(number))))


@contextmanager
def opened_output(output: Path) -> Iterator[IO[bytes]]:
    """Yield an open file to write to, which replaces `output` when the block ends without an error.

    Args:
        output: The file, or a pipe or device, which is written to and not replaced. If it is a symbolic link,
            the file to which the link leads is replaced.
    """
    with writing(output):
        if output.exists() and not stat.S_ISREG(output.stat().st_mode) and not output.is_dir():
            with output.open("wb") as file:
                yield file
            return
    with replacing(output, follow=True) as beside, beside.open("wb") as file:
        yield file


def write_output(output: Path, text: str) -> None:
    """Write a text, as UTF-8, in place of what a file has, or to a pipe or device; see `opened_output`."""
    with opened_output(output) as file:
        file.write(text.encode(errors="backslashreplace"))


def is_own_text(path: Path) -> bool:
    """Whether a file begins like the pages and pictures that the tool writes."""
    try:
        with open_regular(path) as file:
            return GENERATOR.encode() in file.read(_START)
    except OSError:
        return False


def is_own_predictions(path: Path, names: Sequence[str]) -> bool:
    """Whether a file has predictions of the outputs `names`, by a table's header or an archive's comment."""
    try:
        if path.suffix == ".npz":
            with open_regular(path) as file, zipfile.ZipFile(file) as archive:
                return archive.comment == GENERATOR.encode()
        with open_regular(path) as file:
            header = file.readline(1 << 20).decode("utf-8").rstrip("\r\n").split(",")
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return False
    known = "|".join(map(re.escape, names))
    return all(re.fullmatch(rf"(?:{known})(?:_\d+)*", column) for column in header)


def require_free_folder(folder: Path, *, force: bool) -> None:
    """Raise RunError if `compile` would replace files in `folder` that it has not written."""
    there = [name for name in GRAPH_FILES if os.path.lexists(folder / name)]
    if there and not force and not (folder / GRAPH_MARK).is_file():
        raise RunError(errors.foreign_output(output=str(folder / there[0])))


def _named(spec: ir.Spec) -> list[Path]:
    """Return the files that are there and that any text in a spec may mean, modules of `python(...)` too.

    Such are the weights of a layer of Keras, its vocabulary, and the images in a folder.
    """
    base = Path(spec.path).parent
    found: list[Path] = []
    for text in dict.fromkeys(_texts(evolve(spec, train=evolve(spec.train, directory=None)))):
        module = text.partition(":")[0].replace(".", "/") + ".py"
        with suppress(OSError, ValueError):  # a text that can be no path
            found += [each for each in (base / text, base / module) if each.is_file()]
            if (base / text).is_dir():
                found += [each for each in (base / text).glob("*/*") if each.suffix.lower() in _IMAGES]
    return found


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a part of a spec."""
    if isinstance(value, str):
        yield value
    elif has(type(value)):
        for each in fields(type(value)):
            if each.eq:  # what is not compared tells where a part was written
                yield from _texts(getattr(value, each.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)


def _same(path: Path, output: Path) -> bool:
    try:
        return path.samefile(output)
    except OSError:  # one of the two is not there
        return False
