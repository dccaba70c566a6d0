"""The base classes of the records of the IR, and the values of their attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import field, frozen

from dsl.source import Span


@frozen
class Node:
    """The base class of all records of the IR."""

    # Where the record was written, or None if it is a default.
    span: Span | None = field(default=None, eq=False, repr=False, kw_only=True)


@frozen
class Block(Node):
    """A block of the spec."""

    # For each attribute that was written, the place of its value.
    spans: Mapping[str, Span] = field(factory=dict, eq=False, repr=False, kw_only=True)

    def span_of(self, attribute: str) -> Span | None:
        """Return the place of an attribute's value, or of the block if the attribute was not written."""
        return self.spans.get(attribute, self.span)


@frozen
class Parameter(Node):
    """A reference to a parameter of a `layer` block."""

    name: str


@frozen
class Arithmetic(Node):
    """An operation on layer parameters. All other arithmetic is computed when the spec is read."""

    operator: Literal["+", "-", "*", "/", "negate"]  # the operator; `negate` has a left operand only
    left: Value
    right: Value | None = None


@frozen
class Call(Node):
    """`name(args, key = value)`: a Keras object, a source, a transform or an aggregation."""

    name: str  # the name; it has dots if it was written so, as in `applications.ResNet50`
    # The positional arguments. The schema says which parameters they are for.
    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(factory=dict)
    name_span: Span | None = field(default=None, eq=False, repr=False, kw_only=True)
    arg_spans: tuple[Span, ...] = field(default=(), eq=False, repr=False, kw_only=True)
    kwarg_spans: Mapping[str, Span] = field(factory=dict, eq=False, repr=False, kw_only=True)


Value: TypeAlias = "int | float | bool | str | tuple[Value, ...] | Call | Parameter | Arithmetic | None"
