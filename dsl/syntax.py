"""The syntax tree of a spec: items, blocks, calls and flows, before names are looked up.

Chains (`a -> b -> c`, `a + b - c`) are flat, so that a long chain does not make a deep tree. Only brackets
make a tree deep, and the parser limits their depth.

The classes are made of the fields that they name, as attrs would make them, which would add 3 ms to the start
of every command.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dsl.source import Source, Span


def _field(*, kw_only: bool) -> Any:
    """Return the mark of a field that is given by its name, so that those of derived classes can follow."""
    return _field if kw_only else None


@dataclass_transform(eq_default=False, field_specifiers=(_field,))
class _Fields(type):
    """Makes the slots and the `__init__` of a class from its annotated fields."""

    field_names: tuple[str, ...]  # those of the class itself, and not of its base

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> _Fields:
        """Make a class. Fields with a default come after those without one, as arguments do."""
        own = members.get("__annotations__", {})
        given = {field: members.pop(field) for field in own if field in members}
        only = [field for field, default in given.items() if default is _field]
        only += [field for base in bases for field in getattr(base, "_named_only", ())]
        fields = [field for field in own if field not in only]
        arguments = [f"{field}=given['{field}']" if field in given else field for field in fields]
        head = ", ".join(["self", *arguments, *(["*", *only] if only else [])])
        body = "; ".join(f"self.{field} = {field}" for field in [*fields, *only]) or "pass"
        exec(f"def __init__({head}): {body}", {"given": given}, members)  # noqa: S102 names of this module
        made = {"__slots__": tuple(own), "field_names": tuple(own), "_named_only": only}
        return super().__new__(cls, name, bases, members | made)


class Node(metaclass=_Fields):
    """The base class of all parts of a syntax tree."""

    span: Span = _field(kw_only=True)

    def changed(self, **parts: object) -> Self:
        """Return a copy of this node with other values of some attributes."""
        changed = copy(self)
        for name, part in parts.items():
            setattr(changed, name, part)
        return changed


# --- expressions ------------------------------------------------------------------------------------------


class Broken(Node):
    """A part that could not be parsed and was reported."""

    names: tuple[str, ...] = ()


class Number(Node):
    """A number, such as `64` or `0.5`, or with a unit, such as `16GiB` or `10%`."""

    value: float
    unit: str | None = None


class Text(Node):
    """A string."""

    value: str


class Constant(Node):
    """`true`, `false` or `none`."""

    value: bool | None


class Every(Node):
    """The index `*`."""


class Range(Node):
    """The index or value `first..last`; both ends are included."""

    first: Expr
    last: Expr


class Slice(Node):
    """`first:last:step` in an index of a tensor; each is None if it was left out."""

    first: Expr | None = None
    last: Expr | None = None
    step: Expr | None = None


class Rest(Node):
    """`...` in an index of a tensor."""


class TensorIndex(Node):
    """An index of a tensor: several parts, or one that only a tensor can have."""

    items: tuple[Expr | Every | Range | Slice | Rest, ...]


class Segment(Node):
    """`name` or `name[index]` in a path."""

    name: str
    name_span: Span
    index: Expr | Every | Range | TensorIndex | None = None


class Path(Node):
    """Segments joined by dots, such as `rate`, `gpu[0]`, `worker[1].gpu[0..3]` or `applications.ResNet50`."""

    segments: tuple[Segment, ...]

    @property
    def name(self) -> str:
        """The names of the segments, joined by dots, without indices."""
        return ".".join([segment.name for segment in self.segments])

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
    """An argument of a call."""

    value: Expr
    name: str | None = None  # the name of a keyword argument, or None for a positional one
    name_span: Span | None = None


class Call(Node):
    """`callee(arguments)`, or `callee(arguments)(given)`, whose second brackets are of a layer's own call."""

    callee: Path
    arguments: tuple[Argument, ...] = ()
    given: tuple[Argument, ...] = ()


class Indexed(Node):
    """`ops.f(x)[index]` or `(a + b)[index]`: a part of what an expression gives."""

    operand: Expr
    index: TensorIndex


class List(Node):
    """`[items]`."""

    items: tuple[Expr, ...]


class Chain(Node):
    """`first operator operand ...`, either of `+` and `-` or of `*` and `/`, evaluated from the left."""

    first: Expr
    rest: tuple[tuple[Literal["+", "-", "*", "/"], Expr], ...]


class Negative(Node):
    """`-operand`."""

    operand: Expr


class Flow(Node):
    """`source -> step -> step`."""

    source: Expr
    steps: tuple[Expr, ...]


class Comparison(Node):
    """`left operator right`, a condition of `expect`."""

    left: Expr
    operator: str
    right: Expr


Expr: TypeAlias = (
    "Broken | Number | Text | Constant | Path | Call | Indexed | List | Chain | Negative | Flow"
    " | Comparison | TensorIndex | Range"
)

# --- items ------------------------------------------------------------------------------------------------


class Attribute(Node):
    """`name = value`, or `name, other = value`."""

    name: str
    name_span: Span
    value: Expr
    others: tuple[tuple[str, Span], ...] = ()

    @property
    def names(self) -> tuple[tuple[str, Span], ...]:
        """All names before the `=`, with their spans."""
        return ((self.name, self.name_span), *self.others)


class Block(Node):
    """`kind "label" { items }`."""

    kind: str
    kind_span: Span
    header: Span  # the part before the opening brace
    label: str | None = None
    label_span: Span | None = None
    items: tuple[Item, ...] = ()


class Entry(Node):
    """An item that is only an expression, such as a placement rule or a condition."""

    value: Expr


Item: TypeAlias = "Attribute | Block | Entry"


class Allowance(metaclass=_Fields):
    """A lint that a comment `# tfdeploy: allow(name)` switches off."""

    name: str
    span: Span
    line: int | None  # the line that the comment is for, or None for the whole file


class File(metaclass=_Fields):
    """A text that was read."""

    source: Source
    items: tuple[Item, ...] = ()
    allowances: tuple[Allowance, ...] = ()


def parts_of(node: Node) -> tuple[Node, ...]:
    """Return the parts of an item, expression or index, in the order in which they are written."""
    found: list[Node] = []
    for name in type(node).field_names:
        part = getattr(node, name)
        for each in part if isinstance(part, tuple) else (part,):
            inner = each[1] if isinstance(each, tuple) else each  # an operand stands beside its operator
            if isinstance(inner, Node):
                found.append(inner)
    return tuple(found)


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
