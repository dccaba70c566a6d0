"""TFD19x: files that cannot be read. Such an error ends a command with exit code 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from dsl.diagnostics import Diagnostic
from dsl.errors.making import error
from dsl.errors.words import in_full

if TYPE_CHECKING:
    from dsl.source import Span


def missing(path: str, span: Span | None) -> Diagnostic:
    """A file that is not there.

    Args:
        path: The file.
        span: The place of the `include` that names it; None for the spec itself.
    """
    if span is None:
        return evolve(error("TFD190", f"there is no file {in_full(path)}", None), file=path)
    return error(
        "TFD190",
        f"there is no file {in_full(path)}",
        span,
        text="cannot be included",
        notes=("a relative path starts at the directory of the file that includes",),
    )


def no_specs(folder: str, ending: str) -> Diagnostic:
    """A folder that stands for the specs below it, and has none.

    Args:
        folder: The folder.
        ending: What the names of specs end in.
    """
    notes = ("hidden folders and folders called `build` are not searched",)
    what = f"no file below {in_full(folder)} ends in `{ending}`"
    return evolve(error("TFD190", what, None, notes=notes), file=folder)


def included_too_deeply(path: str, deepest: int, span: Span) -> Diagnostic:
    """An included file at the end of a longer chain of files than is followed.

    Args:
        path: The file.
        deepest: The most files that may be between it and the spec, that included.
        span: The place of the `include` that names it in the spec.
    """
    return error(
        "TFD111",
        f"{in_full(path)} is not included: it is more than {deepest} files deep",
        span,
        text="cannot be included",
        notes=("its blocks would be missing from the spec",),
        help="include the files from the spec itself, which may include any number of them",
    )


def unreadable(path: str, reason: str, span: Span | None) -> Diagnostic:
    """A file that the system does not let us read.

    Args:
        path: The file.
        reason: What the system says.
        span: The place of the `include` that names it in the spec; None if it is not known.
    """
    return evolve(error("TFD191", f"{in_full(path)} cannot be read: {reason}", span), file=path)


def not_a_spec(path: str, suffix: str, span: Span) -> Diagnostic:
    """An included file whose name, or that of the file which a link leads to, is not that of a spec.

    Args:
        path: The file.
        suffix: What the names of specs end in.
        span: The place of the `include` that names it in the spec.
    """
    return error(
        "TFD194",
        f"{in_full(path)} is not included: it is no spec",
        span,
        text="cannot be included",
        notes=(f"the names of specs end in `{suffix}`, also of those that symbolic links lead to",),
    )


def not_text(path: str, start: bytes, offset: int, span: Span | None, *, null: bool) -> Diagnostic:
    """A file that is no UTF-8 text.

    Args:
        path: The file.
        start: Its first bytes, which may tell what it is.
        offset: The number of the first byte that is not text, from 0.
        span: The place of the `include` that names it in the spec; None if it is not known.
        null: Whether that byte is a NUL, which is UTF-8 but is in no text.
    """
    kind, advice = next(
        ((kind, advice) for sign, kind, advice in _KINDS if start.startswith(sign)),
        ("not text" if null else "not UTF-8 text", _DAMAGED if null else _ENCODED),
    )
    note = "is NUL, which no text has" if null else "is the first that is not UTF-8"
    return evolve(
        error(
            "TFD192", f"{in_full(path)} is {kind}", span, notes=(f"byte {offset + 1:,} {note}",), help=advice
        ),
        file=path,
    )


_ENCODED = "save it as UTF-8; `iconv -f latin1 -t utf-8 FILE` converts a text in Latin-1"
_DAMAGED = "name a spec, or remove that byte if this was one: the file may be damaged"
_TRAINED = "name the spec that it was trained with; `weights` in `train` starts from such a file"
_KINDS = (
    (b"\xff\xfe", "UTF-16 text, not UTF-8", "save it as UTF-8; `iconv -f utf-16 -t utf-8 FILE` converts it"),
    (b"\xfe\xff", "UTF-16 text, not UTF-8", "save it as UTF-8; `iconv -f utf-16 -t utf-8 FILE` converts it"),
    (b"PK\x03\x04", "an archive, such as a `.keras` or `.npz` file, and no spec", _TRAINED),
    (b"\x89HDF\r\n", "an HDF5 file, such as one of weights, and no spec", _TRAINED),
    (b"\x1f\x8b", "a file that gzip packed, and no spec", "unpack it with `gunzip`"),
)
"""The first bytes of files that are taken for specs, with what they are and what to do."""


def too_large(path: str, largest: int, span: Span | None) -> Diagnostic:
    """A file that is far too large for a spec.

    Args:
        path: The file.
        largest: The most bytes that a spec may have.
        span: The place of the `include` that names it in the spec; None if it is not known.
    """
    notes = (f"a spec has at most {largest:,} bytes",)
    return evolve(error("TFD193", f"{in_full(path)} is too large", span, notes=notes), file=path)


def empty(path: str, span: Span | None) -> Diagnostic:
    """A file with nothing but white space and comments in it.

    Args:
        path: The file.
        span: The place of the start of the file in the spec; None if it is not known.
    """
    return error(
        "TFD110",
        f"{in_full(path)} is empty",
        span,
        help='a spec needs at least a `model "name" { ... }` block',
    )
