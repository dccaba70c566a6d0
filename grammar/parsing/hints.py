"""Descriptions of tokens for messages, and advice for common mistakes with unexpected tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors.reading import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lark import Token

_GROUPS: tuple[tuple[str, frozenset[str]], ...] = (
    ("a value", frozenset({"INTEGER", "FLOAT", "QUANTITY", "LPAREN"})),
    ("a name", frozenset({"NAME"})),
    ("a string", frozenset({"STRING"})),
    ("`=`", frozenset({"EQUALS"})),
    ("`,`", frozenset({"COMMA"})),
    ("the end of the line", frozenset({"NEWLINE"})),
    ("`{`", frozenset({"LBRACE"})),
    ("`)`", frozenset({"RPAREN"})),
    ("`]`", frozenset({"RBRACKET"})),
    ("`}`", frozenset({"RBRACE"})),
)
_OPERATORS = frozenset({"PLUS", "MINUS", "STAR", "SLASH", "ARROW", "COMPARE", "DOT", "DOTDOT"})
_VALUE_ENDS = frozenset({"NAME", "STRING", "INTEGER", "FLOAT", "QUANTITY", "RPAREN", "RBRACKET"})
_VALUE_STARTS = frozenset({"NAME", "STRING", "INTEGER", "FLOAT", "QUANTITY"})


def shown(token: Token) -> str:
    """Describe a token."""
    if token.type == "$END":
        return "end of the file"
    if token.type == "NEWLINE":
        return "end of the line"
    return {"STRING": "string ", "INTEGER": "number ", "FLOAT": "number ", "NAME": "name "}.get(
        token.type, ""
    ) + f"`{token}`"


def expected(accepted: Iterable[str]) -> tuple[str, ...]:
    """Describe the tokens that would be allowed, always in the same order.

    Args:
        accepted: The names of the terminals that the parser accepts.
    """
    left = set(accepted) - {"BROKEN"}
    said = []
    if left >= {"INTEGER", "LPAREN"}:
        said.append("a value")
        left -= {"INTEGER", "FLOAT", "QUANTITY", "LBRACKET", "LPAREN", "MINUS", "STRING", "NAME"}
        left.discard("LBRACE")
    for words, kinds in _GROUPS:
        if left & kinds:
            said.append(words)
    if len(left & _OPERATORS) > 1:
        said.append("an operator")
    return tuple(said)


def advice(before: Token | None, token: Token, *, in_brackets: bool, calls: bool) -> str | None:
    """Return advice for an unexpected token, or None if the mistake is not a common one.

    Args:
        before: The token before it, or None at the start of the text.
        token: The unexpected token.
        in_brackets: Whether it is inside round or square brackets.
        calls: Whether it starts a call.
    """
    left = before.type if before is not None else ""
    right = token.type
    if (left, right) in _ADVICE:
        return _ADVICE[left, right]
    operator = next((each for each in (token, before) if each in OPERATIONS), None)
    if operator is not None and left in {"EQUALS", *_VALUE_ENDS}:
        return f"an operation on tensors is a function: `ops.{OPERATIONS[operator]}`"
    if left == "EQUALS" and right in {"NEWLINE", "RBRACE", "$END"}:
        return "put the value after the `=`, on the same line"
    if left in {"RPAREN", "NAME"} and calls and not in_brackets:
        return "put a `->` between the two"
    if left in _VALUE_ENDS and right in _VALUE_STARTS:
        return "put a `,` between the two" if in_brackets else "put each item on a line of its own"
    return None


_ADVICE = {
    ("EQUALS", "EQUALS"): "one `=` gives an attribute its value",
    ("SLASH", "SLASH"): "a comment starts with `#`, and `/` divides",
    ("STAR", "STAR"): "there is no power operator: write the product out, or `ops.power(a, 2)` for a tensor",
    ("MINUS", "COMPARE"): "write `->` without a space",
    ("RPAREN", "EQUALS"): "only a name can be given a value; a condition compares with `==` or `<=`",
    ("RBRACKET", "EQUALS"): "only a name can be given a value",
}
