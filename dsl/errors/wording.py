"""The rows of the tables of messages: what a diagnostic says, with fields that the check fills in.

A row is a constant of its table, and the check that finds the fault calls it:

    no_such_task = Wording("TFD761: the cluster has no task {ref:quoted}", help="write {near?:quoted}")

    no_such_task(span, ref="worker[3]", near="worker[2]")

The texts of a row hold fields in braces, as Python's formats do. After the colon is a word of `WORDS`, such
as `quoted`, or a format of Python, such as `,`. A field with a question mark may be missing, which means that
it is not given, None or empty; a text is left out if a field of it is missing. There is also

    {if:folder}, {unless:folder}      which show nothing; the text is left out unless, or if, `folder` is true
    {folder:|a folder|a file}         which shows the first text if `folder` is true, else the second one
    either("{if:folder}...", "...")   which is the first of these texts that is not left out

A flag that need not be given has a question mark as well: `{if:folder?}`. A field `near` that is not given is
what of the field `known` is the most similar to `name`. `tools/mypy_rows.py` tells mypy the fields of each
row, and what they are filled with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from string import Formatter
from typing import Any, Literal, TypeAlias

from attrs import field, frozen

from dsl.diagnostics import Diagnostic, Fix, Label, Severity
from dsl.source import Span
from dsl.suggest import by_nearness, nearest

LONGEST = 60
MOST_LISTED = 8
MOST_NAMES = 5
MOST_LABELS = 4


def quoted(text: str) -> str:
    """Return a text in backticks, on one line, shortened if it is long."""
    text = " ".join(text.split())
    return f"`{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}`"


def in_full(path: str) -> str:
    """Return a path in backticks without shortening it, because a part of it would name another file."""
    return f"`{' '.join(path.split(chr(10)))}`"


def listed(names: Iterable[str], last: str = "and") -> str:
    """Return names in backticks as a list in a sentence: `a`, `b` and `c`."""
    return joined([quoted(name) for name in names], last)


def joined(words: Iterable[str], last: str = "and") -> str:
    """Return words as a list in a sentence: a, b and c."""
    *start, end = words
    return f"{', '.join(start)} {last} {end}" if start else end


def article(word: str) -> str:
    """Return `word` with `a` or `an` before it."""
    plain = word.strip("`").lower()
    return f"{'an' if plain[:1] in set('aeiou') and plain[:3] not in {'uni', 'use'} else 'a'} {word}"


def counted(number: int, noun: str) -> str:
    """Return a number with a noun, in the plural unless the number is one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def ticked(names: Iterable[str], last: str) -> str:
    """Return names in backticks, none shortened, with a comma or a word between all of them."""
    return (", " if last == "," else f" {last} ").join(f"`{name}`" for name in names)


def some(names: Sequence[str]) -> str:
    """Return at most five names in backticks as a list in a sentence, and how many are left out."""
    left = len(names) - MOST_NAMES
    shown = ", ".join(f"`{name}`" for name in names[:MOST_NAMES])
    return f"{shown} and {left} more" if left > 0 else listed(names)


def roughly(number: int) -> str:
    """Return a large number in two digits: about 12,000."""
    digits = max(0, len(str(number)) - 2)
    return f"about {number // 10**digits * 10**digits:,}"


def countable(number: int) -> str:
    """Return a number, or that it is very large."""
    return f"{number:,}" if number < 10**12 else "more than a million millions"


def sizes(shape: Iterable[int | None]) -> str:
    """Return a shape as the language writes it, with `?` for an axis of unknown size: [28, ?]."""
    return f"[{', '.join('?' if each is None else str(each) for each in shape)}]"


def first_of(notes: Sequence[str], most: int) -> tuple[str, ...]:
    """Return the first of several notes, and in the last place how many are left out, if any."""
    left = len(notes) - most
    return (*notes[:most], f"and {left} more") if left > 0 else tuple(notes)


def alternatives(names: Iterable[str], to: str = "") -> str:
    """Return a list of at most eight names for a sentence, those most similar to `to` first.

    The list ends with the number of the names that are left out.
    """
    known = by_nearness(to, names)
    shown = [quoted(each) for each in known[:MOST_LISTED]]
    left = len(known) - len(shown)
    return joined([*shown, f"{left} more"] if left else shown)


def here_too(spans: Sequence[Span]) -> tuple[tuple[Label, ...], tuple[str, ...]]:
    """Return the labels of further places of a fault, and a note of how many are left out, if any."""
    unseen = len(spans) - MOST_LABELS
    more = (f"and in {counted(unseen, 'more place')}",) if unseen > 0 else ()
    return tuple(Label(each, "here too") for each in spans[:MOST_LABELS]), more


