"""What Keras takes: names, arguments and words, from a table, so that no check needs TensorFlow.

The table, `dsl/schema/keras_signatures.json`, is made by `tools/make_signatures.py` from the installed Keras.
A row becomes a record when it is first asked for.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from attrs import frozen

Category: TypeAlias = Literal[
    "layer",
    "application",
    "loss",
    "metric",
    "optimizer",
    "schedule",
    "initializer",
    "regularizer",
    "activation",
    "constraint",
]
Kind: TypeAlias = Literal["int", "float", "bool", "str", "word", "shape", "call", "any"]

CATEGORIES: tuple[Category, ...] = Category.__args__  # type: ignore[attr-defined]


@frozen
class Argument:
    """One argument of a Keras object.

    `kind` says what it takes: `shape` an integer or a (nested) list of them, `word` one of `words`, `call` a
    call of an object of `category` or one of `words`, and `any` what no other kind describes. A `float` takes
    integers too, and a call where it has a `category` (a learning rate takes a schedule). `none` is taken
    where `nullable`. `positional` arguments may be given by position, in the order of the signature.
    """

    name: str
    required: bool
    default: Any
    kind: Kind
    words: tuple[str, ...]
    positional: bool
    category: Category | None
    nullable: bool


@frozen
class Signature:
    """What can be given to the Keras object `name`; a `variadic` one takes any other argument as well."""

    category: Category
    name: str
    arguments: tuple[Argument, ...]
    variadic: bool = False

    def argument(self, name: str) -> Argument | None:
        """Return the argument called `name`, or None."""
        return next((each for each in self.arguments if each.name == name), None)

    @property
    def positional(self) -> tuple[Argument, ...]:
        """The arguments that may be given by position, in order."""
        return tuple(each for each in self.arguments if each.positional)


@cache
def find(category: str, name: str) -> Signature | None:
    """Return the signature of `name` among the objects of `category`, or None where Keras has no such object.

    An alias (`Convolution2D`, `he_normal`) has the signature, and the name, of what it stands for.
    """
    table = _table()
    name = table["aliases"][category].get(name, name)
    rows = table[category].get(name)
    if rows is None:
        return None
    rows = [row for part in rows for row in (table["shared"][part[1:]] if part[0] == "@" else [part])]
    star = rows.index("*") if "*" in rows else len(rows)
    arguments = tuple(_argument(row, at < star) for at, row in enumerate(rows) if row != "*")
    return Signature(category, name, arguments)  # type: ignore[arg-type]  # the table has no other category


@cache
def names(category: str) -> tuple[str, ...]:
    """Return the names of all objects of `category`, aliases included, sorted."""
    table = _table()
    return tuple(sorted([*table[category], *table["aliases"][category]]))


@cache
def words(name: str) -> tuple[str, ...]:
    """Return a set of words of the table, such as `activation`, `padding` or `dtype`."""
    return tuple(_table()["words"][name])


def _argument(row: list[Any], positional: bool) -> Argument:
    name, kind, *default = row
    nullable = kind.endswith("?") or default == [None]
    kind, _, of = kind.rstrip("?").partition(":")
    return Argument(
        name,
        required=not default,
        default=_frozen(default[0]) if default else None,
        kind=kind,
        words=words(of) if kind in {"word", "call"} and of in _table()["words"] else (),
        positional=positional,
        category=of if of in CATEGORIES else None,
        nullable=nullable,
    )


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


@cache
def _table() -> dict[str, Any]:
    with Path(__file__).with_name("keras_signatures.json").open("rb") as file:
        table: dict[str, Any] = json.load(file)
    return table
