"""Makes nodes of `dsl.syntax` from the rules of the grammar.

Each method has the name of a rule in `tfdeploy.lark`. The parser calls it with the tokens and nodes of the
rule, in order.
"""

from __future__ import annotations

import math
import re
from typing import Any, TypeAlias

from lark import Token

from dsl import syntax
from dsl.errors import notation
from dsl.source import Source, Span
from dsl.values import CONSTANTS
from grammar.lark_parser import span_of
from grammar.reports import Reports

Children: TypeAlias = list[Any]

OUTPUT = "output"
"""The name before `= { ... }`, which lists the outputs of a model by their names."""


class Lost(Token):
    """A token in place of a part that could not be parsed."""

    names: tuple[str, ...] = ()


class Builder:
    """Makes the nodes of one text."""

    def __init__(self, source: Source, reports: Reports) -> None:
        self._source = source
        self._reports = reports

    def start(self, children: Children) -> tuple[syntax.Item, ...]:
        """Return the items of a text."""
        items: tuple[syntax.Item, ...] = children[0]
        return items

    def body(self, children: Children) -> tuple[syntax.Item, ...]:
        """Return the items between two braces."""
        return tuple(child for child in children if not isinstance(child, Token))

    # --- items

    def attribute(self, children: Children) -> syntax.Attribute:
        """Make `name = value`."""
        name, *others, _, value = children
        more = tuple((str(other), self._span(other)) for other in others[1::2])
        return syntax.Attribute(str(name), self._span(name), value, more, span=self._whole(children))

    def bare_block(self, children: Children) -> syntax.Block:
        """Make `kind { ... }`."""
        kind, _, items, _ = children
        return self._block(kind, items, children)

    def labelled_block(self, children: Children) -> syntax.Block:
        """Make `kind "label" { ... }`."""
        kind, label, _, items, _ = children
        return self._block(kind, items, children, _string(label, self._span(label), self._reports), label)

    def unquoted_block(self, children: Children) -> syntax.Block:
        """Make `kind label { ... }` into a block, and report that the label needs quotes."""
        kind, label, _, items, _ = children
        self._reports.add(notation.unquoted_label(self._span(label), kind=str(kind), label=str(label)))
        self._reports.taint(self._span(label))
        return self._block(kind, items, children, str(label), label)

    def equals_block(self, children: Children) -> syntax.Block:
        """Make `kind = { ... }` into a block, and report the superfluous `=` if it is not `output`."""
        kind, equals, _, items, _ = children
        if str(kind) != OUTPUT:
            self._reports.add(notation.equals_before_block(self._span(equals), kind=str(kind)))
        return self._block(kind, items, children)

    def _block(
        self,
        kind: Token,
        items: tuple[syntax.Item, ...],
        children: Children,
        label: str | None = None,
        label_token: Token | None = None,
    ) -> syntax.Block:
        return syntax.Block(
            str(kind),
            self._span(kind),
            self._whole([kind, label_token or kind]),
            label,
            None if label_token is None else self._span(label_token),
            items,
            span=self._whole(children),
        )

    def entry(self, children: Children) -> syntax.Entry:
        """Make an item that is an expression."""
        return syntax.Entry(children[0], span=self._whole(children))

    # --- expressions

    def comparison(self, children: Children) -> syntax.Comparison:
        """Make `left operator right`."""
        left, operator, right = children
        return syntax.Comparison(left, str(operator), right, span=self._whole(children))

    def flow(self, children: Children) -> syntax.Flow:
        """Make `source -> step -> step`."""
        return syntax.Flow(children[0], tuple(children[2::2]), span=self._whole(children))

    def product(self, children: Children) -> syntax.Chain:
        """Make `a + b - c`, or `a * b / c`."""
        rest = zip(map(str, children[1::2]), children[2::2], strict=True)
        return syntax.Chain(children[0], tuple(rest), span=self._whole(children))  # type: ignore[arg-type] # the grammar's operators

    sum = product

    def negative(self, children: Children) -> syntax.Expr:
        """Make `-operand`; two signs in a row cancel."""
        operand: syntax.Expr = children[-1]
        if len(children) % 2 == 1:
            return operand
        if isinstance(operand, syntax.Number):
            return syntax.Number(-operand.value, operand.unit, span=self._whole(children))
        return syntax.Negative(operand, span=self._whole(children))

    def path(self, children: Children) -> syntax.Path | syntax.Constant:
        """Make a dotted name, or one of the three constants."""
        path = syntax.Path(tuple(children[::2]), span=self._whole(children))
        if path.bare in CONSTANTS:
            return syntax.Constant(CONSTANTS[path.bare], span=path.span)
        return path

    def segment(self, children: Children) -> syntax.Segment:
        """Make `name` or `name[index]`."""
        parts = tuple(child for child in children[2:-1] if not isinstance(child, Token))
        index = parts[0] if parts else None
        if len(parts) > 1 or isinstance(index, syntax.Slice | syntax.Rest):
            index = syntax.TensorIndex(parts, span=self._whole(children[2:-1]))
        return syntax.Segment(str(children[0]), self._span(children[0]), index, span=self._whole(children))

    def every(self, children: Children) -> syntax.Every:
        """Make the index `*`."""
        return syntax.Every(span=self._whole(children))

    def range(self, children: Children) -> syntax.Range:
        """Make the index `first..last`."""
        return syntax.Range(children[0], children[2], span=self._whole(children))

    def slice(self, children: Children) -> syntax.Slice:
        """Make the part `first:last:step` of an index."""
        ends: list[syntax.Expr | None] = [None]
        for child in children:
            if isinstance(child, Token):
                ends.append(None)
            else:
                ends[-1] = child
        return syntax.Slice(*ends, span=self._whole(children))

    def rest(self, children: Children) -> syntax.Rest:
        """Make the part `...` of an index."""
        return syntax.Rest(span=self._whole(children))

    def call(self, children: Children) -> syntax.Expr:
        """Make `callee(arguments)` or `callee(arguments)(given)`."""
        callee, *inner = children
        span = self._whole(children)
        if isinstance(callee, syntax.Constant):
            self._reports.add(notation.constant_called(callee.span))
            return syntax.Broken(span=span)
        again = next((at for at, child in enumerate(inner) if _is(child, "AGAIN")), len(inner))
        return syntax.Call(
            callee, self._as_arguments(inner[:again]), self._as_arguments(inner[again:]), span=span
        )

    @staticmethod
    def _as_arguments(children: Children) -> tuple[syntax.Argument, ...]:
        parts = (child for child in children if not isinstance(child, Token))
        return tuple(
            each if isinstance(each, syntax.Argument) else syntax.Argument(each, span=each.span)
            for each in parts
        )

    def keyword(self, children: Children) -> syntax.Argument:
        """Make `name = value` of a call."""
        name, _, value = children
        return syntax.Argument(value, str(name), self._span(name), span=self._whole(children))

    def list(self, children: Children) -> syntax.List:
        """Make `[items]`."""
        items = tuple(child for child in children if not isinstance(child, Token))
        return syntax.List(items, span=self._whole(children))

    def group(self, children: Children) -> syntax.Expr:
        """Return the expression in the brackets, which belong to it and to what is around it."""
        inner: syntax.Expr = children[1]
        return inner.changed(span=self._whole(children))

    def indexed(self, children: Children) -> syntax.Indexed:
        """Make `operand[parts]`."""
        parts = tuple(child for child in children[2:-1] if not isinstance(child, Token))
        index = syntax.TensorIndex(parts, span=self._whole(children[2:-1]))
        return syntax.Indexed(children[0], index, span=self._whole(children))

    def text(self, children: Children) -> syntax.Text:
        """Make a string."""
        span = self._span(children[0])
        return syntax.Text(_string(children[0], span, self._reports), span=span)

    def number(self, children: Children) -> syntax.Expr:
        """Make a number, with its unit if it has one."""
        return _quantity(children[0], self._span(children[0]), self._reports)

    def broken(self, children: Children) -> syntax.Broken:
        """Make the node in place of a part that could not be parsed."""
        token: Lost = children[0]
        return syntax.Broken(token.names, span=self._span(token))

    # --- spans

    def _span(self, child: Any) -> Span:
        if isinstance(child, Token):
            return span_of(self._source, child)
        span: Span = child.span
        return span

    def _whole(self, children: Children) -> Span:
        first, last = children[0], children[-1]
        start = (first.start_pos or 0) if isinstance(first, Token) else first.span.start
        end = (last.end_pos or 0) if isinstance(last, Token) else last.span.end
        return Span(self._source, start, end)


