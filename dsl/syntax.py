"""The syntax tree of a spec: items, blocks, calls and flows, before names are looked up.

Chains (`a -> b -> c`, `a + b - c`) are flat, so that a long chain does not make a deep tree. Only brackets
make a tree deep, and the parser limits their depth.

These are plain classes, because as attrs records they would add 3 ms to the start of every command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import Literal, Self, TypeAlias

from dsl.source import Source, Span


class Node:
    """The base class of all parts of a syntax tree.

    Attributes:
        span: Where the part is written.
    """

    __slots__ = ("span",)

    span: Span

    def changed(self, **parts: object) -> Self:
        """Return a copy of this node with other values of some attributes."""
        changed = copy(self)
        for name, part in parts.items():
            setattr(changed, name, part)
        return changed


# --- expressions ------------------------------------------------------------------------------------------


class Broken(Node):
    """A part that could not be parsed and was reported.

    Attributes:
        names: The names that the part may have defined.
    """

    __slots__ = ("names",)

    def __init__(self, names: tuple[str, ...] = (), *, span: Span) -> None:
        self.names = names
        self.span = span


class Number(Node):
    """A number, such as `64` or `0.5`, or with a unit, such as `16GiB` or `10%`.

    Attributes:
        value: The number as written.
        unit: The unit, or None.
    """

    __slots__ = ("unit", "value")

    def __init__(self, value: float, unit: str | None = None, *, span: Span) -> None:
        self.value = value
        self.unit = unit
        self.span = span


class Text(Node):
    """A string."""

    __slots__ = ("value",)

    def __init__(self, value: str, *, span: Span) -> None:
        self.value = value
        self.span = span


class Constant(Node):
    """`true`, `false` or `none`."""

    __slots__ = ("value",)

    def __init__(self, value: bool | None, *, span: Span) -> None:
        self.value = value
        self.span = span


class Every(Node):
    """The index `*`."""

    __slots__ = ()

    def __init__(self, *, span: Span) -> None:
        self.span = span


class Range(Node):
    """The index `first..last`; both ends are included."""

    __slots__ = ("first", "last")

    def __init__(self, first: Expr, last: Expr, *, span: Span) -> None:
        self.first = first
        self.last = last
        self.span = span


class Slice(Node):
    """`first:last:step` in an index of a tensor; each is None if it was left out."""

    __slots__ = ("first", "last", "step")

    def __init__(
        self, first: Expr | None = None, last: Expr | None = None, step: Expr | None = None, *, span: Span
    ) -> None:
        self.first = first
        self.last = last
        self.step = step
        self.span = span


class Rest(Node):
    """`...` in an index of a tensor."""

    __slots__ = ()

    def __init__(self, *, span: Span) -> None:
        self.span = span


class TensorIndex(Node):
    """An index of a tensor: several parts, or one that only a tensor can have."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Expr | Every | Range | Slice | Rest, ...], *, span: Span) -> None:
        self.items = items
        self.span = span


class Segment(Node):
    """`name` or `name[index]` in a path.

    Attributes:
        name: The name.
        name_span: Where the name is written.
        index: What is in the brackets, or None if there are none.
    """

    __slots__ = ("index", "name", "name_span")

    def __init__(
        self,
        name: str,
        name_span: Span,
        index: Expr | Every | Range | TensorIndex | None = None,
        *,
        span: Span,
    ) -> None:
        self.name = name
        self.name_span = name_span
        self.index = index
        self.span = span


class Path(Node):
    """Segments joined by dots, such as `rate`, `gpu[0]`, `worker[1].gpu[0..3]` or `applications.ResNet50`.

    Attributes:
        segments: The parts between the dots.
        name: The names of the segments, joined by dots, without indices.
    """

    __slots__ = ("name", "segments")

    def __init__(self, segments: tuple[Segment, ...], *, span: Span) -> None:
        self.segments = segments
        self.name = ".".join([segment.name for segment in segments])
        self.span = span

    @property
    def has_no_index(self) -> bool:
        """Whether all segments are plain names."""
        return all(segment.index is None for segment in self.segments)

    @property
    def bare(self) -> str | None:
        """The name if the path is a single name without an index, else None."""
        first = self.segments[0]
        return first.name if len(self.segments) == 1 and first.index is None else None


class Argument(Node):
    """An argument of a call.

    Attributes:
        value: The expression.
        name: The name of a keyword argument, or None for a positional one.
        name_span: Where the name is written.
    """

    __slots__ = ("name", "name_span", "value")

    def __init__(
        self, value: Expr, name: str | None = None, name_span: Span | None = None, *, span: Span
    ) -> None:
        self.value = value
        self.name = name
        self.name_span = name_span
        self.span = span


class Call(Node):
    """`callee(arguments)`, or `callee(arguments)(given)`, whose second brackets are of a layer's own call."""

    __slots__ = ("arguments", "callee", "given")

    def __init__(
        self,
        callee: Path,
        arguments: tuple[Argument, ...] = (),
        given: tuple[Argument, ...] = (),
        *,
        span: Span,
    ) -> None:
        self.callee = callee
        self.arguments = arguments
        self.given = given
        self.span = span


class Indexed(Node):
    """`ops.f(x)[index]` or `(a + b)[index]`: a part of what an expression gives.

    Attributes:
        operand: The expression.
        index: What is in the brackets.
    """

    __slots__ = ("index", "operand")

    def __init__(self, operand: Expr, index: TensorIndex, *, span: Span) -> None:
        self.operand = operand
        self.index = index
        self.span = span


