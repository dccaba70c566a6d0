"""Names, arguments and words of Keras objects, read from a table so that checks do not import TensorFlow.

`tools/make_signatures.py` makes the table, `dsl/schema/keras_signatures.json`, from the installed Keras. A
row becomes a record when it is first looked up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from attrs import evolve

from dsl import ir
from dsl.schema import types as kinds
from dsl.schema.types import Argument, Function, Type

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
    "operation",
]
_KIND = re.compile(
    r"(?P<kind>\w+)"
    r"((?P<left>[\[(])(?P<low>[^,]*),(?P<high>[^\])]*)(?P<right>[\])]))?"
    r"(\*(?P<length>\d+))?(=(?P<only>true|false))?"
    r"(:(?P<of>\w+))?(?P<none>\?)?"
)
"""The kind of an argument in the table, as `tools/make_signatures.py` writes it.

Most are kinds of types of the language. `ints` and `strings` are lists, `calls` is a call of an object of a
category or a list of them, and `float` of a category is also a call: a learning rate can be a schedule. What
is behind `=` is the only truth value with which the graph of a clone works.
"""

CATEGORIES: tuple[Category, ...] = tuple(
    each
    for each in Category.__args__  # type: ignore[attr-defined]
    if each != "operation"
)
"""The categories of objects, which operations are not."""


@cache
def find(category: str, name: str) -> Function | None:
    """Return a Keras object as a function of the language, or None if Keras has no such object.

    An alias such as `Convolution2D` or `he_normal` is the function, with the name, of the object that it is
    an alias of.
    """
    table = _table()
    name = table["aliases"][category].get(name, name)
    rows = table[category].get(name)
    if rows is None:
        return None
    rows = [row for part in rows for row in (table["shared"][part[1:]] if part[0] == "@" else [part])]
    ends = [rows.index(each) for each in ("*", "...") if each in rows]
    star = min(ends, default=len(rows))
    arguments = [_argument(row, at < star) for at, row in enumerate(rows) if isinstance(row, list)]
    if category == "layer" and name in STATES:
        arguments.append(Argument("adapt", kinds.word(*SPLITS, optional=True), positional=False))
    return Function(name, tuple(arguments), kinds.ANY if "**" in rows else None, repeating="..." in rows)


@cache
def names(category: str) -> tuple[str, ...]:
    """Return the sorted names of all objects of a category, including aliases."""
    table = _table()
    return tuple(sorted([*table[category], *table["aliases"][category]]))


@cache
def with_argument(category: str, argument: str) -> tuple[str, ...]:
    """Return the sorted names of the objects of a category that take an argument, without aliases."""
    found = {name: find(category, name) for name in sorted(_table()[category])}
    return tuple(name for name, each in found.items() if each is not None and each.argument(argument))


@cache
def words(name: str) -> tuple[str, ...]:
    """Return a set of words of the table, such as `activation`, `padding` or `dtype`."""
    return tuple(_table()["words"][name])


def _argument(row: list[Any], positional: bool) -> Argument:
    name, written, *default = row
    found = _KIND.fullmatch(written)
    assert found is not None
    type_ = _type(found, optional=found["none"] is not None or default == [None])
    value = _frozen(default[0]) if default else None
    return Argument(name, type_, default=value, required=not default, positional=positional)


def _type(found: re.Match[str], *, optional: bool) -> Type:  # noqa: PLR0911 one for each kind
    kind, of, length, only = found["kind"], found["of"] or "", found["length"], found["only"]
    allowed = words(of) if kind in {"word", "call"} and of in _table()["words"] else ()
    category = of if of in CATEGORIES else ""
    number = Type(
        "float" if kind == "float" else "int",
        low=_bound(found["low"]),
        high=_bound(found["high"]),
        open="(" in found[0] or ")" in found[0],
        optional=optional,
    )
    match kind:
        case "call":
            return kinds.keras(category, allowed, optional=optional)
        case "calls":
            one = kinds.keras(category)
            return kinds.either(one, kinds.listing(one), optional=optional)
        case "float" if category:
            return kinds.either(number, kinds.keras(category, optional=optional), optional=optional)
        case "word":
            return kinds.word(*allowed, optional=optional)
        case "strings":
            return evolve(kinds.listing(kinds.string(filled=True)), optional=optional)
        case "ints":
            return evolve(kinds.listing(evolve(number, optional=True)), optional=optional)
    return evolve(
        number,
        kind=kind,  # type: ignore[arg-type] # the table has no other kinds
        length=None if length is None else int(length),
        only=None if only is None else only == "true",
    )


def _bound(written: str | None) -> float | None:
    return float(written) if written else None


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


@cache
def _table() -> dict[str, Any]:
    with Path(__file__).with_name("keras_signatures.json").open("rb") as file:
        table: dict[str, Any] = json.load(file)
    return table


# --- losses and metrics of classes ------------------------------------------------------------------------

_OF_NUMBERS = ("CategoricalGeneralizedCrossEntropy",)


def takes_class_numbers(name: str) -> bool:
    """Whether the targets of a loss or metric are numbers of classes."""
    return name.startswith("Sparse") or name in _OF_NUMBERS


def takes_one_hot(name: str) -> bool:
    """Whether the targets of a loss or metric are one-hot, or shares of all classes."""
    return name.startswith(("Categorical", "TopKCategorical")) and name not in _OF_NUMBERS


# --- layers that know more than their weights: words, statistics or boundaries ----------------------------

SPLITS = tuple(f"data.{each}" for each in ir.SPLITS)
"""The values of `adapt`, which name the split that a layer learns from."""

STATES: Mapping[str, tuple[str, ...]] = {
    "Discretization": ("bin_boundaries",),
    "IntegerLookup": ("vocabulary", "idf_weights"),
    "Normalization": ("mean", "variance"),
    "StringLookup": ("vocabulary", "idf_weights"),
    "TextVectorization": ("vocabulary", "idf_weights"),
}
"""The arguments that give each of these layers what it would otherwise learn from data."""

ADAPTED_FROM: Mapping[str, tuple[str, ...]] = {
    name: ("num_bins",) if name == "Discretization" else () for name in STATES
}
"""The arguments of each layer that are of no use once it has learnt."""


def named_arguments(call: ir.Call) -> dict[str, ir.Value]:
    """Return all arguments of a layer by name."""
    signature = find("layer", call.name)
    names = [each.name for each in signature.positional] if signature is not None else []
    return dict(zip(names, call.args, strict=False)) | dict(call.kwargs)
