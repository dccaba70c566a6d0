"""The names of the terminals for brackets, and small helpers for bracket tokens."""

from __future__ import annotations

from lark import Token

CLOSER: dict[str, str] = {"LPAREN": "RPAREN", "LBRACKET": "RBRACKET", "LBRACE": "RBRACE"}
OPENER = {closer: opener for opener, closer in CLOSER.items()}
CLOSER["AGAIN"] = "RPAREN"  # the second brackets of `LSTM(8)(mask = m)`
BRACKET = {
    "AGAIN": "(",
    "LPAREN": "(",
    "RPAREN": ")",
    "LBRACKET": "[",
    "RBRACKET": "]",
    "LBRACE": "{",
    "RBRACE": "}",
}


def made_after(kind: str, before: Token) -> Token:
    """Return a new bracket token that is placed directly after the token `before`.

    Args:
        kind: The name of its terminal, such as `RBRACE`.
        before: The token before it.
    """
    made = Token.new_borrow_pos(kind, BRACKET[kind], before)
    made.start_pos = made.end_pos = before.end_pos
    return made


def indent_of(token: Token) -> int:
    """Return the number of columns before a token on its line."""
    return (token.column or 1) - 1
