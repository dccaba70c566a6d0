"""The brackets by the names of their terminals."""

from __future__ import annotations

from lark import Token

CLOSER = {"LPAREN": "RPAREN", "LBRACKET": "RBRACKET", "LBRACE": "RBRACE"}
OPENER = {closer: opener for opener, closer in CLOSER.items()}
BRACKET = {"LPAREN": "(", "RPAREN": ")", "LBRACKET": "[", "RBRACKET": "]", "LBRACE": "{", "RBRACE": "}"}


def made_after(kind: str, before: Token) -> Token:
    """Return a bracket that is not in the text, right after the token `before`."""
    made = Token.new_borrow_pos(kind, BRACKET[kind], before)
    made.start_pos = made.end_pos = before.end_pos
    return made


def indent_of(token: Token) -> int:
    """Return how far the token stands from the start of its line."""
    return (token.column or 1) - 1