Text: TypeAlias = str | tuple[str, ...]
"""A text with fields, or several of which the first is shown that is not left out."""

Value: TypeAlias = str | float | Span | Iterable[str] | Iterable[int | None] | None
"""What a field is filled with."""

Kind: TypeAlias = Literal["text", "number", "flag", "names", "sizes", "place"]

_FORMATS: Mapping[str, Kind] = {"d": "number", ",": "number", "each": "names"}


def _number(of: Any) -> int:
    return len(of) if isinstance(of, tuple) else int(of)


WORDS: Mapping[str, tuple[Kind, Callable[[Any, str], str]]] = {
    "quoted": ("text", lambda text, _: quoted(text)),
    "in_full": ("text", lambda path, _: in_full(path)),
    "article": ("text", lambda word, quotes: article(quoted(word) if quotes else word)),
    "counted": ("number", lambda of, noun: counted(_number(of), noun)),
    "count": ("number", lambda of, _: str(_number(of))),
    "plus": ("number", lambda number, more: str(number + int(more))),
    "about": ("number", lambda number, _: roughly(number)),
    "countable": ("number", lambda number, _: countable(number)),
    "plural": ("number", lambda of, noun: noun if _number(of) == 1 else f"{noun}s"),
    "is": ("number", lambda of, _: "is" if _number(of) == 1 else "are"),
    "has": ("number", lambda of, _: "has" if _number(of) == 1 else "have"),
    "was": ("number", lambda of, _: "was" if _number(of) == 1 else "were"),
    "listed": ("names", lambda names, last: listed(names, last or "and")),
    "listed_in_full": ("names", lambda names, _: joined([in_full(name) for name in names])),
    "joined": ("names", lambda words, last: joined(words, last or "and")),
    "ticked": ("names", ticked),
    "some": ("names", lambda names, _: some(names)),
    "first": ("names", lambda names, case: names[0].upper() if case == "upper" else names[0]),
    "last": ("names", lambda names, _: str(names[-1])),
    "alternatives": ("names", alternatives),
    "sizes": ("sizes", lambda shape, _: sizes(shape)),
}
"""What can be after the colon of a field, and after a space what it needs: `{names:listed or}`.

With each is what the field is filled with; a list can also be counted.
"""


@frozen
class Field:
    """What a field of a row is filled with, and whether it may be missing."""

    kind: Kind
    optional: bool


def either(*texts: str) -> Text:
    """Return the text that is the first of `texts` which is not left out."""
    return texts


@frozen
class Replacing:
    """A fix that replaces the text at the place of the fault, with the fields of `Fix.replacing`."""

    title: Text
    replacement: Text
    safe: bool = False


_SOURCES = (
    "take a source that can have it: `csv`, `npz`, `tfrecord`, `synthetic` or `python`, as in "
    '`csv("a.csv", {name} = "column")`'
)
TO_HAVE = (
    f"rename it: `-> rename({{name}} = {{near?}})`; or {_SOURCES}",
    f"rename another, `-> rename({{name}} = OTHER)`, or {_SOURCES}",
)
"""How examples come to have a tensor, `name`, perhaps from one with a similar name, `near`."""

TO_NEAREST = Replacing("write {near?:quoted}", "{near?}")
"""The fix of a name that is not known: the known one, `near`, that is probably meant."""


