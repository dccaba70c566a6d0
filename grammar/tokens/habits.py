"""Notation of other languages in a list of tokens, replaced by the notation of this language.

Each habit is reported once for a file, with a fix for all places. Replacing it allows the rest of the text to
be parsed.
"""

from __future__ import annotations

import re

from lark import Token

from dsl.diagnostics import Edit
from dsl.errors import notation
from dsl.instead import FOREIGN_WORDS
from dsl.source import Source, Span
from grammar.lark_parser import retyped, span_of
from grammar.reports import Reports
from grammar.tokens.brackets import CLOSER, OPENER, follow

_BEFORE_KEY = frozenset({"", "NEWLINE", "COMMA", "LBRACE", "LPAREN"})
_NUMBERS = frozenset({"INTEGER", "FLOAT", "QUANTITY"})
_DOUBLED = frozenset({"NAME", "STRING", "ARROW", "COMMA", *_NUMBERS})
_OF_KEYS = frozenset({("STRING", "EQUALS"), ("STRING", "COLON")})
_SAFE_TO_DROP = frozenset({"ARROW", "COMMA"})
_KEY = re.compile(r'"[A-Za-z_]\w*"', re.ASCII)


def understood(tokens: list[Token], source: Source, reports: Reports) -> list[Token]:
    """Replace foreign arrows, quoted keys and doubled tokens, and report them."""
    pairs = _pairs(tokens)
    odd = any("UNKNOWN" in pair for pair in pairs)
    if odd or "-->" in source.text or "=>" in source.text:
        tokens = _arrows(tokens, source, reports)
    if odd or not _OF_KEYS.isdisjoint(pairs):
        tokens = _keys(tokens, source, reports)
    if odd:
        tokens = _colons(tokens, source, reports)
    if any(one == other and one in _DOUBLED for one, other in _pairs(tokens)):
        tokens = _singles(tokens, source, reports)
    return tokens


def _pairs(tokens: list[Token]) -> set[tuple[str, str]]:
    """Return the types of the tokens that follow each other, by which most texts need no closer look."""
    kinds = [token.type for token in tokens]
    return set(zip(kinds, [*kinds[1:], ""], strict=False))


def _arrows(tokens: list[Token], source: Source, reports: Reports) -> list[Token]:
    """Read `=>`, `|>` and `-->` as `->`, and `=>` before a number as `>=`."""
    out: list[Token] = []
    found: dict[tuple[str, str], list[Span]] = {}
    at = 0
    while at < len(tokens):
        token = tokens[at]
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        if following is not None and _is_arrow(token, following):
            measured = str(token) == "=" and at + 2 < len(tokens) and tokens[at + 2].type in _NUMBERS
            right, kind = (">=", "COMPARE") if measured else ("->", "ARROW")
            out.append(_joined(token, following, kind, right))
            found.setdefault((f"{token}{following}", right), []).append(span_of(source, out[-1]))
            at += 1
        else:
            out.append(token)
        at += 1
    for (written, right), spans in found.items():
        reports.add(notation.foreign_token(written, right, spans))
    return out


def _is_arrow(token: Token, following: Token) -> bool:
    pair = (str(token), str(following))
    return token.end_pos == following.start_pos and pair in {("=", ">"), ("|", ">"), ("-", "->")}


def _keys(tokens: list[Token], source: Source, reports: Reports) -> list[Token]:
    """Read `"count": 2` and `"count" = 2` as `count = 2`, and `"clones": {` as `clones {`."""
    out: list[Token] = []
    spans: list[Span] = []
    edits: list[Edit] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if not _is_key(tokens, at, out[-1].type if out else ""):
            out.append(token)
            at += 1
            continue
        sign, key, span = tokens[at + 1], retyped(token, "NAME", token[1:-1]), span_of(source, token)
        opens = _kind(tokens, at + 2) == "LBRACE"
        out += [key] if opens else [key, retyped(sign, "EQUALS", "=")]
        whole = span.to(span_of(source, sign))
        spans.append(span)
        edits.append(Edit(whole, str(key) if opens else f"{key} ="))
        at += 2
    if spans:
        reports.add(notation.quoted_keys(spans, edits))
    return out


def _is_key(tokens: list[Token], at: int, before: str) -> bool:
    """Whether the token at index `at` is a quoted name followed by a sign that assigns a value to it."""
    sign = str(tokens[at + 1]) if at + 1 < len(tokens) else ""
    return (
        tokens[at].type == "STRING"
        and sign in {":", "="}
        and before in _BEFORE_KEY
        and _KEY.fullmatch(tokens[at]) is not None
    )


