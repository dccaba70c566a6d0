"""TFD701 to TFD729: errors in data, each with its file, record and field.

Factories for errors in the data itself have a parameter `where`; those for a spec that does not fit its data
have a `span`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from dsl.diagnostics import Diagnostic, Label, Severity
from dsl.errors.words import alternatives, counted, first_of, joined, options, to_have
from dsl.source import Position, Source, Span

if TYPE_CHECKING:
    from collections.abc import Sequence


MOST_READERS = 4
"""How many clones or workers without an example are named."""


@frozen(slots=False, eq=False)
class Excerpt(Source):
    """One line of a large data file. Its positions are those of the whole file.

    Attributes:
        number: The number of the line in the file, counted from 1.
    """

    number: int = 1

    def position(self, offset: int) -> Position:
        """Return line and column of `offset`, an offset into the line."""
        offset = min(max(offset, 0), len(self.text))
        return Position(self.number, offset + 1, offset)

    def line(self, number: int) -> str:
        """Return the line if `number` is its own, else an empty one."""
        return self.text if number == self.number else ""

    @cached_property
    def line_count(self) -> int:
        """The number of the last line that can be shown."""
        return self.number


@frozen
class Where:
    """A place in the data.

    Attributes:
        path: The file, as the user can open it.
        place: The place in the file in words, such as `row 18`; nothing for the whole file.
        span: The place in the file itself if that is text, or None.
        call: The source in the spec that reads the file, or None.
    """

    path: str
    place: str = ""
    span: Span | None = field(default=None, eq=False)
    call: Span | None = field(default=None, eq=False)

    @property
    def words(self) -> str:
        """File and place, as a message begins."""
        return f"`{self.path}`, {self.place}" if self.place else f"`{self.path}`"


def _fault(
    code: str,
    where: Where,
    message: str,
    text: str = "",
    *,
    notes: Sequence[str] = (),
    advice: str | None = None,
) -> Diagnostic:
    both = where.span is not None and where.call is not None
    return Diagnostic(
        code,
        f"{where.words}: {message}",
        where.span or where.call,
        text,
        labels=(Label(where.call, "read by this source"),) if both and where.call is not None else (),
        notes=tuple(notes),
        help=advice,
    )


def _spec_fault(
    code: str,
    message: str,
    span: Span | None,
    text: str,
    notes: Sequence[str] = (),
    advice: str | None = None,
) -> Diagnostic:
    return Diagnostic(code, message, span, text, notes=tuple(notes), help=advice)


# --- files ------------------------------------------------------------------------------------------------


def missing(where: Where, *, nearest: str | None = None, folder: bool = False) -> Diagnostic:
    """Report a data file or folder that is not there, or a glob that matches nothing.

    Args:
        where: The file, folder or glob.
        nearest: The similar name of a file or folder that is there; None if there is none.
        folder: Whether a folder is wanted.
    """
    kind = "folder" if folder else "file"
    is_glob = any(sign in where.path for sign in "*?[")
    message = "no file matches" if is_glob else f"there is no such {kind}"
    return _fault(
        "TFD701",
        where,
        message,
        "not found",
        notes=("paths are relative to the folder of the spec",),
        advice=f"a {kind} with a similar name is there: `{nearest}`" if nearest else None,
    )


def unreadable(where: Where, reason: str, *, advice: str | None = None) -> Diagnostic:
    """Report a file that cannot be opened or is not of the format that the source reads.

    Args:
        where: The file.
        reason: Why not, as a sentence.
        advice: What to do about it; None if there is no advice.
    """
    return _fault("TFD702", where, reason, "cannot be read", advice=advice)


def empty(where: Where, what: str, *, advice: str | None = None) -> Diagnostic:
    """Report data without a single example.

    Args:
        where: The file.
        what: What it lacks, as a sentence.
        advice: What to do about it; None if there is no advice.
    """
    return _fault("TFD703", where, what, "no examples", advice=advice)


def empty_share(where: Where, file: str, found: int, readers: Sequence[str], *, clones: bool) -> Diagnostic:
    """Report clones or workers whose share of the data has no example, so that they would wait for ever.

    Args:
        where: The split.
        file: The file, or the first of several.
        found: The number of examples, which is at least one.
        readers: Who reads each share, in order. The first ones have an example, and the others have none.
        clones: Whether these are clones, and not workers.
    """
    kind, without = "clones" if clones else "workers", first_of(readers[found:], MOST_READERS)
    each = f"each of the {len(readers):,} {kind} reads a share of its own of {counted(found, 'example')}"
    advice = f"there must be an example for each: train with more examples or with fewer {kind}"
    return _fault(
        "TFD703",
        where,
        f"there is no example for {joined(without) if len(without) <= MOST_READERS else ', '.join(without)}",
        f"{counted(found, 'example')} for {len(readers):,} {kind}",
        notes=(f"{each} in `{file}`",),
        advice=f"{advice}, or with `per_clone = split`" if clones else advice,
    )


# --- fields -----------------------------------------------------------------------------------------------


def missing_field(
    where: Where, kind: str, name: str, names: Sequence[str], nearest: str | None
) -> Diagnostic:
    """Report a column, array or feature that the file lacks; `kind` is the word for it.

    Args:
        where: The file.
        kind: What is missing: `column`, `array` or `feature`.
        name: Its name.
        names: The names that the file has.
        nearest: The one of them that is most similar; None if none is similar.
    """
    return _fault(
        "TFD704",
        where,
        f"there is no {kind} `{name}`",
        "not found",
        notes=(f"there is {alternatives(names, name)}" if names else f"there is no {kind} at all",),
        advice=f"there is a {kind} with a similar name: `{nearest}`" if nearest else None,
    )


def row_length(where: Where, found: int, wanted: int) -> Diagnostic:
    """Report a row with fewer or more cells than the header has columns.

    Args:
        where: The row, and the place at which it is too short or too long.
        found: The number of its cells.
        wanted: The number of columns of the header.
    """
    return _fault(
        "TFD705",
        where,
        f"{found} cell{'s' if found != 1 else ''}, but the header has {wanted}",
        f"the row ends after {found}" if found < wanted else "one cell too many",
    )


def not_a_number(where: Where, cell: str, wanted: str) -> Diagnostic:
    """Report a cell that is not a number of the type that is wanted.

    Args:
        where: The cell.
        cell: Its text.
        wanted: What it should be, for the message.
    """
    shown = cell if len(cell) <= 40 else cell[:37] + "..."  # noqa: PLR2004 keeps the message on one line
    message = f"`{shown}` is not {wanted}" if cell.strip() else f"the cell is empty, not {wanted}"
    return _fault("TFD706", where, message, f"not {wanted}")


def out_of_range(where: Where, value: str, reason: str, *, advice: str | None = None) -> Diagnostic:
    """Report a number that its dtype or the number of classes does not allow.

    Args:
        where: The cell, record or example.
        value: The number as text.
        reason: What is wrong with it, as the end of a sentence.
        advice: What to do about it; None if there is no advice.
    """
    return _fault("TFD707", where, f"`{value}` {reason}", "out of range", advice=advice)


def quoting(where: Where, reason: str) -> Diagnostic:
    """Report quotes that do not pair up as CSV wants them.

    Args:
        where: The quote.
        reason: What is wrong with it, as a sentence.
    """
    return _fault("TFD708", where, reason, "here")


def header(where: Where, reason: str, *, notes: Sequence[str] = (), advice: str | None = None) -> Diagnostic:
    """Report a first row that cannot serve as header.

    Args:
        where: The row.
        reason: Why not, as a sentence.
        notes: What else is known, a sentence each.
        advice: What to do about it; None if there is no advice.
    """
    return _fault("TFD709", where, reason, "header", notes=notes, advice=advice)


# --- records ----------------------------------------------------------------------------------------------


def damaged(where: Where, reason: str, *, advice: str | None = None) -> Diagnostic:
    """Report a file that was cut off or whose bytes are not those that were written.

    Args:
        where: The file, or the record in it.
        reason: How that shows, as a sentence.
        advice: What to do about it; None if there is no advice.
    """
    return _fault("TFD710", where, reason, "damaged", advice=advice)


def wrong_shape(where: Where, found: str, wanted: str, *, advice: str | None = None) -> Diagnostic:
    """Report a record whose size does not fit the others or what the spec says.

    Args:
        where: The record.
        found: Its size, for the message.
        wanted: The size that it should have, for the message.
        advice: What to do about it; None if there is no advice.
    """
    return _fault("TFD711", where, f"{found}, expected {wanted}", found, advice=advice)


def wrong_kind(where: Where, found: str, wanted: str, *, advice: str | None = None) -> Diagnostic:
    """Report an array or feature of a type that cannot be used.

    Args:
        where: The array or feature.
        found: What it holds, for the message.
        wanted: What it should hold, for the message.
        advice: What to do about it; None if there is no advice.
    """
    return _fault("TFD712", where, f"holds {found}, not {wanted}", found, advice=advice)


def image(where: Where, reason: str, *, advice: str | None = None) -> Diagnostic:
    """Report an image that cannot be decoded, or of a format that is not read.

    Args:
        where: The image.
        reason: Why not, as a sentence.
        advice: What to do about it; None if there is no advice.
    """
    return _fault("TFD713", where, reason, "not a readable image", advice=advice)


def python_function(where: Where, reason: str, *, advice: str | None = None) -> Diagnostic:
    """Report a function named by `python(...)` that is missing, fails, or gives no examples.

    Args:
        where: The call of `python(...)`.
        reason: What is wrong with the function, as a sentence.
        advice: What to do about it; None if there is no advice.
    """
    return _fault("TFD714", where, reason, "this function", advice=advice)


def not_finite(where: Where, found: str, consequence: str, *, warns: bool = False) -> Diagnostic:
    """Report a number of the data that is infinite or not a number, and what has come of it.

    Args:
        where: The array or feature, and the example.
        found: The number, and its place if there are several, for the message.
        consequence: What has come of it, as a sentence.
        warns: Whether this is a warning: only what an evaluation says is lost.
    """
    fault = _fault(
        "TFD717",
        where,
        found,
        "not finite",
        notes=(consequence,),
        advice="give it a value, or leave this example out",
    )
    return evolve(fault, severity=Severity.WARNING) if warns else fault


def unexplained(where: Where, reason: str) -> Diagnostic:
    """Report a record that TensorFlow refuses for a reason that has no code of its own.

    Args:
        where: The record.
        reason: The message of TensorFlow.
    """
    return _fault("TFD715", where, "the record cannot be read", "", notes=(reason,))


# --- the spec and its data --------------------------------------------------------------------------------


def unknown_tensor(name: str, names: Sequence[str], nearest: str | None, span: Span | None) -> Diagnostic:
    """Report a transform of a tensor that the examples do not have.

    Args:
        name: The name as it is written.
        names: The tensors that the examples have.
        nearest: The one of them that is most similar; None if none is similar.
        span: The place of the name in the spec; None if it is not known.
    """
    return _spec_fault(
        "TFD720",
        f"the examples have no tensor `{name}`",
        span,
        "not in the examples",
        options("they have", names, name),
        f"there is a tensor with a similar name: `{nearest}`" if nearest else None,
    )


def lacks_input(
    split: str, name: str, names: Sequence[str], nearest: str | None, span: Span | None
) -> Diagnostic:
    """Report a model input for which the examples of a split have no tensor.

    Args:
        split: The name of the split.
        name: The name of the input.
        names: The tensors that the examples have.
        nearest: The one of them that is most similar; None if none is similar.
        span: The place of the source in the spec; None if it is not known.
    """
    return _spec_fault(
        "TFD721",
        f"the examples of `{split}` lack `{name}`, an input of the model",
        span,
        f"gives {alternatives(names, name)}" if names else "",
        (),
        to_have(name, nearest),
    )


def does_not_fit(name: str, found: str, wanted: str, span: Span | None, advice: str) -> Diagnostic:
    """Report a tensor whose dtype or shape after the transforms is not that of the input it feeds.

    Args:
        name: The name of the input.
        found: The type and shape of the tensor.
        wanted: The type and shape of the input.
        span: The place of the source or its last transform in the spec; None if it is not known.
        advice: What to write instead.
    """
    return _spec_fault(
        "TFD722",
        f"`{name}` is {found}, but the model's input is {wanted}",
        span,
        f"gives {found}",
        (),
        advice,
    )


def different_lengths(name: str, found: str, pad: str, span: Span | None) -> Diagnostic:
    """Report a tensor whose examples can have different lengths, and are not filled up to one.

    Args:
        name: The tensor.
        found: Its dtype and shape, in words of the language.
        pad: The transform that is missing.
        span: The source.
    """
    return _spec_fault(
        "TFD722",
        f"the examples of `{name}` can have different lengths, and a batch has one",
        span,
        f"gives {found}",
        (),
        f"add `{pad}`, which fills the examples of a batch up",
    )


def bad_transform(transform: str, reason: str, span: Span | None, advice: str | None = None) -> Diagnostic:
    """Report a transform that cannot be applied to the tensor that reaches it.

    Args:
        transform: The name of the transform.
        reason: Why not, as a sentence.
        span: The place of the transform in the spec; None if it is not known.
        advice: What to do about it; None if there is no advice.
    """
    return _spec_fault("TFD723", f"`{transform}` cannot be applied: {reason}", span, "here", (), advice)


def bad_argument(call: str, reason: str, span: Span | None, advice: str | None = None) -> Diagnostic:
    """Report an argument of a source or transform that has no meaning.

    Args:
        call: The name of the source or transform.
        reason: What is wrong, as the end of a sentence.
        span: The place of the argument in the spec; None if it is not known.
        advice: What to do about it; None if there is no advice.
    """
    return _spec_fault("TFD724", f"`{call}` {reason}", span, "here", (), advice)