@frozen(slots=False)
class Row:
    """What a diagnostic says. The classes below differ in how they are told the place of a fault."""

    # `warning` if it is no error, the code of its kind, which is in `dsl/codes.py`, a colon, and what is
    # wrong.
    message: Text
    text: Text = ""  # the text beside the marker of the place
    # Texts at other places that help to understand the fault, by the fields of these places.
    places: Mapping[str, str] = field(factory=dict)
    # Facts about the fault. `{names:each}` stands for a note for each value, and `{names:each 5}` for five of
    # them at most and how many are left out.
    notes: tuple[Text, ...] = ()
    help: Text = ""
    fix: Replacing | None = None  # the correction, if it is one replacement at the place of the fault
    warns_if: str = ""  # the flag that makes a warning of it; empty if there is none
    file: str = ""  # the file that a fault without a place is about
    labelled: bool = False  # whether the check can give further places with texts of their own, as `labels`

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The fields of the row but `span`, by their names."""
        uses: dict[str, list[Field]] = defaultdict(list)
        for name in self.places:
            uses[name.removesuffix("?")].append(Field("place", name.endswith("?")))
        fix = (self.fix.title, self.fix.replacement) if self.fix else ()
        for text in (self.message, self.text, *self.places.values(), *self.notes, self.help, *fix, self.file):
            for each in (text,) if isinstance(text, str) else text:
                for name, use in _fields(each):
                    uses[name].append(use)
        if self.warns_if:
            uses[self.warns_if].append(Field("flag", optional=False))
        return {name: _field(of) for name, of in uses.items() if name != "span"}

    def filled(self, span: Span | None, labels: tuple[Label, ...], fields: Mapping[str, Value]) -> Diagnostic:
        """Return the diagnostic of a fault at a place. It is a TypeError if a field is missing or unknown."""
        needed = {name for name, use in self.fields.items() if not use.optional}
        wrong = (fields.keys() - self.fields.keys()) | (needed - fields.keys())
        if wrong:
            raise TypeError(f"{self.message}: {', '.join(sorted(wrong))}")
        values = {name: _value(value) for name, value in {**fields, "span": span}.items()}
        if {"name", "near"} <= self.fields.keys() and "near" not in fields and fields.get("known"):
            values["near"] = nearest(values["name"], values["known"])
        head, _, message = (_filled(self.message, values) or "").partition(": ")
        code = head.removeprefix("warning ")
        warns = code != head or (self.warns_if and fields[self.warns_if])
        notes = [note for text in self.notes for note in _notes(text, values)]
        return Diagnostic(
            code,
            message,
            span,
            _filled(self.text, values) or "",
            Severity.WARNING if warns else Severity.ERROR,
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
        """Return the diagnostic of a fault at a place, None if it is not known, with the fields filled in."""
        return self.filled(span, labels, fields)


class Placeless(Row):
    """A row of faults that are at no place in a spec."""

    def __call__(self, **fields: Value) -> Diagnostic:
        """Return the diagnostic with the fields of the row filled in."""
        return self.filled(None, (), fields)


def unknown(message: str, noun: str, *known: str, help: str = "") -> Wording:  # noqa: A002
    """Return the row of a `name` of something, as `noun` says, that there is not.

    It names the most similar one, `near`, or else the first of the texts `known` that is not left out.
    """
    near = f"there is {article(noun)} with a similar name: {{near?:quoted}}"
    return Wording(message, text=f"unknown {noun}", notes=(either(near, *known),), help=help, fix=TO_NEAREST)


def _field(uses: Sequence[Field]) -> Field:
    """Return a field for all its uses: a list may also be counted, and what is shown also be asked for."""
    shown = [use for use in uses if use.kind != "flag"]
    kinds = {use.kind for use in shown} or {"flag"}
    (kind,) = kinds if len(kinds) == 1 else kinds - {"number"}
    asked = any(use.optional for use in uses if use.kind == "flag")
    return Field(kind, asked or (bool(shown) and all(use.optional for use in shown)))


def _fields(text: str) -> Iterator[tuple[str, Field]]:
    for _, name, word in _parts(text):
        if name in {"if", "unless"}:
            yield word.removesuffix("?"), Field("flag", word.endswith("?"))
        elif name and word.startswith("|"):
            yield name.removesuffix("?"), Field("flag", name.endswith("?"))
            yield from _fields(word)
        elif name:
            kind = word.partition(" ")[0]
            of = WORDS[kind][0] if kind in WORDS else _FORMATS.get(kind, "text")
            yield name.removesuffix("?"), Field(of, name.endswith("?"))
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
        if name in {"if", "unless"}:
            if _is_given(word, values) is (name == "unless"):
                return None
        elif name and word.startswith("|"):
            _, true, false = word.split("|")
            made += _filled(true if _is_given(name, values) else false, values) or ""
        elif name:
            if name.endswith("?") and not _is_given(name, values):
                return None
            value = values.get(name.removesuffix("?"))
            value = value.text if isinstance(value, Span) else value
            kind, _, rest = (_filled(word, values) or "").partition(" ")
            made += WORDS[kind][1](value, rest) if kind in WORDS else format(value, kind)
    return made


def _is_given(name: str, values: Mapping[str, Any]) -> bool:
    """Whether a field that may be missing is there, or another one is true."""
    value = values.get(name.removesuffix("?"))
    return value is not False and value not in (None, "", ()) if name.endswith("?") else bool(value)


def _notes(text: Text, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the notes that a text of a row stands for."""
    parts = _parts(text) if isinstance(text, str) else ()
    if len(parts) == 1 and parts[0][2].startswith("each"):
        notes = values.get(parts[0][1].removesuffix("?")) or ()
        return first_of(notes, int(parts[0][2].removeprefix("each") or len(notes)))
    made = _filled(text, values)
    return () if made is None else (made,)


def _value(given: Value) -> Any:
    """Return what a field is filled with, with a tuple for values in a row."""
    return given if given is None or isinstance(given, (str, int, float, Span)) else tuple(given)