def _colons(tokens: list[Token], source: Source, reports: Reports) -> list[Token]:
    """Read `gpu[0:3]` as a range and drop the `:` before blocks; any other `:` is read as `=`."""
    out: list[Token] = []
    opened: list[str] = []
    for at, token in enumerate(tokens):
        follow(opened, token.type)
        following = _kind(tokens, at + 1)
        if token.type != "UNKNOWN" or str(token) != ":":
            out.append(token)
        elif opened[-1:] == ["LBRACKET"]:
            out.append(retyped(token, "DOTDOT", ".."))
            reports.add(notation.range_with_colon(span_of(source, token)))
        elif following in {"LBRACE", "NEWLINE", ""} and opened[-1:] != ["LPAREN"]:
            _report_colon(tokens, at, source, reports)
        else:
            out.append(token)
    return out


def _report_colon(tokens: list[Token], at: int, source: Source, reports: Reports) -> None:
    """Report a `:` before or instead of the `{` of a block, or the Python keyword that starts such a line."""
    span = span_of(source, tokens[at])
    if _kind(tokens, at + 1) == "LBRACE":
        reports.add(notation.colon_of_block(span, brace=True))
        return
    first = next((each for each in range(at, 0, -1) if tokens[each - 1].type in {"NEWLINE", "LBRACE"}), 0)
    word = tokens[first]
    if word.type == "NAME" and word in FOREIGN_WORDS:
        advice, block = FOREIGN_WORDS[word], word == "let"
        reports.add(notation.foreign_word(span_of(source, word), word=str(word), block=block, advice=advice))
    else:
        reports.add(notation.colon_of_block(span, brace=False))
    reports.taint(span_of(source, word).to(span))


def _singles(tokens: list[Token], source: Source, reports: Reports) -> list[Token]:
    """Drop the second of two equal tokens in a row if the two cannot follow each other."""
    out: list[Token] = []
    opened: list[str] = []
    for token in tokens:
        follow(opened, token.type)
        before = out[-1] if out else None
        if (
            before is not None
            and token.type in _DOUBLED
            and (before.type, str(before)) == (token.type, str(token))
        ):
            in_braces = not opened or opened[-1] == "LBRACE"
            sign = token.type in _SAFE_TO_DROP
            first, again = span_of(source, before), span_of(source, token)
            safe = sign or (in_braces and token.type in {"NAME", "STRING"})
            reports.add(notation.doubled(first, again, safe=safe, list_item=not in_braces and not sign))
            continue
        out.append(token)
    return out


def flow_of_calls(tokens: list[Token], opener: int, source: Source) -> tuple[Span, str] | None:
    """Return the span of `Dense(4)(x)` and the same as a flow, `x -> Dense(4)`."""
    end = _match(tokens, opener, CLOSER, OPENER, 1)
    start = _match(tokens, opener - 1, OPENER, CLOSER, -1)
    if end is None or start is None:
        return None
    while start and (tokens[start - 1].type in {"NAME", "DOT"}):
        start -= 1
    flow = _flow(tokens[start : end + 1], source)
    whole = span_of(source, tokens[start]).to(span_of(source, tokens[end]))
    return None if flow is None else (whole, flow)


def _flow(tokens: list[Token], source: Source) -> str | None:
    """Return tokens as a flow if they are a call of a call, else unchanged."""
    text = source.text[tokens[0].start_pos or 0 : tokens[-1].end_pos or 0]
    opener = _match(tokens, len(tokens) - 1, OPENER, CLOSER, -1)
    if tokens[-1].type != "RPAREN" or not opener or tokens[opener - 1].type != "RPAREN":
        return text
    given = tokens[opener + 1 : -1]
    if not given or any(token.type in {"EQUALS", "NEWLINE"} for token in _outermost(given)):
        return None
    callee = source.text[tokens[0].start_pos or 0 : tokens[opener - 1].end_pos or 0]
    if any(token.type == "COMMA" for token in _outermost(given)):
        inner: str | None = f"[{source.text[given[0].start_pos or 0 : given[-1].end_pos or 0]}]"
    else:
        inner = _flow(given, source)
    return None if inner is None else f"{inner} -> {callee}"


def _outermost(tokens: list[Token]) -> list[Token]:
    depth, out = 0, []
    for token in tokens:
        depth -= token.type in OPENER
        if not depth:
            out.append(token)
        depth += token.type in CLOSER
    return out


def _match(
    tokens: list[Token], at: int, opening: dict[str, str], closing: dict[str, str], step: int
) -> int | None:
    """Return the index of the partner of the bracket at index `at`, searching forwards or backwards."""
    depth = 0
    while 0 <= at < len(tokens):
        depth += (tokens[at].type in opening) - (tokens[at].type in closing)
        if not depth:
            return at
        at += step
    return None


def _kind(tokens: list[Token], at: int) -> str:
    return str(tokens[at].type) if at < len(tokens) else ""


def _joined(first: Token, second: Token, kind: str, value: str) -> Token:
    joined = retyped(first, kind, value)
    joined.end_pos = second.end_pos
    return joined
