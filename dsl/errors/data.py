"""TFD701 to TFD729: data, with file, record and field; and a spec that does not fit its data."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, field, frozen

from dsl.diagnostics import Diagnostic, Label
from dsl.errors.wording import TO_HAVE, Row, Value, Wording, either, first_of, joined
from dsl.source import Span

MOST_READERS = 4
"""How many clones or workers without an example are named."""


@frozen
class Where:
    """A place in the data."""

    path: str  # the file, as the user can open it
    place: str = ""  # the place in the file in words, such as `row 18`; nothing for the whole file
    span: Span | None = field(default=None, eq=False)  # the place in the file itself if that is text, or None
    call: Span | None = field(default=None, eq=False)  # the source in the spec that reads the file, or None

    @property
    def words(self) -> str:
        """File and place, as a message begins."""
        return f"`{self.path}`, {self.place}" if self.place else f"`{self.path}`"


class Fault(Row):
    """A row of faults in the data."""

    def __call__(self, where: Where, /, **fields: Value) -> Diagnostic:
        """Return the diagnostic of a fault at a place in the data, with the fields filled in."""
        both = where.span is not None and where.call is not None
        labels = (Label(where.call, "read by this source"),) if both and where.call is not None else ()
        made = self.filled(where.span or where.call, labels, fields)
        return evolve(made, message=f"{where.words}: {made.message}")


# --- files ------------------------------------------------------------------------------------------------

_missing = Fault(
    "TFD701: {is_glob:|no file matches|there is no such {kind}}",
    text="not found",
    notes=("paths are relative to the folder of the spec",),
    help="a {kind} with a similar name is there: `{nearest?}`",
)
unpaired = Fault(
    "TFD701: there is no {other} of the same name in `{folder}`",
    text="without its pair",
    notes=("an image and its mask have the same name but for the ending",),
)
unreadable = Fault("TFD702: {reason}", text="cannot be read", help="{advice?}")
empty = Fault("TFD703: {what}", text="no examples", help="{advice?}")
_empty_share = Fault(
    "TFD703: there is no example for {without}",
    text="{found:counted example} for {readers:,} {kind}",
    notes=("each of the {readers:,} {kind} reads a share of its own of {found:counted example} in `{file}`",),
    help="there must be an example for each: train with more examples or with fewer "
    "{clones:|clones, or with `per_clone = split`|workers}",
)


def missing(where: Where, *, nearest: str | None = None, folder: bool = False) -> Diagnostic:
    """Return the diagnostic of a data file or folder that is not there, or a glob that matches nothing."""
    is_glob = any(sign in where.path for sign in "*?[")
    return _missing(where, is_glob=is_glob, kind="folder" if folder else "file", nearest=nearest)


def empty_share(where: Where, file: str, found: int, readers: Sequence[str], *, clones: bool) -> Diagnostic:
    """Return the diagnostic of clones or workers of which the first `found` have an example, no others."""
    without = first_of(readers[found:], MOST_READERS)
    return _empty_share(
        where,
        without=joined(without) if len(without) <= MOST_READERS else ", ".join(without),
        found=found,
        readers=len(readers),
        kind="clones" if clones else "workers",
        file=file,
        clones=clones,
    )


# --- fields -----------------------------------------------------------------------------------------------

missing_field = Fault(
    "TFD704: there is no {kind} `{name}`",
    text="not found",
    notes=(either("there is {known?:alternatives {name}}", "there is no {kind} at all"),),
    help="there is a {kind} with a similar name: `{near?}`",
)
row_length = Fault(
    "TFD705: {found:counted cell}, but the {nameless:|first row|header} has {wanted:d}",
    text="{short:|the row ends after {found:d}|one cell too many}",
)
_not_a_number = Fault("TFD706: {cell?:|`{cell}` is|the cell is empty,} not {wanted}", text="not {wanted}")
out_of_range = Fault("TFD707: `{value}` {reason}", text="out of range", help="{advice?}")
quoting = Fault("TFD708: {reason}", text="here")
header = Fault("TFD709: {reason}", text="header", notes=("{notes?:each}",), help="{advice?}")


def not_a_number(where: Where, cell: str, wanted: str) -> Diagnostic:
    """Return the diagnostic of a cell that is not a number of the type that is wanted."""
    shown = cell if len(cell) <= 40 else cell[:37] + "..."  # noqa: PLR2004 keeps the message on one line
    return _not_a_number(where, cell=shown if cell.strip() else None, wanted=wanted)


# --- records ----------------------------------------------------------------------------------------------

damaged = Fault("TFD710: {reason}", text="damaged", help="{advice?}")
wrong_shape = Fault("TFD711: {found}, expected {wanted}", text="{found}", help="{advice?}")
wrong_kind = Fault("TFD712: holds {found}, not {wanted}", text="{found}", help="{advice?}")
image = Fault("TFD713: {reason}", text="not a readable image", help="{advice?}")
python_function = Fault("TFD714: {reason}", text="this function", help="{advice?}")
not_finite = Fault(
    "TFD717: {found}",
    text="not finite",
    notes=("{consequence}",),
    help="give it a value, or leave this example out",
    warns_if="warns",
)
unexplained = Fault("TFD715: the record cannot be read", notes=("{reason}",))

# --- the spec and its data --------------------------------------------------------------------------------

unknown_tensor = Wording(
    "TFD720: the examples have no tensor `{name}`",
    text="not in the examples",
    notes=("they have {known?:alternatives {name}}",),
    help="there is a tensor with a similar name: `{near?}`",
)
lacks_input = Wording(
    "TFD721: the examples of `{split}` lack `{name}`, an input of the model",
    text="{names?:|gives {names:alternatives {name}}|}",
    help=TO_HAVE,
)
does_not_fit = Wording(
    "TFD722: `{name}` is {found}, but the model's input is {wanted}", text="gives {found}", help="{advice}"
)
different_lengths = Wording(
    "TFD722: the examples of `{name}` can have different lengths, and a batch has one",
    text="gives {found}",
    help="add `{pad}`, which fills the examples of a batch up",
)
bad_transform = Wording("TFD723: `{transform}` cannot be applied: {reason}", text="here", help="{advice?}")
bad_argument = Wording("TFD724: `{call}` {reason}", text="here", help="{advice?}")
