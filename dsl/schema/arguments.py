"""A function of the language, such as a source or an aggregation, with its arguments."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from attrs import frozen

from dsl.schema.types import Type


@frozen
class Argument:
    """An argument of a function.

    Attributes:
        name: The name.
        type: The type of its value.
        doc: The description for the reference.
        default: The value that is used if the argument is not given and not required.
        required: Whether it must be given.
        positional: Whether it may be given by position.
    """

    name: str
    type: Type
    doc: str = ""
    default: Any = None
    required: bool = False
    positional: bool = True


@frozen(cache_hash=True)
class Function:
    """A function of the language.

    Attributes:
        name: The name.
        arguments: The arguments, in the order of positions.
        rest: The type of further keyword arguments, or None if there may be none.
        doc: The description for the reference.
        repeating: Whether there may be any number of further positional arguments.
        tensor: An example of a further keyword argument if each names a tensor of the examples; else empty.
    """

    name: str
    arguments: tuple[Argument, ...] = ()
    rest: Type | None = None
    doc: str = ""
    repeating: bool = False
    tensor: str = ""

    def argument(self, name: str) -> Argument | None:
        """Return the argument with this name, or None."""
        return next((each for each in self.arguments if each.name == name), None)

    @cached_property
    def positional(self) -> tuple[Argument, ...]:
        """The arguments that may be given by position, in their order."""
        return tuple(each for each in self.arguments if each.positional)


def needs(name: str, type: Type, doc: str) -> Argument:  # noqa: A002
    """Return an argument that must be given.

    Args:
        name: The name of the argument.
        type: The type of its value.
        doc: What it means, for descriptions in editors and in the reference.
    """
    return Argument(name, type, doc, required=True)


def takes(name: str, type: Type, default: Any, doc: str) -> Argument:  # noqa: A002
    """Return an argument with a default, which may be given by position.

    Args:
        name: The name of the argument.
        type: The type of its value.
        default: The value if it is not given.
        doc: What it means, for descriptions in editors and in the reference.
    """
    return Argument(name, type, doc, default)


def keyword(name: str, type: Type, default: Any, doc: str) -> Argument:  # noqa: A002
    """Return an argument with a default, which is given by its name only.

    Args:
        name: The name of the argument.
        type: The type of its value.
        default: The value if it is not given.
        doc: What it means, for descriptions in editors and in the reference.
    """
    return Argument(name, type, doc, default, positional=False)
