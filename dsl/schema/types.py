"""The types of values in the language, and functions with arguments of these types, as data."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, TypeAlias

from attrs import frozen

from dsl.errors.wording import joined
from dsl.values import EXAMPLES, FEATURE, NOUNS, Dimension

Kind: TypeAlias = Literal[
    "int",
    "float",
    "bool",
    "str",
    "word",
    "quantity",
    "list",
    "shape",
    "call",
    "keras",
    "tensor",
    "either",
    "any",
]

_FEW = 8
PATH = "path"
DTYPES = (
    "float16", "bfloat16", "float32", "float64",
    "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
    "bool", "string",
)  # fmt: skip


@frozen
class Type:
    """The type of a value."""

    # The kind of type. `word`: one of `words`; `quantity`: an amount with a unit of `dimension`; `list`:
    # items of type `item`; `shape`: an integer or nested lists of integers; `call`: a call of a function of
    # the table `of`; `keras`: a call of a Keras object of category `of`, or one of `words`; `tensor`: the
    # name of a tensor of the examples; `either`: any of `options`; `str`: a string, which is a path if `of`
    # is PATH.
    kind: Kind
    words: tuple[str, ...] = ()
    dimension: Dimension | None = None
    item: Type | None = None
    of: str = ""
    options: tuple[Type, ...] = ()
    low: float | None = None  # the smallest number, or the smallest length of a string
    high: float | None = None
    open: bool = False  # whether `low` and `high` themselves are excluded
    optional: bool = False
    length: int | None = None  # how many items a `shape` has if it is a list; None for any number
    only: bool | None = None  # the only truth value that works; None if both do
    ranged: bool = False  # whether a range of whole numbers is allowed as well

    @property
    def choices(self) -> tuple[str, ...]:
        """The words among its values, also those of its options."""
        return (*self.words, *(word for option in self.options for word in option.choices))

    def described(self) -> str:
        """Describe the allowed values, as in "takes a whole number"."""
        said = self._described()
        return f"{said} or `none`" if self.optional else said

    def _described(self) -> str:
        if self.kind == "word":
            return joined([f"`{word}`" for word in self.words], "or") if len(self.words) <= _FEW else "a word"
        if self.kind == "quantity" and self.dimension is not None:
            return f"{NOUNS[self.dimension]} such as `{EXAMPLES[self.dimension]}`"
        if self.kind == "list" and self.item is not None:
            items = _PLURALS.get(self.item.kind, "values")
            return (
                f"a list of {items}, each of which may be `none`"
                if self.item.optional
                else f"a list of {items}"
            )
        if self.kind == "either":
            return joined([option.described() for option in self.options], "or")
        if self.kind == "keras":
            noun = f"a call of {'an' if self.of[:1] in 'aeio' else 'a'} {self.of}" if self.of else "a call"
            return f"{noun} or a word" if self.words else noun
        said = _CALLS.get(self.of) or _NOUNS[self.kind]
        return f"{said} or a range such as `2..8`" if self.ranged else said


_NOUNS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "`true` or `false`",
    "str": "a string",
    "shape": "a whole number or a list of them",
    "call": "a call",
    "tensor": "the name of a tensor",
    "any": "a value",
}
_CALLS = {"feature": f"a call such as `{FEATURE}`"}
_PLURALS = {"int": "whole numbers", "float": "numbers", "str": "strings", "tensor": "names of tensors"}


def integer(low: int | None = None, high: int | None = None, *, optional: bool = False) -> Type:
    """Return the type of whole numbers from `low` to `high`."""
    return Type("int", low=low, high=high, optional=optional)


def number(
    low: float | None = None,
    high: float | None = None,
    *,
    open: bool = False,  # noqa: A002 the name of the field
    optional: bool = False,
) -> Type:
    """Return the type of numbers from `low` to `high`; with `open`, both ends are excluded."""
    return Type("float", low=low, high=high, open=open, optional=optional)


def boolean() -> Type:
    """Return the type of `true` and `false`."""
    return Type("bool")


def string(*, optional: bool = False, filled: bool = False) -> Type:
    """Return the type of strings; with `filled`, at least one character must not be a space."""
    return Type("str", optional=optional, low=1 if filled else None)


def path(*, optional: bool = False) -> Type:
    """Return the type of paths of files and folders of this machine."""
    return Type("str", of=PATH, optional=optional, low=1)


def word(*words: str, optional: bool = False) -> Type:
    """Return the type that is one of `words`."""
    return Type("word", words=words, optional=optional)


def dtype() -> Type:
    """Return the type of element types, such as `float32`."""
    return word(*DTYPES)


DAY, TERABYTE = 86_400, 10**12
LONGEST = 36_500 * DAY
"""The longest duration, a hundred years; what waits for longer ones cannot be told to."""
LARGEST = 1_000_000 * TERABYTE
"""The largest size, in bytes; all sizes together are counted in 64 bits."""


def size(low: int = 1, *, optional: bool = False) -> Type:
    """Return the type of sizes in bytes."""
    return Type("quantity", dimension="bytes", low=low, high=LARGEST, optional=optional)


def period(*, optional: bool = False) -> Type:
    """Return the type of periods: a number of steps or a duration."""
    return either(integer(low=1), duration(), optional=optional)


def duration() -> Type:
    """Return the type of durations, in seconds."""
    return Type("quantity", dimension="seconds", low=0, high=LONGEST, open=True)


def listing(item: Type) -> Type:
    """Return the type of lists of `item`."""
    return Type("list", item=item)


def shape() -> Type:
    """Return the type of shapes: lists of integers."""
    return listing(integer(low=1))


def call(of: str, *, optional: bool = False) -> Type:
    """Return the type of calls of a function in the table `of`; empty brackets may be left out."""
    return Type("call", of=of, optional=optional)


def keras(of: str, words: tuple[str, ...] = (), *, optional: bool = False) -> Type:
    """Return the type of calls of Keras objects of category `of`, and of `words`."""
    return Type("keras", words=words, of=of, optional=optional)


def tensor() -> Type:
    """Return the type of names of tensors of the examples."""
    return Type("tensor")


def either(*options: Type, optional: bool = False) -> Type:
    """Return the type that is any of `options`."""
    return Type("either", options=options, optional=optional)


ANY = Type("any", optional=True)
"""The type that takes every value."""


# --- functions and their arguments ------------------------------------------------------------------------


@frozen
class Argument:
    """An argument of a function."""

    name: str
    type: Type
    doc: str = ""
    default: Any = None
    required: bool = False
    positional: bool = True

    @property
    def category(self) -> str:
        """The category of the Keras objects whose calls it takes; empty if there is none."""
        return next((each.of for each in (self.type, *self.type.options) if each.kind == "keras"), "")

    @property
    def takes_numbers(self) -> bool:
        """Whether it takes any number, and not only whole ones."""
        return any(each.kind == "float" for each in (self.type, *self.type.options))


@frozen(cache_hash=True)
class Function:
    """A function of the language."""

    name: str
    arguments: tuple[Argument, ...] = ()
    rest: Type | None = None  # the type of further keyword arguments, or None if there may be none
    doc: str = ""
    repeating: bool = False  # whether there may be any number of further positional arguments
    # An example of a further keyword argument if each names a tensor of the examples; else empty.
    tensor: str = ""
    tensors: tuple[str, ...] = ()  # the tensors that a source has in its examples whatever its arguments are

    def argument(self, name: str) -> Argument | None:
        """Return the argument with this name, or None."""
        return next((each for each in self.arguments if each.name == name), None)

    @cached_property
    def positional(self) -> tuple[Argument, ...]:
        """The arguments that may be given by position, in their order."""
        return tuple(each for each in self.arguments if each.positional)