def _is(child: Any, kind: str) -> bool:
    return isinstance(child, Token) and child.type == kind


# --- strings and numbers as they are written --------------------------------------------------------------

_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
# Patterns are not compiled before a spec has something for them: each would cost every command 0.1 ms.
_ESCAPE = r"\\(.)"
_QUANTITY = r"([\d_]+(?:\.[\d_]+)?(?:[eE][+-]?\d[\d_]*)?)[ \t]*(.+)"
_MOST_DIGITS = 300


def _string(quoted: str, span: Span, reports: Reports) -> str:
    """Return the value of a quoted string, and report unknown escapes."""
    inner = quoted[1:-1]
    if "\\" not in inner:
        return inner
    for match in re.finditer(_ESCAPE, inner):
        if match[1] not in _ESCAPES:
            start = span.start + 1 + match.start()
            reports.add(
                notation.unknown_escape(
                    Span(span.source, start, start + 2), escape=match[0], quote=match[0][1] == "'"
                )
            )
    return re.sub(_ESCAPE, lambda match: _ESCAPES.get(match[1], match[0]), inner)


def _quantity(token: Token, span: Span, reports: Reports) -> syntax.Expr:
    """Return the number in a token, with its unit if it has one."""
    written = str(token)
    match = re.fullmatch(_QUANTITY, written) if token.type == "QUANTITY" else None
    digits, unit = (match[1], match[2]) if match else (written, None)
    if "_" in digits and ("__" in digits or re.search(r"_(?!\d)", digits)):
        reports.add(notation.misplaced_underscore(span, written=written))
        return syntax.Broken(span=span)
    if len(digits) > _MOST_DIGITS:
        reports.add(notation.too_many_digits(span, digits=span.end - span.start))
        return syntax.Broken(span=span)
    value = int(digits) if digits.replace("_", "").isdecimal() else float(digits)
    if math.isinf(value):
        reports.add(notation.number_too_large(span, written=written))
        return syntax.Broken(span=span)
    return syntax.Number(value, unit, span=span)
