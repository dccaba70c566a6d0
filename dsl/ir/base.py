"""What all records of the IR have, and the values of their attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import field, frozen

from dsl.source import Span


@frozen
class Node:
    """What every record of the IR has: where it was written (none for a default)."""

    span: Span | None = field(default=None, eq=False, repr=False, kw_only=True)


@frozen
class Block(Node):
    """A block of the spec. `spans` maps each attribute that was written to the span of its value."""

    spans: Mapping[str, Span] = field(factory=dict, eq=False, repr=False, kw_only=True)

    def span_of(self, attribute: str) -> Span | None:
        """Return where the value of `attribute` was written, else the span of the block."""
        return self.spans.get(attribute, self.span)


@frozen
class Parameter(Node):
    """A `layer` block's parameter, used in one of its expressions."""

    name: str


@frozen
class Arithmetic(Node):
    """`left operator right` over layer parameters; everything else is folded when it is read."""

    operator: Literal["+", "-", "*", "/", "negate"]
    left: Value
    right: Value | None = None


@frozen
class Call(Node):
    """`name(args, key = value)`: a Keras object, a source, a transform, an aggregation.

    `name` is dotted where it was written so (`applications.ResNet50`). `signature` of the schema says
    which argument a position means.
    """

    name: str
    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(factory=dict)
    name_span: Span | None = field(default=None, eq=False, repr=False, kw_only=True)
    arg_spans: tuple[Span, ...] = field(default=(), eq=False, repr=False, kw_only=True)
    kwarg_spans: Mapping[str, Span] = field(factory=dict, eq=False, repr=False, kw_only=True)


Value: TypeAlias = "int | float | bool | str | tuple[Value, ...] | Call | Parameter | Arithmetic | None"
