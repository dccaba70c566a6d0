"""How tokens are called in messages, and what people commonly mean where one does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lark import Token

_GROUPS: tuple[tuple[str, frozenset[str]], ...] = (
    ("a value", frozenset({"INTEGER", "FLOAT", "QUANTITY", "LBRACKET", "LPAREN"})),
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
    """Say what `token` is."""
    if token.type == "$END":
        return "end of the file"
    if token.type == "NEWLINE":
        return "end of the line"
    return {"STRING": "string ", "INTEGER": "number ", "FLOAT": "number ", "NAME": "name "}.get(
        token.type, ""
    ) + f"`{token}`"


def expected(accepted: Iterable[str]) -> tuple[str, ...]:
    """Say what could stand in a place where the terminals `accepted` fit; always in the same order."""
    left = set(accepted) - {"BROKEN"}
    said = []
    if left >= {"INTEGER", "LPAREN"}:
        said.append("a value")
        left -= {"INTEGER", "FLOAT", "QUANTITY", "LBRACKET", "LPAREN", "MINUS", "STRING", "NAME"}
    for words, kinds in _GROUPS:
        if left & kinds:
            said.append(words)
    if len(left & _OPERATORS) > 1:
        said.append("an operator")
    return tuple(said)


def advice(before: Token | None, token: Token) -> str | None:  # noqa: PLR0911 a list of cases
    """Say what to do in the cases that people run into most."""
    left = before.type if before is not None else ""
    right = token.type
    if left == "ARROW" and right == "NEWLINE":
        return "put the `->` at the start of the next line instead of the end of this one"
    if left == "EQUALS" and right == "EQUALS":
        return "one `=` gives an attribute its value"
    if left == "SLASH" and right == "SLASH":
        return "a comment starts with `#`"
    if left == "STAR" and right == "STAR":
        return "there is no power operator: write the product out"
    if left == "EQUALS" and right == "NEWLINE":
        return "put the value on the same line as the `=`"
    if right == "LBRACE" and left in {"NEWLINE", ""}:
        return "put the `{` on the same line as the name of its block"
    if left == "MINUS" and right == "COMPARE":
        return "write `->` without a space"
    if left in _VALUE_ENDS and right in _VALUE_STARTS:
        return "put a `,` or an operator between the two, or a new line before the next item"
    return None
