"""The parser: text to the syntax tree of `dsl.syntax`. Errors are reported, and everything else is kept.

It recovers from unexpected tokens in panic mode. Brackets are balanced at this stage
(`grammar.tokens.layout`), so the end of an argument or item can be found even if its inside is broken. The
smallest part after which the parser can continue is replaced by a broken node: an argument, else the call or
list around it, else the item. If a missing separator or a surplus operator explains the error, the parser
continues as if the text had been right.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import lark
from lark import Token

from dsl import syntax
from dsl.diagnostics import Diagnostic
from dsl.errors import notation
from dsl.instead import FOREIGN_WORDS, OPERATIONS
from dsl.source import Source, Span
from grammar.lark_parser import RunningParser, span_of
from grammar.parsing.builder import Builder, Lost
from grammar.reports import Reports, TooManyError
from grammar.tokens import habits, layout, lexer
from grammar.tokens.brackets import CLOSER, OPENER
from grammar.tokens.lexer import allowances

_ENDS = {
    "LPAREN": frozenset({"COMMA", "RPAREN"}),
    "AGAIN": frozenset({"COMMA", "RPAREN"}),
    "LBRACKET": frozenset({"COMMA", "RBRACKET"}),
    "LBRACE": frozenset({"COMMA", "NEWLINE", "RBRACE"}),
}
_BOUNDARIES = frozenset({"LPAREN", "AGAIN", "LBRACKET", "LBRACE", "COMMA", "EQUALS", "NEWLINE", "_separator"})
_ARITHMETIC = frozenset({"PLUS", "STAR", "SLASH"})
_STARTS = frozenset({"NAME", "STRING", "INTEGER", "FLOAT", "QUANTITY", "LBRACKET"})


class Recovery:
    """Error recovery for one run of the parser."""

    def __init__(self, parser: RunningParser, tokens: list[Token], source: Source, reports: Reports) -> None:
        self._parser = parser
        self._tokens = tokens
        self._source = source
        self._reports = reports
        self._lines: list[Span] = []
        self._openers: list[int] = []

    def recover(self, at: int) -> int:
        """Report an unexpected token and repair the stack; return the index of the token that comes next."""
        self._report(at)
        mended = self._mend(at)
        self._taint_from(at, whole_line=mended is None)
        if mended is None and at < len(self._tokens) and self._tokens[at].type in {"LBRACE", "RBRACE"}:
            self._reports.distrust(self._source)
        if mended is not None:
            return mended
        for level, end in enumerate(self._parts(at)):
            token = self._token(end)
            keep = self._fitting(level, token)
            if keep is not None:
                self._replace(keep, at, end)
                return end
        return len(self._tokens)

    def finish(self) -> Any:
        """End the text, and return what the parser made of it."""
        try:
            made = self._parser.feed(self._end())
        except lark.UnexpectedToken:
            self.recover(len(self._tokens))
            made = self._parser.feed(self._end())
        for line in self._lines:
            self._reports.taint(line)
        return made

    def _token(self, at: int) -> Token:
        """Return token `at`, or the end of the text behind the last one."""
        return self._tokens[at] if at < len(self._tokens) else self._end()

    def _end(self) -> Token:
        end = lark.Token("$END", "", 0, 1, 1, 1, 1, 0)
        if self._tokens:
            end.start_pos = end.end_pos = self._tokens[-1].end_pos
        return end

    def _report(self, at: int) -> None:
        token = self._token(at)
        before = self._tokens[at - 1] if at else None
        span = span_of(self._source, token)
        if token.type in OPENER and not span.text:
            return  # a bracket that was put in: that it is lacking has been said
        habit = self._habit(at)
        if habit is not None:
            self._reports.add(habit)
            return
        accepted = self._parser.accepted()
        calls = [each.type for each in self._tokens[at : at + 2]] == ["NAME", "LPAREN"]
        advice = _advice(before, token, in_brackets=self._opener_around(at) != "LBRACE", calls=calls)
        self._reports.add(
            notation.unexpected_token(span, found=_shown(token), expected=_expected(accepted), advice=advice)
        )

    def _habit(self, at: int) -> Diagnostic | None:
        """Return the error for notation of another language, or None if it is not a common one."""
        if at >= len(self._tokens):
            return None
        token, before = self._tokens[at], self._tokens[at - 1] if at else None
        if token.type == "LPAREN" and before is not None and before.type == "RPAREN":
            return self._second_call(at)
        first = self._start_of_item(at)
        for each in (at, first):
            word = self._tokens[each]
            if word.type == "NAME" and word in FOREIGN_WORDS:
                span = span_of(self._source, word)
                advice = FOREIGN_WORDS[word]
                return notation.foreign_word(span, word=str(word), block=word == "let", advice=advice)
        return None

    def _second_call(self, at: int) -> Diagnostic:
        """Return the error for `Dense(64)(x)`, whose second `(` is token `at`."""
        span = span_of(self._source, self._tokens[at])
        found = habits.flow_of_calls(self._tokens, at, self._source)
        starts = {token.start_pos: number for number, token in enumerate(self._tokens)}
        first = starts[found[0].start] if found is not None else 0
        whole = found is not None and first > 0 and self._tokens[first - 1].type == "EQUALS"
        return notation.called_twice(span, found, whole=whole)

    def _start_of_item(self, at: int) -> int:
        """Return the index of the first token of the item, or of the argument, that contains token `at`."""
        while at and self._tokens[at - 1].type not in {"NEWLINE", "LBRACE", "RBRACE", "COMMA"}:
            at -= 1
        return at

    def _taint_from(self, at: int, *, whole_line: bool) -> None:
        """Drop errors in the meaning of what is around token `at`, or of the rest of its line."""
        before = self._tokens[at - 1] if 0 < at <= len(self._tokens) else None
        token = self._token(at)
        start = (token.start_pos if before is None or whole_line else before.start_pos) or 0
        end = token.end_pos or 0
        if at + 1 < len(self._tokens) and self._tokens[at + 1].type != "NEWLINE":
            end = self._tokens[at + 1].end_pos or 0
        if whole_line:
            end = self._source.line_end(token.start_pos or 0)
        self._lines.append(Span(self._source, start, end))

    # --- one token too many or too few

    def _mend(self, at: int) -> int | None:
        """Continue as if token `at` were missing or came after a separator, if its part is valid then."""
        if not 0 < at < len(self._tokens):
            return None
        token, before = self._tokens[at], self._tokens[at - 1]
        opener = self._opener_around(at)
        end = self._end_of_part(at, opener)
        rest = [*self._tokens[at:end], self._token(end)]
        doubled = token.type == before.type or {token.type, before.type} <= _ARITHMETIC
        if doubled and len(rest) > 1 and token.type not in _STARTS and self._parser.would_take(rest[1:]):
            return at + 1
        separator = self._separator(at, opener)
        if separator is not None and self._parser.would_take([separator, *rest]):
            self._parser.feed(separator)
            return at
        return None

    def _separator(self, at: int, opener: str) -> Token | None:
        """Return the separator that may be missing before token `at`."""
        kinds = [token.type for token in self._tokens[at : at + 3]]
        if opener != "LBRACE":
            kind = "COMMA" if kinds[0] in _STARTS else None
        else:
            block = kinds[1:2] == ["LBRACE"] or kinds[1:] in (["STRING", "LBRACE"], ["NAME", "LBRACE"])
            kind = "NEWLINE" if kinds[0] == "NAME" and (block or kinds[1:2] == ["EQUALS"]) else None
        return None if kind is None else lark.Token.new_borrow_pos(kind, "", self._tokens[at])

    # --- where the broken part ends

    def _parts(self, at: int) -> list[int]:
        """Return the ends of the parts around token `at`, from the innermost bracket to the item."""
        parts: list[int] = []
        end = at
        while True:
            opener = self._opener_around(end)
            end = self._end_of_part(end, opener)
            parts.append(end)
            if opener == "LBRACE":
                return parts
            while end < len(self._tokens) and self._tokens[end].type == "COMMA":
                end = self._end_of_part(end + 1, opener)
            end += 1

    def _opener_around(self, at: int) -> str:
        """Return the kind of the innermost bracket that is open before token `at`."""
        if not self._openers:
            self._openers = _openers(self._tokens)
        opener = self._openers[min(at, len(self._tokens))]
        return "LBRACE" if opener < 0 else str(self._tokens[opener].type)

    def _end_of_part(self, at: int, opener: str) -> int:
        ends = _ENDS[opener]
        depth = 0
        while at < len(self._tokens):
            kind = self._tokens[at].type
            if depth == 0 and kind in ends:
                return at
            depth += (kind in CLOSER) - (kind in OPENER)
            at += 1
        return at

    # --- the parser's stack

    def _fitting(self, level: int, token: Token) -> int | None:
        """Return how many values of the stack to keep so that a broken node and then `token` fit.

        These are the values before the part: up to a bracket, a separator or an `=`, inside all but `level`
        of the open brackets.
        """
        values = self._parser.values
        left = closed = 0
        for keep in range(len(values), -1, -1):
            top = values[keep - 1] if keep else None
            kind = str(top.type if isinstance(top, lark.Token) else getattr(top, "data", ""))
            starts = (keep == 0 or kind in _BOUNDARIES) and not closed and left == level
            if starts and self._parser.would_take((Lost("BROKEN", ""), token), keep):
                return keep
            if kind in CLOSER and not closed:
                left += 1
                if left > level:
                    return None
            closed += (kind in OPENER) - (kind in CLOSER and closed > 0)
        return None

    def _replace(self, keep: int, at: int, end: int) -> None:
        """Replace the stack above `keep`, and the tokens before index `end`, by a broken node."""
        popped = [offset for value in self._parser.values[keep:] for offset in _offsets(value)]
        lost = [token.start_pos or 0 for token in self._tokens[at:end] if token.type != "NEWLINE"]
        first = min([*popped, *lost[:1]], default=self._token(at).start_pos or 0)
        last = max(self._tokens[end - 1].end_pos or 0 if end else 0, first)
        broken = Lost("BROKEN", "", first, end_pos=last)
        broken.names = self._names(first, end)
        self._parser.cut(keep)
        self._parser.feed(broken)

    def _names(self, first: int, end: int) -> tuple[str, ...]:
        """Return the names from offset `first` to token `end`; two in a row may have been meant as one."""
        names: list[str] = []
        after = ""
        for token in reversed(self._tokens[:end]):
            if (token.start_pos or 0) < first:
                break
            name = str(token) if token.type == "NAME" else ""
            names.extend([name, name + after] if name and after else [name] if name else [])
            after = name
        return tuple(names)


def _openers(tokens: list[Token]) -> list[int]:
    """Return for every token, and for the end, the index of the innermost bracket around it or -1."""
    around: list[int] = []
    opened = [-1]
    for number, token in enumerate(tokens):
        around.append(opened[-1])
        if token.type in CLOSER:
            opened.append(number)
        elif token.type in OPENER:
            opened.pop()
    return [*around, opened[-1]]


def _offsets(value: Any) -> list[int]:
    """Return the offsets at which the parts of a value on the stack start."""
    if isinstance(value, lark.Token):
        return [value.start_pos or 0]
    children = value.children if isinstance(value, lark.Tree) else value
    if isinstance(children, (list, tuple)):
        return [offset for child in children for offset in _offsets(child)]
    return [value.span.start]


# --- descriptions of tokens, and advice for common mistakes with unexpected tokens ------------------------

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


def _shown(token: Token) -> str:
    if token.type == "$END":
        return "end of the file"
    if token.type == "NEWLINE":
        return "end of the line"
    return {"STRING": "string ", "INTEGER": "number ", "FLOAT": "number ", "NAME": "name "}.get(
        token.type, ""
    ) + f"`{token}`"


def _expected(accepted: Iterable[str]) -> tuple[str, ...]:
    """Describe the tokens that would be allowed, always in the same order."""
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


def _advice(before: Token | None, token: Token, *, in_brackets: bool, calls: bool) -> str | None:
    """Return advice for an unexpected token, or None if the mistake is not a common one."""
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


def parse(source: Source, reports: Reports) -> syntax.File | None:
    """Parse a text."""
    try:
        tokens = lexer.tokens(source, reports)
        arranged = layout.arrange(tokens, source, reports)
        if arranged is None:
            return None
        items = _items(arranged, source, reports)
        reports.thin(source)
        return syntax.File(source, items, allowances(source, tokens, reports))
    except TooManyError:
        return None


def parse_value(source: Source, start: int, reports: Reports) -> syntax.Expr | None:
    """Parse what may stand after the `=` of an attribute, which is before `start`."""
    before = reports.in_source(source)
    tokens = [token for token in lexer.tokens(source, reports) if (token.start_pos or 0) >= start]
    arranged = layout.arrange(tokens, source, reports)
    if not arranged:
        if reports.in_source(source) == before:
            reports.add(notation.value_expected(Span(source, start, len(source.text))))
        return None
    before_it = [lark.Token(kind, "=", start_pos=start - 1, end_pos=start) for kind in ("NAME", "EQUALS")]
    items = _items([*before_it, *arranged], source, reports)
    if reports.in_source(source) > before:
        return None
    if len(items) == 1 and isinstance(items[0], syntax.Attribute):
        return items[0].value
    reports.add(notation.not_a_value(Span(source, arranged[0].start_pos or 0, items[-1].span.end)))
    return None


def _items(tokens: list[lark.Token], source: Source, reports: Reports) -> tuple[syntax.Item, ...]:
    parser = RunningParser(Builder(source, reports))
    recovery = Recovery(parser, tokens, source, reports)
    at = 0
    while (at := parser.feed_all(tokens, at)) < len(tokens):
        at = recovery.recover(at)
    items: tuple[syntax.Item, ...] = recovery.finish()
    return items
