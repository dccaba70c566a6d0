"""Every row and function of messages with made-up values: with all it can be given, and with as little."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import dsl.errors
from dsl.diagnostics import Diagnostic, Edit, Label
from dsl.errors.data import Fault, Where
from dsl.errors.wording import Placeless, Row
from dsl.ir import Condition
from dsl.source import Source, Span

Factory: TypeAlias = "Row | Callable[..., Diagnostic]"

KINDS = {
    "text": "str",
    "number": "int",
    "flag": "bool",
    "names": "Sequence[str]",
    "sizes": "Sequence[int | None]",
    "place": "Span",
}
"""The types of what the kinds of fields are filled with."""

SHARED = {"wording"}
"""Modules of the package that have no messages of their own."""

PLACES = "Span|Source|Where|Edit|Label|Condition"
"""What the types of arguments are that point to a place, as a pattern."""


def modules() -> list[str]:
    """Return the names of the modules with messages, below `dsl.errors`."""
    beginning = "dsl.errors."
    found = pkgutil.walk_packages(dsl.errors.__path__, beginning)
    names = (each.name.removeprefix(beginning) for each in found if not each.ispkg)
    return sorted(name for name in names if name not in SHARED)


def factories(module: str) -> Iterator[tuple[str, Factory]]:
    """Yield the rows of a module, and its functions that make a diagnostic, by their names in the file."""
    found = importlib.import_module(f"dsl.errors.{module}")
    for name, each in vars(found).items():
        if name.startswith("_"):
            continue
        if isinstance(each, Row) or (
            inspect.isfunction(each)
            and each.__module__ == found.__name__
            and inspect.signature(each).return_annotation == "Diagnostic"
        ):
            yield name, each


def made(factory: Factory, given: dict[str, Any], *, full: bool) -> Diagnostic:
    """Return the diagnostic of a row or function with the values `given`, the others made up."""
    if isinstance(factory, Row):
        return _of_row(factory, given, full=full)
    parameters = inspect.signature(factory).parameters.values()
    places = {each.name for each in parameters if re.search(PLACES, str(each.annotation))}
    source = _text_with(places)
    values = {}
    for each in parameters:
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        if each.name in given:
            values[each.name] = given[each.name]
        elif full or each.default is inspect.Parameter.empty:
            values[each.name] = _made_up(each.name, str(each.annotation), source, full=full)
    return factory(**values)


def _of_row(row: Row, given: dict[str, Any], *, full: bool) -> Diagnostic:
    places = {name.removesuffix("?") for name in row.places}
    source = _text_with({*places, *(("labels",) if row.labelled else ())})
    values = {
        name: _made_up(name, KINDS[field.kind], source, full=full)
        for name, field in row.fields.items()
        if full or not field.optional or field.kind in {"names", "sizes"}
    }
    values |= given
    if isinstance(row, Placeless):
        return row(**values)
    if isinstance(row, Fault):
        return row(_made_up("where", "Where", _text_with(["where"]), full=full), **values)
    if row.labelled:
        values["labels"] = _made_up("labels", "tuple[Label, ...]", source, full=full)
    nowhere = not full and "{if:span}" in repr(row)
    return row(None if nowhere else _made_up("span", "Span", source, full=full), **values)


def _text_with(places: Iterable[str]) -> Source:
    """Return a text with a line for each place, which holds its name; that of the fault comes first."""
    lines = ["span", *sorted(set(places) - {"span"})]
    return Source("spec.tfdeploy", "".join(f"{line}\n" for line in lines))


def _made_up(name: str, kind: str, source: Source, *, full: bool) -> Any:
    """Return a value of a type, which shows in a message as the name of its parameter."""
    word = name.upper().replace("_", " ")
    if kind.endswith(" | None"):
        return _made_up(name, kind.removesuffix(" | None"), source, full=full) if full else None
    start = f"\n{source.text}".find(f"\n{name}\n")
    span = Span(source, start, start + len(name))
    values: dict[str, tuple[Any, Any]] = {  # as much as there can be, and as little
        "str": (word, word),
        "int": (3, 1),
        "float": (0.5, 0.5),
        "bool": (True, False),
        "bytes": (b"PK\x03\x04", b""),
        "Span": (span, span),
        "Source": (source, source),
        "Where": (
            Where("DATA", "PLACE", span, Span(source, 0, source.text.index("\n"))),
            Where("DATA"),
        ),
        "Dimension": ("bytes", "fraction"),
        "tuple[Label, ...]": ((Label(span, word),), ()),
        "Iterable[Span]": ((span,), ()),
        "Sequence[Span]": ((span, span), (span,)),
        "Sequence[Edit]": ((Edit(span, word),), (Edit(span, word),)),
        "Sequence[int]": ((2, 3), (1,)),
        "Mapping[str, int]": ({"FROM": 3, "TO": 2}, {"FROM": 1}),
        "Sequence[tuple[str, Span | None]]": (((word, span),), ((word, None),)),
        "Sequence[int | None]": ((None, 3), (3,)),
        "Mapping[tuple[str, str], int]": ({("FROM", "TO"): 3}, {("FROM", "TO"): 1}),
        "Condition": (
            Condition("memory", (), "<=", 1.0, "CONDITION", span=span),
            Condition("ops", (), "==", 0.0, "CONDITION", span=span),
        ),
    }
    for strings in ("Sequence[str]", "Iterable[str]", "tuple[str, ...]"):
        values[strings] = ((f"{word} 1", f"{word} 2"), (word,))
    return values[kind][0 if full else 1]
