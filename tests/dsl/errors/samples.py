"""Every factory of messages called with made-up arguments: with all it can be given, and with as little."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from typing import TYPE_CHECKING, Any

import dsl.errors
from dsl.diagnostics import Diagnostic, Edit, Label
from dsl.errors.running.running_data import Where
from dsl.ir import Condition
from dsl.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SHARED = {"making", "words"}
"""Modules of the package that have no factories."""

PLACES = "Span|Source|Where|Edit|Label|Condition"
"""What the types of arguments are that point to a place, as a pattern."""


def modules() -> list[str]:
    """Return the names of the modules with factories, below `dsl.errors`: `text.files` and so on."""
    beginning = "dsl.errors."
    found = pkgutil.walk_packages(dsl.errors.__path__, beginning)
    names = (each.name.removeprefix(beginning) for each in found if not each.ispkg)
    return sorted(name for name in names if name not in SHARED)


def factories(module: str) -> Iterator[tuple[str, Callable[..., Diagnostic]]]:
    """Yield the factories of a module by their names, in the order of the file."""
    found = importlib.import_module(f"dsl.errors.{module}")
    for name, function in vars(found).items():
        if (
            inspect.isfunction(function)
            and function.__module__ == found.__name__
            and not name.startswith("_")
            and inspect.signature(function).return_annotation == "Diagnostic"
        ):
            yield name, function


def arguments(function: Callable[..., Diagnostic], given: dict[str, Any], *, full: bool) -> dict[str, Any]:
    """Return arguments for a factory: those `given`, else made up by their types and names."""
    parameters = inspect.signature(function).parameters.values()
    places = {each.name for each in parameters if re.search(PLACES, str(each.annotation))}
    source = _text_with(places)
    made = {}
    for each in parameters:
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        if each.name in given:
            made[each.name] = given[each.name]
        elif full or each.default is inspect.Parameter.empty:
            made[each.name] = _made_up(each.name, str(each.annotation), source, full=full)
    return made


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
