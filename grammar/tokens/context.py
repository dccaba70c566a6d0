"""Tokens whose meaning depends on those around them. The parser looks one token ahead, so this comes first.

- `:` in the brackets of an index, in a model, is a COLON: `x[:, 1:3]`. Elsewhere it is a foreign habit.
- `(` after `)` and before `name =` is AGAIN: the arguments of a layer's call, `LSTM(8)(mask = m)`.
- `,` between names before `=`, in a model, is ALSO: `sequence, state = x -> LSTM(...)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grammar.tokens.brackets import CLOSER, OPENER

if TYPE_CHECKING:
    from lark import Token

_UNREAD = frozenset({"WHITE", "COMMENT"})
_BEFORE_ITEM = frozenset({"NEWLINE", "LBRACE", "COMMA"})
INDEXED = frozenset({"NAME", "RPAREN"})
"""The tokens after which an opening bracket is that of an index."""
_MODELS = frozenset({"model", "layer"})


def marked(tokens: list[Token]) -> list[Token]:
    """Return `tokens` with the types that these have. White space and comments may be among them."""
    found = list(tokens)
    read = [at for at, token in enumerate(tokens) if token.type not in _UNREAD]
    kinds = [tokens[at].type for at in read]
    blocks: list[bool] = []  # for each open brace, whether it is within a model or a layer
    opened: list[str] = []
    for number, kind in enumerate(kinds):
        if kind not in _LOOKED_AT:
            continue
        before = kinds[number - 1] if number else ""
        if kind == "LBRACE":
            words = [tokens[at] for at in read[max(number - 2, 0) : number]]
            blocks.append(_opens_model(words) or bool(blocks and blocks[-1]))
        elif kind == "RBRACE" and blocks:
            blocks.pop()
        _follow(opened, kind, before)
        in_model = bool(blocks and blocks[-1])
        if kind == "LPAREN" and before == "RPAREN" and kinds[number + 1 : number + 3] == ["NAME", "EQUALS"]:
            found[read[number]] = _retyped(tokens[read[number]], "AGAIN")
        elif in_model and kind == "UNKNOWN" and opened[-1:] == ["INDEX"] and str(tokens[read[number]]) == ":":
            found[read[number]] = _retyped(tokens[read[number]], "COLON")
        elif in_model and kind == "NAME" and before in _BEFORE_ITEM and opened[-1:] == ["LBRACE"]:
            for comma in _commas_before_equals(kinds, number):
                found[read[comma]] = _retyped(tokens[read[comma]], "ALSO")
    return found


_LOOKED_AT = frozenset({"NAME", "UNKNOWN", *CLOSER, *OPENER})


def _follow(opened: list[str], kind: str, before: str) -> None:
    """Keep the kinds of the open brackets, the innermost last; an index and a list are distinguished."""
    if kind in CLOSER:
        opened.append("INDEX" if kind == "LBRACKET" and before in INDEXED else kind)
    elif kind in OPENER and opened:
        opened.pop()


def _opens_model(before: list[Token]) -> bool:
    """Whether a brace is that of a `model` or a `layer`.

    Args:
        before: The last two tokens before the brace.
    """
    if not before:
        return False
    other, one = before if len(before) > 1 else (None, before[-1])
    if one.type == "STRING":
        return other is not None and other in _MODELS
    return one in _MODELS or (one.type == "NAME" and other is not None and other in _MODELS)


def _commas_before_equals(kinds: list[str], number: int) -> list[int]:
    """Return where the commas of `a, b, c =` are, if that starts here; nothing if it does not."""
    commas = []
    at = number + 1
    while kinds[at : at + 2] == ["COMMA", "NAME"]:
        commas.append(at)
        at += 2
    return commas if kinds[at : at + 1] == ["EQUALS"] else []


def _retyped(token: Token, kind: str) -> Token:
    return type(token).new_borrow_pos(kind, str(token), token)
