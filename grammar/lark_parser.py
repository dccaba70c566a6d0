"""The parser that lark makes from `tfdeploy.lark`, and all that is used of lark's undocumented interface.

Recovery from errors looks into the stack of the running parser, for which lark documents no interface. The
names that this needs are used in this module only, and `tests/grammar/test_lark_parser.py` checks each of
them, so that a release of lark that changes one fails there:

- `lark.parse_tree_builder.ParseTreeBuilder` makes callbacks for the rules from the methods of a builder;
- `InteractiveParser.parser_state` is the running parser: `parse_conf` holds its tables and callbacks,
  `state_stack` and `value_stack` are its stack, `lexer` is its lexer, and `feed_token` makes one step.
"""

from __future__ import annotations

import os
from copy import copy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lark
from lark.parse_tree_builder import ParseTreeBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lark import Token

GRAMMAR = Path(__file__).with_name("tfdeploy.lark")


class _KeepTerminals:
    """Makes lark keep the terminals that no rule uses; the lexer reports them as errors."""

    always_accept = ("OPEN_STRING", "OTHER_QUOTED", "BAD_NUMBER", "UNKNOWN")

    @staticmethod
    def process(tokens: Iterator[Token]) -> Iterator[Token]:
        return tokens


@cache
def parser() -> lark.Lark:
    """Return the parser; it has no state and is shared.

    Making it from the grammar takes longer than reading a spec does, so lark keeps its tables in the user's
    cache folder. It makes them again if the grammar, lark or Python has changed, or if the file is damaged.
    """
    return build(_cache_file())


def build(cache_file: str | None = None) -> lark.Lark:
    """Make a parser from the grammar, or from the tables in `cache_file` if they are of the same grammar."""
    return lark.Lark(
        GRAMMAR.read_text(encoding="utf-8"),
        parser="lalr",
        lexer="basic",
        keep_all_tokens=True,
        maybe_placeholders=False,
        postlex=_KeepTerminals(),
        cache=cache_file or False,
    )


def _cache_file() -> str | None:
    """Return the file in which lark keeps its tables, or None if the user has no folder for it."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tfdeploy"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError if there is no home
        return None
    return str(folder / "grammar") if os.access(folder, os.W_OK) else None


class RunningParser:
    """A parser in the middle of a text. It accepts one token at a time, and its stack can be read and cut.

    Args:
        builder: An object with a method for each rule of the grammar, named after the rule. The method makes
            the value of the
        rule from the list of its children.
    """

    def __init__(self, builder: object) -> None:
        shared = parser()
        self._interactive = shared.parse_interactive()
        self._state = self._interactive.parser_state
        self._without_callbacks = copy(self._state.parse_conf)
        self._without_callbacks.callbacks = {}
        rules = ParseTreeBuilder(shared.rules, lark.Tree)  # type: ignore[no-untyped-call] # lark has no types
        self._state.parse_conf.callbacks = rules.create_callback(builder)  # type: ignore[no-untyped-call]

    @property
    def values(self) -> list[Any]:
        """The values on the stack: tokens, and the results of rules, from the start of the text on."""
        return self._state.value_stack

    def accepted(self) -> set[str]:
        """Return the names of the terminals that may come next."""
        found: set[str] = self._interactive.accepts()  # type: ignore[no-untyped-call] # lark has no types here
        return found

    def feed(self, token: Token) -> Any:
        """Parse one more token.

        Returns:
            The value of the whole text if the token is the last one, `$END`.

        Raises:
            lark.UnexpectedToken: If the token is not allowed here.
        """
        return self._state.feed_token(token, is_end=token.type == "$END")

    def would_take(self, tokens: Sequence[Token], keep: int | None = None) -> bool:
        """Whether the parser could continue with some tokens, without changing its state.

        Args:
            tokens: The tokens.
            keep: How many values of the stack are kept before the tokens, or None for all.
        """
        states = self._state.state_stack[: len(self.values) + 1 if keep is None else keep + 1]
        probe = type(self._state)(
            self._without_callbacks, self._state.lexer, states, [None] * (len(states) - 1)
        )
        try:
            for token in tokens:
                probe.feed_token(token, is_end=token.type == "$END")
        except lark.UnexpectedToken:
            return False
        return True

    def cut(self, keep: int) -> None:
        """Remove all values from the stack except the first `keep`."""
        del self._state.state_stack[keep + 1 :]
        del self._state.value_stack[keep:]
