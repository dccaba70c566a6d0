"""The structure of a spec as it was written: items, blocks, calls and flows. No word has a meaning yet.

Chains (`a -> b -> c`, `a + b - c`) are flat, so that no text, however long, makes a deep tree; depth comes
from brackets alone, and the reader refuses too many of those.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen

from dsl.source import Source, Span


@frozen(eq=False, repr=False)
class Node:
    """What every part of a text has: where it stands."""

    span: Span = field(kw_only=True)


# --- expressions ------------------------------------------------------------------------------------------


@frozen(eq=False, repr=False)
class Broken(Node):
    """A part that could not be read and was reported; `names` are those it may have defined."""

    names: tuple[str, ...] = ()


@frozen(eq=False, repr=False)
class Number(Node):
    """`64`, `0.5`, or with a `unit` as in `16GiB` and `10%`."""

    value: int | float
    unit: str | None = None


@frozen(eq=False, repr=False)
class Text(Node):
    """A string."""

    value: str


@frozen(eq=False, repr=False)
class Constant(Node):
    """`true`, `false` or `none`."""

    value: bool | None


@frozen(eq=False, repr=False)
class Every(Node):
    """The index `*`."""


@frozen(eq=False, repr=False)
class Range(Node):
    """The index `first..last`, both included."""

    first: Expr
    last: Expr


@frozen(eq=False, repr=False)
class Segment(Node):
    """`name` or `name[index]` of a path."""

    name: str
    name_span: Span
    index: Expr | Every | Range | None = None


@frozen(eq=False, repr=False)
class Path(Node):
    """`rate`, `gpu[0]`, `worker[1].gpu[0..3]`, `applications.ResNet50`."""

    segments: tuple[Segment, ...]

    @property
    def name(self) -> str:
        """The names of the segments, with dots and without indices."""
        return ".".join(segment.name for segment in self.segments)

    @property
    def bare(self) -> str | None:
        """The name where the path is one name without an index."""
        first = self.segments[0]
        return first.name if len(self.segments) == 1 and first.index is None else None


@frozen(eq=False, repr=False)
class Argument(Node):
    """An argument of a call; `name` is None for a positional one."""

    value: Expr
    name: str | None = None
    name_span: Span | None = None


@frozen(eq=False, repr=False)
class Call(Node):
    """`callee(arguments)`."""

    callee: Path
    arguments: tuple[Argument, ...] = ()


@frozen(eq=False, repr=False)
class List(Node):
    """`[items]`."""

    items: tuple[Expr, ...]


@frozen(eq=False, repr=False)
class Chain(Node):
    """`first operator operand operator operand...`, of `+` and `-` or of `*` and `/`; read from the left."""

    first: Expr
    rest: tuple[tuple[Literal["+", "-", "*", "/"], Expr], ...]


@frozen(eq=False, repr=False)
class Negative(Node):
    """`-operand`."""

    operand: Expr


@frozen(eq=False, repr=False)
class Flow(Node):
    """`source -> step -> step`."""

    source: Expr
    steps: tuple[Expr, ...]


@frozen(eq=False, repr=False)
class Comparison(Node):
    """`left operator right`, as in `expect`."""

    left: Expr
    operator: str
    right: Expr


Expr: TypeAlias = (
    "Broken | Number | Text | Constant | Path | Call | List | Chain | Negative | Flow | Comparison"
)

# --- items ------------------------------------------------------------------------------------------------


@frozen(eq=False, repr=False)
class Attribute(Node):
    """`name = value`."""

    name: str
    name_span: Span
    value: Expr


@frozen(eq=False, repr=False)
class Block(Node):
    """`kind "label" { items }`; `header` is the part before the brace."""

    kind: str
    kind_span: Span
    header: Span
    label: str | None = None
    label_span: Span | None = None
    items: tuple[Item, ...] = ()


@frozen(eq=False, repr=False)
class Entry(Node):
    """An item that is an expression: a rule, a condition, or something out of place."""

    value: Expr


Item: TypeAlias = "Attribute | Block | Entry"


@frozen(eq=False, repr=False)
class Allowance:
    """A lint that `# tfdeploy: allow(name)` switches off, in one `line` or, where that is None, in all."""

    name: str
    span: Span
    line: int | None


@frozen(eq=False, repr=False)
class File:
    """A text that was read."""

    source: Source
    items: tuple[Item, ...] = ()
    allowances: tuple[Allowance, ...] = ()
