"""The parser that lark makes from `tfdeploy.lark`, and all that is used of lark's undocumented interface.

Recovery from errors looks into the stack of the running parser, for which lark documents no interface. The
names that this needs are used in this module only, and `tests/grammar/test_lark_parser.py` checks each of
them, so that a release of lark that changes one fails there:

- `lark.parse_tree_builder.ParseTreeBuilder` makes callbacks for the rules from the methods of a builder;
- `InteractiveParser.parser_state` is the running parser: `parse_conf` holds its tables and callbacks,
  `state_stack` and `value_stack` are its stack, `lexer` is its lexer, and `feed_token` makes one step.

Lark's own loops over tokens are general, and reading a text spends most of its time in them. So `lex` and
`RunningParser.feed` do the same with less work for each token, from lark's pattern and tables:

- `lark.lexer.BasicLexer` has the terminals as one pattern in `scanner._mres`, and the names of those that are
  left out in `ignore_types`;
- `parse_conf.states` has for each state what a terminal leads to: a `Shift` to a state, or a rule to reduce.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import lark
from attrs import frozen
from lark.lexer import BasicLexer, Token
from lark.parse_tree_builder import ParseTreeBuilder
from lark.parsers.lalr_analysis import Shift

from dsl.files.regular import cache_file
from dsl.source import Source, Span

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
    return build(cache_file("grammar"))


def build(kept: Path | None = None) -> lark.Lark:
    """Make a parser from the grammar, or from the tables in the file `kept` if they are of that grammar."""
    return lark.Lark(
        GRAMMAR.read_text(encoding="utf-8"),
        parser="lalr",
        lexer="basic",
        keep_all_tokens=True,
        maybe_placeholders=False,
        postlex=_KeepTerminals(),
        cache=False if kept is None else str(kept),
    )


@cache
def _pattern() -> tuple[re.Pattern[str], frozenset[str]]:
    """Return the pattern of all terminals, and the names of those that are left out."""
    lexer = BasicLexer(parser().lexer_conf)
    (pattern,) = lexer.scanner._mres  # noqa: SLF001 more than one only if there were more groups than `re` allows
    return pattern, lexer.ignore_types


def lex(text: str, *, everything: bool = False, most: int | None = None) -> list[Token]:
    """Return the tokens of a text, newlines included.

    Every character is in a terminal, and only `NEWLINE` has a newline.
    """
    pattern, ignored = _pattern()
    if everything:
        ignored = frozenset()
    found: list[Token] = []
    stop = -1 if most is None else most + 1
    line, line_start = 1, 0
    for match in pattern.finditer(text):
        kind = match.lastgroup
        if kind in ignored:
            continue
        token = _new(Token, match[0])
        token.type, token.value = kind, match[0]  # type: ignore[assignment] # each terminal is a group
        token.start_pos, token.end_pos = first, last = match.span()
        token.line, token.column = line, first - line_start + 1
        if kind == "NEWLINE":
            line, line_start = line + 1, last
        token.end_line, token.end_column = line, last - line_start + 1
        found.append(token)
        if len(found) == stop:
            break
    return found


_new = str.__new__


def span_of(source: Source, token: Token) -> Span:
    """Return where a token is written."""
    return Span(source, token.start_pos or 0, token.end_pos or 0)


def retyped(token: Token, kind: str, value: str | None = None) -> Token:
    """Return a token at the place of another one."""
    return Token.new_borrow_pos(kind, str(token) if value is None else value, token)


@frozen
class _Reduction:
    """What the parser does when a rule has ended."""

    number: int
    size: int
    origin: str
    keeps_value: bool


@frozen
class _Tables:
    """Lark's tables, made for a loop over many tokens."""

    steps: Mapping[Any, Mapping[str, Any]]
    rules: Sequence[Any]


@cache
def _tables(shared: lark.Lark) -> _Tables:
    states = shared.parse_interactive().parser_state.parse_conf.states
    rules: dict[int, Any] = {}
    reductions: dict[int, _Reduction] = {}

    def step(action: object, argument: Any) -> Any:
        if action is Shift:
            return argument
        key = id(argument)
        if key not in rules:
            rules[key] = argument
            inner, origin = argument.expansion, argument.origin.name
            renames = len(inner) == 1 and argument.options.expand1
            reductions[key] = _Reduction(len(rules) - 1, len(inner), origin, renames)
        return reductions[key]

    steps = {state: {kind: step(*each) for kind, each in row.items()} for state, row in states.items()}
    return _Tables(steps, tuple(rules.values()))


class RunningParser:
    """A parser in the middle of a text. It accepts one token at a time, and its stack can be read and cut.

    Args:
        builder: An object with a method for each rule of the grammar, named after the rule. The method makes
            the value of the rule from the list of its children.
    """

    def __init__(self, builder: object) -> None:
        shared = parser()
        self._interactive = shared.parse_interactive()
        self._state = self._interactive.parser_state
        self._without_callbacks = copy(self._state.parse_conf)
        self._without_callbacks.callbacks = {}
        rules = ParseTreeBuilder(shared.rules, lark.Tree)  # type: ignore[no-untyped-call] # lark has no types
        made = rules.create_callback(builder)  # type: ignore[no-untyped-call]
        self._state.parse_conf.callbacks = made
        tables = _tables(shared)
        self._steps, self._callbacks = tables.steps, [made[rule] for rule in tables.rules]

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

    def feed_all(self, tokens: Sequence[Token], start: int) -> int:
        """Parse tokens, of which none is the end of the text, from index `start` on.

        Returns:
            The index of the first token that is not allowed, or the number of tokens. The values of rules
            that end before such a token may have been made.
        """
        table, callbacks = self._steps, self._callbacks
        states, values = self._state.state_stack, self._state.value_stack
        for at in range(start, len(tokens)):
            token = tokens[at]
            kind = token.type
            while True:
                step = table[states[-1]].get(kind)
                if step.__class__ is not _Reduction:
                    break
                if step.keeps_value:
                    states[-1] = table[states[-2]][step.origin]
                    continue
                children: list[Any] = []
                if step.size:
                    children = values[-step.size :]
                    del states[-step.size :]
                    del values[-step.size :]
                states.append(table[states[-1]][step.origin])
                values.append(callbacks[step.number](children))
            if step is None:
                return at
            states.append(step)
            values.append(token)
        return len(tokens)

    def would_take(self, tokens: Sequence[Token], keep: int | None = None) -> bool:
        """Whether the parser could continue with some tokens, without changing its state."""
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
