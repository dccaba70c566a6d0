"""The lexer. It never fails: unknown characters, and comments of other languages, are reported and left out.

Comments of this language can switch lints off.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from lark import Token

from dsl.codes import CODES
from dsl.diagnostics import Diagnostic, Edit
from dsl.errors import lint, notation
from dsl.source import Source, Span
from dsl.syntax import Allowance
from grammar import lark_parser
from grammar.lark_parser import retyped, span_of
from grammar.reports import MOST_TOKENS, Reports, TooManyError
from grammar.tokens import habits, layout

LONGEST_NAME = 200
_SHOWN = 40
_WORDS = frozenset({"NAME", "INTEGER"})
_SEPARATORS = frozenset({";"})
_INSTEAD = {":": ("=", "EQUALS"), ";": (",", "COMMA")}


def tokens(source: Source, reports: Reports) -> list[Token]:
    """Return the tokens of a text, with newlines, without comments and other white space.

    Raises:
        TooManyError: If the spec has more tokens than are read, or has too many errors.
    """
    most = reports.left_for(source)
    raw = lark_parser.lex(source.text, most=most)
    if len(raw) > most:
        if not layout.is_too_deep(raw, source, reports):
            reports.add(notation.too_many_tokens(_start(span_of(source, raw[-1])), most=MOST_TOKENS))
        raise TooManyError
    reports.count(source, len(raw))
    text = without_foreign(source, reports)
    return _checked(raw if text is source.text else lark_parser.lex(text), source, reports)


def _checked(raw: list[Token], source: Source, reports: Reports) -> list[Token]:
    """Return tokens without what the language does not have, which is reported."""
    understood = habits.understood(layout.marked(raw), source, reports)
    found = [
        token if _is_fine(token) else _CHECKS[token.type](token, span_of(source, token), reports)
        for token in understood
    ]
    return _mended(found, source, reports) if any(each.type == "UNKNOWN" for each in found) else found


def _is_fine(token: Token) -> bool:
    """Whether there is nothing to say of a token alone."""
    kind = token.type
    return kind not in _CHECKS or (kind == "NAME" and len(token) <= LONGEST_NAME and token.isascii())


def _start(span: Span) -> Span:
    """Return as much of a span as is shown of what is too long."""
    return Span(span.source, span.start, min(span.end, span.start + _SHOWN))


def _name(token: Token, span: Span, reports: Reports) -> Token:
    if len(token) > LONGEST_NAME:
        reports.add(notation.name_too_long(_start(span), length=len(token), longest=LONGEST_NAME))
        reports.taint(span)
        return retyped(token, "NAME", token[:LONGEST_NAME])
    if not token.isascii():
        strange = sorted({letter for letter in token if not letter.isascii()})
        reports.add(notation.name_not_ascii(span, name=str(token), letters=strange[:5]))
        reports.taint(span)
    return token


def _open_string(token: Token, span: Span, reports: Reports) -> Token:
    reports.add(notation.unterminated_string(span))
    reports.taint(span)
    return retyped(token, "STRING", f'"{token[1:].rstrip(chr(92))}"')


def _other_quoted(token: Token, span: Span, reports: Reports) -> Token:
    inner = span.text[1:-1].replace('"', '\\"')
    reports.add(notation.single_quotes(span, right=f'"{inner}"'))
    return retyped(token, "STRING", f'"{token[1:-1]}"')


def _bad_number(token: Token, span: Span, reports: Reports) -> Token:
    right = f"0{token}" if token.startswith(".") else f"{token}0"
    reports.add(notation.malformed_number(span, written=str(token), right=right))
    reports.taint(span)
    return retyped(token, "FLOAT", f"0{token}0")


def _unknown(token: Token, span: Span, reports: Reports) -> Token:
    """Report an unknown character, and replace it if its intended meaning is known."""
    instead = _INSTEAD.get(token)
    if (
        str(token) in _SEPARATORS
        and _with_words(span).start < span.start
        and _with_words(span).end > span.end
    ):
        instead = None  # in the middle of a word it separates nothing
    reports.add(notation.unexpected_character(str(token), span, instead[0] if instead else None))
    reports.taint(_with_words(span))
    return retyped(token, instead[1], instead[0]) if instead else token


def _with_words(span: Span) -> Span:
    """Return `span` extended by the words that touch it."""
    text, start, end = span.source.text, span.start, span.end
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    return Span(span.source, start, end)


_CHECKS: dict[str, Callable[[Token, Span, Reports], Token]] = {
    "NAME": _name,
    "OPEN_STRING": _open_string,
    "OTHER_QUOTED": _other_quoted,
    "BAD_NUMBER": _bad_number,
    "UNKNOWN": _unknown,
}


def _mended(found: list[Token], source: Source, reports: Reports) -> list[Token]:
    """Drop unknown characters. A word that contained one becomes one word, whose other errors are dropped."""
    mended: list[Token] = []
    joins = False
    for token in found:
        if token.type == "UNKNOWN":
            joins = bool(mended) and mended[-1].end_pos == token.start_pos and mended[-1].type in _WORDS
            if joins:
                mended[-1] = _stretched(mended[-1], token, "")
                reports.taint(span_of(source, mended[-1]))
            continue
        if joins and token.start_pos == mended[-1].end_pos and token.type in _WORDS:
            mended[-1] = _stretched(mended[-1], token, str(token))
            reports.taint(span_of(source, mended[-1]))
        else:
            mended.append(token)
        joins = False
    return mended


def _stretched(token: Token, to: Token, more: str) -> Token:
    kind = "QUANTITY" if token.type == "INTEGER" and not more.isdecimal() and more else token.type
    longer = retyped(token, kind, f"{token}{more}")
    longer.end_pos = to.end_pos
    return longer


_SIGNS = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"?|\'[^\'\n]*\'|#[^\n]*|//|/\*')
_OPERAND = re.compile(r"//[ \t]*[\w.]+[ \t]*(?:[)\],}#\n]|$)")
"""What can follow a `//` that was meant as a division: a number or a name at the end of an expression."""


def without_foreign(source: Source, reports: Reports) -> str:
    """Return the text with comments of other languages replaced by blanks, and report them.

    Offsets and lines stay the same. A `//` between two operands is not a comment and is left in the text.
    """
    text = source.text
    if "//" not in text and "/*" not in text:
        return text
    spans = _foreign(source)
    if not spans:
        return text
    edits = [_edits(span) for span in spans]
    whole = [each for found in edits if found for each in found] if all(edits) else []
    reports.add(notation.foreign_comments(spans, whole))
    parts, end = [], 0
    for span in spans:
        parts += [text[end : span.start], re.sub(r"[^\n]", " ", span.text)]
        end = span.end
    return "".join([*parts, text[end:]])


def _foreign(source: Source) -> list[Span]:
    """Return the places of comments of other languages, in one pass over the text."""
    text, spans, at = source.text, [], 0
    last_close = text.rfind("*/")
    while match := _SIGNS.search(text, at):
        start, at = match.span()
        if match[0] not in {"//", "/*"} or (match[0] == "//" and _divides(text, start)):
            continue
        whole = match[0] == "/*" and last_close >= at
        at = text.index("*/", at) + 2 if whole else source.line_end(start)
        spans.append(Span(source, start, at))
    return spans


def _divides(text: str, at: int) -> bool:
    """Whether the `//` at an offset is written between two operands, like an operator."""
    before = text[text.rfind("\n", 0, at) + 1 : at].rstrip()
    return before[-1:].isalnum() and _OPERAND.match(text, at) is not None


def _edits(span: Span) -> tuple[Edit, ...] | None:
    """Return the edits that turn a comment into one of this language, or None if more follows on its line."""
    if span.text.startswith("//") or not span.text.endswith("*/"):
        return (Edit(Span(span.source, span.start, span.start + 2), "#"),)
    text = span.source.text
    if text[span.end : span.source.line_end(span.end)].strip():
        return None
    indent = " " * (span.begin.column - 1)
    lines = [line.strip().removeprefix("*").strip() for line in span.text[2:-2].split("\n")]
    kept = [line for at, line in enumerate(lines) if line or 0 < at < len(lines) - 1] or [""]
    return (Edit(span, f"\n{indent}".join(f"# {line}".rstrip() for line in kept)),)


# --- comments that switch lints off: `# tfdeploy: allow(name, ...)` ---------------------------------------

_SIGN = "tfdeploy:"
_COMMENT = r"#[ \t]*tfdeploy:[ \t]*allow\(([^()\n]*)\)"
_NAME = r"[^\s,]+"


def allowances(source: Source, tokens: Sequence[Token], reports: Reports) -> tuple[Allowance, ...]:
    """Return the lints that the comments of a text switch off, and report names that are not lints.

    At the end of a line, such a comment is for that line. On a line of its own it is for the next line that
    is not empty, and before everything else it is for the whole file.
    """
    if _SIGN not in source.text:
        return ()
    known = {code.name for code in CODES.values() if is_lint(code.code)}
    significant = [token for token in tokens if token.type != "NEWLINE"]
    found = tuple(_found(source, significant))
    for each in found:
        if each.name not in known:
            reports.add(lint.unknown_lint(each.span, name=each.name, known=sorted(known)))
    return found


def is_lint(code: str) -> bool:
    """Whether a comment can switch the diagnostics of `code` off."""
    return code.startswith("TFD6") or code == "TFD206"


def allowed(diagnostic: Diagnostic, given: Sequence[Allowance]) -> bool:
    """Whether one of the allowances covers a diagnostic."""
    span = diagnostic.span
    if span is None or not is_lint(diagnostic.code):
        return False
    line = span.begin.line
    return any(
        each.name == diagnostic.name and each.span.source is span.source and each.line in {None, line}
        for each in given
    )


def _found(source: Source, tokens: list[Token]) -> Iterator[Allowance]:
    starts = [token.start_pos or 0 for token in tokens]
    for match in re.finditer(_COMMENT, source.text):
        after = bisect_right(starts, match.start())
        if after and (tokens[after - 1].end_pos or 0) > match.start():
            continue  # inside a string
        line = source.position(match.start()).line
        if not after:
            covered = None
        elif tokens[after - 1].end_line == line or after == len(tokens):
            covered = line
        else:
            covered = tokens[after].line
        for name in re.finditer(_NAME, match[1]):
            at = match.start(1) + name.start()
            yield Allowance(name[0], Span(source, at, at + len(name[0])), covered)
