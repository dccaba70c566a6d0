"""The rows of the tables of messages: what a diagnostic says, with fields that the check fills in.

A row is a constant of its table, and the check that finds the fault calls it:

    no_such_task = Wording("TFD761", "the cluster has no task {ref:quoted}", help="write {near?:quoted}")

    no_such_task(span, ref="worker[3]", near="worker[2]")

The texts of a row hold fields in braces, as Python's formats do. After the colon is a word of `WORDS`, such
as `quoted`, or a format of Python, such as `,`. A field with a question mark may be missing, which means that
it is not given, None or empty; and `{if:folder}` shows nothing, and asks whether `folder` is true. A text is
left out if a field of it is missing or a flag is false; `either` gives others for this case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from string import Formatter
from typing import Any, Literal, TypeAlias

from attrs import field, frozen

from dsl.diagnostics import Diagnostic, Fix, Label, Severity
from dsl.errors.words import alternatives, article, counted, first_of, in_full, joined, listed, quoted, sizes
from dsl.source import Span

Text: TypeAlias = str | tuple[str, ...]
"""A text with fields, or several of which the first is shown that is not left out."""

Value: TypeAlias = str | float | Span | Iterable[str] | Iterable[int | None] | None
"""What a field is filled with."""

Kind: TypeAlias = Literal["text", "number", "flag", "names", "sizes", "place"]

WARNING = Severity.WARNING


def _number(of: Any) -> int:
    return len(of) if isinstance(of, tuple) else int(of)


WORDS: Mapping[str, Callable[[Any, str], str]] = {
    "quoted": lambda text, _: quoted(text),
    "in_full": lambda path, _: in_full(path),
    "article": lambda word, quotes: article(quoted(word) if quotes else word),
    "counted": lambda of, noun: counted(_number(of), noun),
    "count": lambda of, _: str(_number(of)),
    "is": lambda of, _: "is" if _number(of) == 1 else "are",
    "has": lambda of, _: "has" if _number(of) == 1 else "have",
    "was": lambda of, _: "was" if _number(of) == 1 else "were",
    "listed": lambda names, last: listed(names, last or "and"),
    "joined": lambda words, last: joined(words, last or "and"),
    "alternatives": alternatives,
    "sizes": lambda shape, _: sizes(shape),
}
"""What can be after the colon of a field, and after a space what it needs: `{names:listed or}`."""


_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("listed", "joined", "alternatives", "each"), "names"),
    **dict.fromkeys(("counted", "count", "is", "has", "was", "d", ","), "number"),
    "sizes": "sizes",
}
"""What a field is filled with by its word, if that is no text; a list is also counted."""


@frozen
class Field:
    """A field of a row.

    Attributes:
        kind: What it is filled with.
        optional: Whether it may be missing.
    """

    kind: Kind
    optional: bool

    def joined(self, other: Field) -> Field:
        """Return the field of two uses; a list may be counted, and what is shown be asked for."""
        weak: tuple[Kind, ...] = ("flag", "number")
        kind = max(self.kind, other.kind, key=lambda kind: weak.index(kind) if kind in weak else len(weak))
        return Field(kind, self.optional and other.optional)


def either(*texts: str) -> Text:
    """Return the text that is the first of `texts` which is not left out."""
    return texts


@frozen
class Replacing:
    """A fix that replaces the text at the place of the fault, with the fields of `Fix.replacing`."""

    title: str
    replacement: str
    safe: bool = False


TO_NEAREST = Replacing("write {near?:quoted}", "{near?}")
"""The fix of a name that is not known: the known one, `near`, that is probably meant."""


@frozen(slots=False)
class Row:
    """What a diagnostic says. The classes below differ in how they are told the place of a fault.

    Attributes:
        code: The number of its kind, of which `dsl/codes.py` has the name.
        message: What is wrong.
        text: The text beside the marker of the place.
        places: Texts at other places that help to understand the fault, by the fields of these places.
        notes: Facts about the fault. `{names:each}` stands for a note for each value, and `{names:each 5}`
            for five of them at most and how many are left out.
        help: What to do.
        fix: The correction, if it is one replacement at the place of the fault.
        severity: Error or warning.
        file: The file that a fault without a place is about.
        labelled: Whether the check can give further places with texts of their own, as `labels`.
    """

    code: str
    message: Text
    text: Text = ""
    places: Mapping[str, str] = field(factory=dict)
    notes: tuple[Text, ...] = ()
    help: Text = ""
    fix: Replacing | None = None
    severity: Severity = Severity.ERROR
    file: str = ""
    labelled: bool = False

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The fields of the row but `span`, by their names."""
        found = {name.removesuffix("?"): Field("place", name.endswith("?")) for name in self.places}
        fix = (self.fix.title, self.fix.replacement) if self.fix else ()
        for text in (self.message, self.text, *self.places.values(), *self.notes, self.help, *fix, self.file):
            for each in (text,) if isinstance(text, str) else text:
                for name, use in _fields(each):
                    found[name] = use.joined(found.get(name, use))
        found.pop("span", None)
        return found

    def filled(self, span: Span | None, labels: tuple[Label, ...], fields: Mapping[str, Value]) -> Diagnostic:
        """Return the diagnostic of a fault at a place.

        Args:
            span: The place; None if there is none.
            labels: Further places with texts of their own.
            fields: What the fields of the row are filled with.

        Raises:
            TypeError: If a field is missing that the row needs, or it does not have one that is given.
        """
        needed = {name for name, use in self.fields.items() if not use.optional}
        wrong = (fields.keys() - self.fields.keys()) | (needed - fields.keys())
        if wrong:
            raise TypeError(f"{self.code}, {self.message!r}: {', '.join(sorted(wrong))}")
        values = {name: _value(value) for name, value in {**fields, "span": span}.items()}
        notes = [note for text in self.notes for note in _notes(text, values)]
        return Diagnostic(
            self.code,
            _filled(self.message, values) or "",
            span,
            _filled(self.text, values) or "",
            self.severity,
            (*self._labels(fields, values), *labels),
            tuple(notes),
            _filled(self.help, values) or None,
            self._fix(span, values),
            _filled(self.file, values) or None,
        )

    def _labels(self, fields: Mapping[str, Value], values: Mapping[str, Any]) -> Iterator[Label]:
        for name, text in self.places.items():
            place = fields.get(name.removesuffix("?"))
            if isinstance(place, Span):
                yield Label(place, _filled(text, values) or "")

    def _fix(self, span: Span | None, values: Mapping[str, Any]) -> Fix | None:
        title = _filled(self.fix.title, values) if self.fix is not None else None
        if self.fix is None or title is None or span is None:
            return None
        return Fix.replacing(title, span, _filled(self.fix.replacement, values) or "", safe=self.fix.safe)


