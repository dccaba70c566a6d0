"""Tokens whose meaning depends on those around them. The parser looks one token ahead, so this comes first.

- `:` in the brackets of an index, in a model, is a COLON: `x[:, 1:3]`. Elsewhere it is a foreign habit.
- `(` after `)` and before `name =` is AGAIN: the arguments of a layer's call, `LSTM(8)(mask = m)`.
- `,` between names before `=`, in a model, is ALSO: `sequence, state = x -> LSTM(...)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grammar.tokens.bracket_tokens import CLOSER, OPENER

if TYPE_CHECKING:
    from lark import Token

_UNREAD = frozenset({"WHITE", "COMMENT"})
_BEFORE_ITEM = frozenset({"NEWLINE", "LBRACE", "COMMA"})
_MODELS = frozenset({"model", "layer"})


def marked(tokens: list[Token]) -> list[Token]:
    """Return `tokens` with the types that these have. White space and comments may be among them."""
    found = list(tokens)
    read = [at for at, token in enumerate(tokens) if token.type not in _UNREAD]
    blocks: list[bool] = []  # for each open brace, whether it is within a model or a layer
    opened: list[str] = []
    for number, at in enumerate(read):
        token = tokens[at]
        kinds = _Kinds(tokens, read, number)
        if token.type == "LBRACE":
            blocks.append(kinds.opens_model() or bool(blocks and blocks[-1]))
        elif token.type == "RBRACE" and blocks:
            blocks.pop()
        _follow(opened, token, kinds)
        in_model = bool(blocks and blocks[-1])
        if token.type == "LPAREN" and kinds.before() == "RPAREN" and kinds.after(2) == ["NAME", "EQUALS"]:
            found[at] = _retyped(token, "AGAIN")
        elif in_model and opened[-1:] == ["INDEX"] and str(token) == ":":
            found[at] = _retyped(token, "COLON")
        elif (
            in_model and token.type == "NAME" and kinds.before() in _BEFORE_ITEM and opened[-1:] == ["LBRACE"]
        ):
            for comma in kinds.commas_before_equals():
                found[comma] = _retyped(tokens[comma], "ALSO")
    return found


class _Kinds:
    """The types of the tokens around one of those that are read."""

    def __init__(self, tokens: list[Token], read: list[int], number: int) -> None:
        self._tokens = tokens
        self._read = read
        self._number = number

    def _at(self, number: int) -> Token | None:
        return self._tokens[self._read[number]] if 0 <= number < len(self._read) else None

    def before(self) -> str:
        """Return the type of the token before, or nothing at the start of the text."""
        token = self._at(self._number - 1)
        return "" if token is None else str(token.type)

    def after(self, count: int) -> list[str]:
        """Return the types of the next `count` tokens."""
        following = (self._at(self._number + 1 + each) for each in range(count))
        return [str(token.type) for token in following if token is not None]

    def starts_item(self) -> bool:
        """Whether the token here is a name with which an item begins."""
        token = self._at(self._number)
        return token is not None and token.type == "NAME" and self.before() in _BEFORE_ITEM

    def opens_model(self) -> bool:
        """Whether the brace here is that of a `model` or a `layer`."""
        one, other = self._at(self._number - 1), self._at(self._number - 2)
        if one is not None and one.type == "STRING":
            return other is not None and other in _MODELS
        return (one is not None and one in _MODELS) or (
            other is not None and one is not None and one.type == "NAME" and other in _MODELS
        )

    def commas_before_equals(self) -> list[int]:
        """Return where the commas of `a, b, c =` are, if that starts here; nothing if it does not."""
        commas = []
        number = self._number + 1
        while (token := self._at(number)) is not None and token.type == "COMMA":
            commas.append(self._read[number])
            name = self._at(number + 1)
            if name is None or name.type != "NAME":
                return []
            number += 2
        return commas if token is not None and token.type == "EQUALS" else []


def _follow(opened: list[str], token: Token, kinds: _Kinds) -> None:
    """Keep the kinds of the open brackets, the innermost last; those of an index are told from a list's."""
    if token.type in CLOSER:
        is_index = token.type == "LBRACKET" and kinds.before() == "NAME"
        opened.append("INDEX" if is_index else token.type)
    elif token.type in OPENER and opened:
        opened.pop()


def _retyped(token: Token, kind: str) -> Token:
    return type(token).new_borrow_pos(kind, str(token), token)