class List(Node):
    """`[items]`."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Expr, ...], *, span: Span) -> None:
        self.items = items
        self.span = span


class Chain(Node):
    """`first operator operand ...`, either of `+` and `-` or of `*` and `/`, evaluated from the left.

    Attributes:
        first: The first operand.
        rest: The operators, each with its right operand.
    """

    __slots__ = ("first", "rest")

    def __init__(
        self, first: Expr, rest: tuple[tuple[Literal["+", "-", "*", "/"], Expr], ...], *, span: Span
    ) -> None:
        self.first = first
        self.rest = rest
        self.span = span


class Negative(Node):
    """`-operand`."""

    __slots__ = ("operand",)

    def __init__(self, operand: Expr, *, span: Span) -> None:
        self.operand = operand
        self.span = span


class Flow(Node):
    """`source -> step -> step`."""

    __slots__ = ("source", "steps")

    def __init__(self, source: Expr, steps: tuple[Expr, ...], *, span: Span) -> None:
        self.source = source
        self.steps = steps
        self.span = span


class Comparison(Node):
    """`left operator right`, a condition of `expect`."""

    __slots__ = ("left", "operator", "right")

    def __init__(self, left: Expr, operator: str, right: Expr, *, span: Span) -> None:
        self.left = left
        self.operator = operator
        self.right = right
        self.span = span


Expr: TypeAlias = (
    "Broken | Number | Text | Constant | Path | Call | Indexed | List | Chain | Negative | Flow"
    " | Comparison | TensorIndex"
)

# --- items ------------------------------------------------------------------------------------------------


class Attribute(Node):
    """`name = value`, or `name, other = value`.

    Attributes:
        name: The name.
        name_span: Where the name is written.
        value: The expression.
        others: The further names with their spans.
    """

    __slots__ = ("name", "name_span", "others", "value")

    def __init__(
        self,
        name: str,
        name_span: Span,
        value: Expr,
        others: tuple[tuple[str, Span], ...] = (),
        *,
        span: Span,
    ) -> None:
        self.name = name
        self.name_span = name_span
        self.value = value
        self.others = others
        self.span = span

    @property
    def names(self) -> tuple[tuple[str, Span], ...]:
        """All names before the `=`, with their spans."""
        return ((self.name, self.name_span), *self.others)


class Block(Node):
    """`kind "label" { items }`.

    Attributes:
        kind: The name of the kind of block.
        kind_span: Where the kind is written.
        header: The part before the opening brace.
        label: The block's own name, or None.
        label_span: Where the label is written.
        items: What is between the braces.
    """

    __slots__ = ("header", "items", "kind", "kind_span", "label", "label_span")

    def __init__(
        self,
        kind: str,
        kind_span: Span,
        header: Span,
        label: str | None = None,
        label_span: Span | None = None,
        items: tuple[Item, ...] = (),
        *,
        span: Span,
    ) -> None:
        self.kind = kind
        self.kind_span = kind_span
        self.header = header
        self.label = label
        self.label_span = label_span
        self.items = items
        self.span = span


class Entry(Node):
    """An item that is only an expression, such as a placement rule or a condition."""

    __slots__ = ("value",)

    def __init__(self, value: Expr, *, span: Span) -> None:
        self.value = value
        self.span = span


Item: TypeAlias = "Attribute | Block | Entry"


class Allowance:
    """A lint that a comment `# tfdeploy: allow(name)` switches off.

    Attributes:
        name: The name of the lint.
        span: Where the name is written.
        line: The line that the comment is for, or None for the whole file.
    """

    __slots__ = ("line", "name", "span")

    def __init__(self, name: str, span: Span, line: int | None) -> None:
        self.name = name
        self.span = span
        self.line = line


class File:
    """A text that was read."""

    __slots__ = ("allowances", "items", "source")

    def __init__(
        self, source: Source, items: tuple[Item, ...] = (), allowances: tuple[Allowance, ...] = ()
    ) -> None:
        self.source = source
        self.items = items
        self.allowances = allowances


def parts_of(node: Node) -> tuple[Node, ...]:  # noqa: C901, PLR0911 one for each kind
    """Return the parts of an item, expression or index, in the order in which they are written."""
    match node:
        case Path():
            return node.segments
        case Segment():
            return () if node.index is None else (node.index,)
        case Call():
            return (node.callee, *node.arguments, *node.given)
        case Attribute() | Entry() | Argument():
            return (node.value,)
        case Flow():
            return (node.source, *node.steps)
        case Block() | List() | TensorIndex():
            return node.items
        case Chain():
            return (node.first, *(operand for _, operand in node.rest))
        case Negative():
            return (node.operand,)
        case Indexed():
            return (node.operand, node.index)
        case Comparison():
            return (node.left, node.right)
        case Range():
            return (node.first, node.last)
        case Slice():
            return tuple(each for each in (node.first, node.last, node.step) if each is not None)
    return ()


def within(node: Node) -> Iterator[Node]:
    """Yield a node and all that is in it, each before its parts."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(reversed(parts_of(each)))


def blocks_in(items: Iterable[Node], *kinds: str) -> list[Block]:
    """Return the blocks among some items; if kinds are given, those of these kinds."""
    return [each for each in items if isinstance(each, Block) and (not kinds or each.kind in kinds)]


def attributes_in(items: Iterable[Node], *names: str) -> list[Attribute]:
    """Return the attributes among some items; if names are given, those with these names."""
    return [each for each in items if isinstance(each, Attribute) and (not names or each.name in names)]


def source_and_steps(value: Expr) -> tuple[Expr, tuple[Expr, ...]]:
    """Return where a flow starts and its steps; anything else starts with itself and has no steps."""
    return (value.source, value.steps) if isinstance(value, Flow) else (value, ())