class Wording(Row):
    """A row of faults with a place in a spec."""

    def __call__(
        self, span: Span | None, /, *, labels: tuple[Label, ...] = (), **fields: Value
    ) -> Diagnostic:
        """Return the diagnostic.

        Args:
            span: The place; None if it is not known.
            labels: Further places, if the row is `labelled`.
            **fields: What the fields of the row are filled with.
        """
        return self.filled(span, labels, fields)


class Placeless(Row):
    """A row of faults that are at no place in a spec."""

    def __call__(self, **fields: Value) -> Diagnostic:
        """Return the diagnostic with the fields of the row filled in."""
        return self.filled(None, (), fields)


def _fields(text: str) -> Iterator[tuple[str, Field]]:
    """Yield the fields of a text, by their names."""
    for _, name, word in _parts(text):
        if name == "if":
            yield word, Field("flag", optional=False)
        elif name:
            yield (
                name.removesuffix("?"),
                Field(_KINDS.get(word.partition(" ")[0], "text"), name.endswith("?")),
            )
            yield from _fields(word)


@cache
def _parts(text: str) -> tuple[tuple[str, str, str], ...]:
    """Return the parts of a text: each some characters, the name of the field after them, and its word."""
    return tuple((plain, name or "", word or "") for plain, name, word, _ in Formatter().parse(text))


def _filled(text: Text, values: Mapping[str, Any]) -> str | None:
    """Return a text with its fields filled in, or None if it is left out."""
    if not isinstance(text, str):
        return next((made for each in text if (made := _filled(each, values)) is not None), None)
    made = ""
    for plain, name, word in _parts(text):
        made += plain
        if name == "if":
            if not values[word]:
                return None
        elif name:
            value = values.get(name.removesuffix("?"))
            if name.endswith("?") and value in (None, "", ()):
                return None
            kind, _, rest = (_filled(word, values) or "").partition(" ")
            made += WORDS[kind](value, rest) if kind in WORDS else format(value, kind)
    return made


def _notes(text: Text, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the notes that a text of a row stands for."""
    parts = _parts(text) if isinstance(text, str) else ()
    if len(parts) == 1 and parts[0][2].startswith("each"):
        notes = values.get(parts[0][1].removesuffix("?")) or ()
        return first_of(notes, int(parts[0][2].removeprefix("each") or len(notes)))
    made = _filled(text, values)
    return () if made is None else (made,)


def _value(given: Value) -> Any:
    """Return what a field is filled with: the text of a place, a tuple for other values in a row."""
    if isinstance(given, Span):
        return given.text
    return given if given is None or isinstance(given, (str, int, float)) else tuple(given)
