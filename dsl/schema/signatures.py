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

from attrs import frozen

from dsl import ir

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
KerasKind: TypeAlias = Literal[
    "int", "float", "bool", "str", "word", "shape", "ints", "strings", "call", "calls", "any"
]
_KIND = re.compile(
    r"(?P<kind>\w+)"
    r"((?P<left>[\[(])(?P<low>[^,]*),(?P<high>[^\])]*)(?P<right>[\])]))?"
    r"(\*(?P<length>\d+))?(=(?P<only>true|false))?"
    r"(:(?P<of>\w+))?(?P<none>\?)?"
)
"""The kind of an argument in the table, as `tools/make_signatures.py` writes it."""

CATEGORIES: tuple[Category, ...] = tuple(
    each
    for each in Category.__args__  # type: ignore[attr-defined]
    if each != "operation"
)
"""The categories of objects, which operations are not."""


@frozen
class KerasArgument:
    """One argument of a Keras object.

    Attributes:
        name: The name.
        required: Whether it must be given.
        default: The default value; None if it is required.
        kind: The kind of value. `shape` is an integer or a (nested) list of integers, `ints` is a list of
            integers, `strings` is a list of strings, `word` is one of `words`, `call` is a call of an object
            of `category` or one of `words`, `calls` is such a call or a list of them, and `any` is everything
            else. `float` includes integers, and calls if there is a `category`; for example, a learning rate
            can be a schedule.
        words: The allowed words.
        positional: Whether it may be given by position, in the order of the signature.
        category: The category of Keras objects that a call may make.
        nullable: Whether `none` is allowed.
        low: The smallest number, also in a list of them; None for no bound.
        high: The largest number.
        open: Whether `low` and `high` themselves are excluded.
        length: How many items a list has; None for any number.
        only: The only truth value with which the graph of a clone works; None if both do.
    """

    name: str
    required: bool
    default: Any
    kind: KerasKind
    words: tuple[str, ...]
    positional: bool
    category: Category | None
    nullable: bool
    low: float | None = None
    high: float | None = None
    open: bool = False
    length: int | None = None
    only: bool | None = None


@frozen(cache_hash=True)
class Signature:
    """The arguments of a Keras object or function.

    Attributes:
        category: The kind of object, such as `layer`.
        name: The name in Keras.
        arguments: The arguments, in the order of Keras.
        variadic: Whether any other keyword argument is allowed too.
        repeating: Whether any number of further positional arguments is allowed too.
    """

    category: Category
    name: str
    arguments: tuple[KerasArgument, ...]
    variadic: bool = False
    repeating: bool = False

    def argument(self, name: str) -> KerasArgument | None:
        """Return the argument with this name, or None."""
        return next((each for each in self.arguments if each.name == name), None)

    @property
    def positional(self) -> tuple[KerasArgument, ...]:
        """The arguments that may be given by position, in their order."""
        return tuple(each for each in self.arguments if each.positional)


@cache
def find(category: str, name: str) -> Signature | None:
    """Return the signature of a Keras object, or None if Keras has no such object.

    An alias such as `Convolution2D` or `he_normal` has the signature, and the name, of the object that it is
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
    arguments = tuple(_argument(row, at < star) for at, row in enumerate(rows) if isinstance(row, list))
    return Signature(category, name, arguments, "**" in rows, "..." in rows)  # type: ignore[arg-type]  # the table has no other category


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


def _argument(row: list[Any], positional: bool) -> KerasArgument:
    name, written, *default = row
    found = _KIND.fullmatch(written)
    assert found is not None
    kind, of, only = found["kind"], found["of"] or "", found["only"]
    return KerasArgument(
        name,
        required=not default,
        default=_frozen(default[0]) if default else None,
        kind=kind,  # type: ignore[arg-type] # the table has no other kinds
        words=words(of) if kind in {"word", "call"} and of in _table()["words"] else (),
        positional=positional,
        category=of if of in CATEGORIES else None,
        nullable=found["none"] is not None or default == [None],
        low=_bound(found["low"]),
        high=_bound(found["high"]),
        open="(" in written or ")" in written,
        length=None if found["length"] is None else int(found["length"]),
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
