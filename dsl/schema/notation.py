"""The notation of the tables of the language: a line for each argument or attribute, with its type.

    csv: rows of a CSV file
      path: path -- a file, or a glob of files
      *header = true: bool | [str] -- whether the first row names the columns, or these names
      **x = "column": str

A function or block has its description behind its name. A function that gives tensors has these behind `->`,
and a block may have a name of its own, and blocks inside: `model "name" { metrics }`. Below it are its
arguments or attributes. An argument with a default may be left out, one with `*` is given by name only, and
`**` stands for any others, with an example if they name tensors; an attribute with `!` must be there. Deeper
lines go on with the one before.

Types are those of `dsl/schema/types.py`, with bounds as in `int[1,)` and `float(0,1)`, and with `?` if `none`
is allowed; beside several types, the `?` stands apart: `int | [int] ?`. A `text` is a string with something
in it, `range` is a number or a range of them, `sizes` is a number or nested lists, and `word:a/b` is one of
these words, or of those of a type of the IR or of a tuple that the table is given.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_args

from dsl import ir
from dsl.schema import types as kinds
from dsl.schema.types import Argument, Function, Type

MANY = 2**31 - 1
"""The most of what is counted in a graph, such as micro-batches: TensorFlow counts much in 32 bits."""

_HEAD = re.compile(r'(\w+)( "name")?(?: \{ (.+?) \})?(?: -> (.+?))?:(?: (.+))?')
_ROW = re.compile(r"(\*{0,2})(\w*)(!?)(?: = (.+?))?: (.+?)(?: -- (.+))?")
_TYPE = re.compile(r"(\w+)(?:([\[(])([^,]*),([^\])]*)[\])])?(?::([\w/]+))?(\?)?")
_CONSTANTS = {"none": None, "true": True, "false": False, "MANY": MANY, "": None}

_NO_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType({})

Entry = tuple[tuple[str | Any, ...], list[tuple[str | Any, ...]]]


def entries(text: str) -> list[Entry]:
    """Return the parts of the first line of each entry of a table, and those of the lines below it."""
    lines: list[str] = []
    for line in text.strip("\n").split("\n"):
        if line.startswith("    "):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    found: list[Entry] = []
    for line in lines:
        parts = (_ROW if line[0] == " " else _HEAD).fullmatch(line.strip())
        assert parts is not None, line
        if line[0] == " ":
            found[-1][1].append(parts.groups())
        else:
            found.append((parts.groups(), []))
    return found


def functions(text: str, **words: tuple[str, ...]) -> tuple[Function, ...]:
    """Return the functions of a table, whose types may name tuples of words."""
    return tuple(_function(head, rows, words) for head, rows in entries(text))


def _function(head: tuple[Any, ...], rows: list[tuple[Any, ...]], words: Mapping[str, Any]) -> Function:
    rest, tensor = None, ""
    for sign, name, _, default, type_, _ in rows:
        if sign == "**":
            rest, tensor = type_of(type_, words), f"{name} = {default}" if name else ""
    tensors = tuple(head[3].split(", ")) if head[3] else ()
    return Function(head[0], arguments(rows, words), rest, head[4] or "", tensor=tensor, tensors=tensors)


def arguments(
    rows: list[tuple[Any, ...]], words: Mapping[str, tuple[str, ...]] = _NO_WORDS
) -> tuple[Argument, ...]:
    """Return the arguments of an entry, but not what stands for any others."""
    return tuple(
        Argument(name, type_of(type_, words), doc, _constant(default or ""), default is None, not sign)
        for sign, name, _, default, type_, doc in rows
        if sign != "**"
    )


def type_of(text: str, words: Mapping[str, tuple[str, ...]] = _NO_WORDS) -> Type:
    """Return a type in the notation of the tables."""
    optional = text.endswith(" ?")
    options = [_option(each, words) for each in text.removesuffix(" ?").split(" | ")]
    return kinds.either(*options, optional=optional) if optional or len(options) > 1 else options[0]


def _option(text: str, words: Mapping[str, tuple[str, ...]]) -> Type:  # noqa: PLR0911 one for each kind
    if text.startswith("["):
        return kinds.listing(_option(text[1:-1], words))
    found = _TYPE.fullmatch(text)
    assert found is not None, text
    kind, left, low, high, of, none = found.groups()
    optional = none is not None
    match kind:
        case "word":
            known = words.get(of) or get_args(getattr(ir, of, None)) or of.split("/")
            return kinds.word(*known, optional=optional)
        case "dtype" | "period" | "shape" | "duration":
            made: Type = getattr(kinds, kind)()
            return made
        case "path":
            return kinds.path(optional=optional)
        case "text":
            return kinds.string(filled=True, optional=optional)
        case "size":
            return kinds.size(_constant(low or "1"), optional=optional)
        case "keras":
            return kinds.keras(of, words.get(of, ()), optional=optional)
        case "sizes":
            return Type("shape", optional=optional)
    bounds = {} if left is None else {"low": _constant(low), "high": _constant(high), "open": left == "("}
    if kind == "range":
        return Type("int", ranged=True, **bounds)
    return Type(kind, of=of or "", optional=optional, **bounds)  # type: ignore[arg-type] # no other kinds


def _constant(text: str) -> Any:
    return _CONSTANTS[text] if text in _CONSTANTS else literal_eval(text)
