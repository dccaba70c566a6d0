"""Pieces of Markdown that the pages of the reference are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dsl import ir
from dsl.schema import Type
from dsl.schema.types import DAY, DTYPES, LARGEST, LONGEST, TERABYTE
from dsl.values import EXAMPLES

NOTICE = (
    "<!-- Written by `python -m tools.make_reference`; change the tables that it reads, not this page. -->\n"
)
NOUNS = {"bytes": "size", "seconds": "duration", "fraction": "percentage"}
PLAIN = {
    "float": "number",
    "int": "whole number",
    "bool": "`true` or `false`",
    "str": "string",
    "tensor": "name of a tensor",
    "any": "see above",
}
OBJECTS = {
    "aggregation": "aggregation",
    "compression": "compression",
    "clip": "bound",
    "average": "`EMA(...)`",
    "recomputation": "recomputation",
    "goal": "goal",
    "tracker": "tracker",
    "feature": "`feature(...)`",
    "length": "length",
}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with a blank line after it."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(_cell(each) for each in line)} |\n" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def takes(type_: Type) -> str:
    """Say what a type takes, with its bounds and words."""
    said = _takes(type_)
    return f"{said}, or `none`" if type_.optional else said


def _takes(type_: Type) -> str:
    if type_.kind == "quantity" and type_.dimension is not None:
        return f"{NOUNS[type_.dimension]}, such as `{EXAMPLES[type_.dimension]}`"
    if type_.kind == "list" and type_.item is not None:
        if type_.item.kind == "tensor":
            return "list of names of tensors"
        items = _takes(type_.item).replace(PLAIN[type_.item.kind], f"list of {PLAIN[type_.item.kind]}s", 1)
        return f"{items}; some may be `none`" if type_.item.optional else items
    return _named(type_)


def _named(type_: Type) -> str:
    if type_.kind == "word":
        return "dtype" if type_.words == DTYPES else ", ".join(f"`{each}`" for each in type_.words)
    if type_.kind == "either":
        return ", or ".join(_takes(each) for each in type_.options)
    if type_.kind == "keras":
        return f"[{type_.of}](keras.md#{type_.of}s)"
    if type_.kind == "call":
        return (
            OBJECTS[type_.of] if type_.of == "feature" else f"[{OBJECTS[type_.of]}](functions.md#{type_.of}s)"
        )
    return f"{PLAIN[type_.kind]}{_bounds(type_)}"


def _bounds(type_: Type) -> str:
    if type_.kind == "str":
        return ", not empty" if type_.low else ""
    if type_.kind == "quantity":
        most = {"seconds": f"{LONGEST // DAY}d", "bytes": f"{LARGEST // TERABYTE}TB"}.get(
            type_.dimension or ""
        )
        return f", up to `{most}`" if most else ""
    low, high = (None if each is None else f"{each:,}" for each in (type_.low, type_.high))
    if low is not None and high is not None:
        return f" between {low} and {high}" if type_.open else f", {low} to {high}"
    if low is not None:
        return f" above {low}" if type_.open else f", {low} or more"
    return ""


def written(value: Any) -> str:
    """Return a value as the language writes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, ir.Call):
        arguments = [
            *map(written, value.args),
            *(f"{key} = {written(each)}" for key, each in value.kwargs.items()),
        ]
        return f"{value.name}({', '.join(arguments)})" if arguments else value.name
    if isinstance(value, tuple):
        return f"[{', '.join(map(written, value))}]"
    return str(value)
