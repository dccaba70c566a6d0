"""TFD1xx: errors in the characters, the brackets and the order of tokens."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from dsl.diagnostics import Diagnostic, Label
from dsl.errors.making import error, replacing
from dsl.errors.words import counted, joined, quoted
from dsl.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN = 40


def unexpected_character(character: str, span: Span, instead: str | None) -> Diagnostic:
    """A character that has no meaning outside strings.

    Args:
        character: The character.
        span: The place of the character in the spec.
        instead: What it is taken for; None if it is dropped.
    """
    visible = character.isprintable() and not character.isspace()
    plain = instead or _PLAIN.get(character)
    said = quoted(plain) if plain and plain.strip() else "a plain space"
    operation = OPERATIONS.get(character)
    if operation is not None:
        return error(
            "TFD101",
            f"{quoted(character)} has no meaning here",
            span,
            text="unexpected character",
            help=f"an operation on tensors is a function: `ops.{operation}`",
        )
    return error(
        "TFD101",
        f"{quoted(character) if visible else 'this character'} has no meaning here",
        span,
        text="unexpected character",
        notes=() if character.isascii() and visible else (f"it is {_known_as(character)}",),
        help=f"write {said} instead" if plain else "remove it",
        fix=replacing(f"write {said}", span, plain, safe=instead is not None)
        if plain
        else replacing("remove it", span, ""),
    )


OPERATIONS = {
    ">=": "greater_equal(a, b)",
    ">": "greater(a, b)",
    "<=": "less_equal(a, b)",
    "<": "less(a, b)",
    "==": "equal(a, b)",
    "!": "not_equal(a, b)` or `ops.logical_not(a)",
    "and": "logical_and(a, b)",
    "or": "logical_or(a, b)",
    "not": "logical_not(a)",
    "xor": "logical_xor(a, b)",
    "&": "logical_and(a, b)",
    "|": "logical_or(a, b)",
    "~": "logical_not(a)",
    "^": "power(a, b)",
    "%": "mod(a, b)",
    "@": "matmul(a, b)",
}
"""The functions that stand for operators of Python which the language does not have."""

# What word processors and web pages put in place of plain characters.
# ruff: noqa: RUF001 the characters are what this table is about
_PLAIN = {"−": "-", "–": "-", "×": "*", "→": "->", "\u00a0": " "}


def _known_as(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, 'without a name').lower()}".replace("û", "u")


def name_not_ascii(name: str, span: Span) -> Diagnostic:
    """A name with letters that TensorFlow's names cannot have.

    Args:
        name: The name.
        span: The place of the name in the spec.
    """
    strange = sorted({letter for letter in name if not letter.isascii()})
    return error(
        "TFD101",
        f"{quoted(name)} has letters that a name cannot have",
        span,
        text=f"{joined([quoted(letter) for letter in strange[:5]])} cannot be part of a name",
        notes=("names are made of the letters a to z, digits and `_`",),
    )


def unexpected_token(found: str, span: Span, expected: Sequence[str], advice: str | None) -> Diagnostic:
    """A token in a place where no rule of the grammar has it.

    Args:
        found: The token, for the message.
        span: The place of the token in the spec.
        expected: What may stand there, for the message; nothing if the text should end.
        advice: What to do about it; None if there is no advice.
    """
    wanted = f"expected {joined(expected, 'or')}" if expected else "expected nothing more"
    return error("TFD102", f"unexpected {found}", span, text=wanted, help=advice)


def line_goes_on(before: Span, after: Span, *, wanting: bool) -> Diagnostic:
    """An item that goes on in the next line.

    Args:
        before: The last token of the first line.
        after: The first token of the next line.
        wanting: Whether the first line is incomplete.
    """
    if wanting:
        arrow = before.text == "->"
        return error(
            "TFD102",
            f"unexpected end of the line after {quoted(before.text)}",
            before,
            text="expected a value" if not arrow else "expected a step",
            labels=(Label(after, "this line starts a new item"),),
            help="put the `->` at the start of the next line" if arrow else "put both on one line",
        )
    what = "the name of its block" if after.text == "{" else "what comes before it"
    return error(
        "TFD102",
        f"unexpected {quoted(after.text)} at the start of a line",
        after,
        text="expected an item",
        labels=(Label(before, "the line before ends its item here"),),
        help=f"put the {quoted(after.text)} on the line of {what}",
    )


def value_expected(source: Source, start: int) -> Diagnostic:
    """A `--set` whose value is empty.

    Args:
        source: The text of the option.
        start: The offset at which the value should be.
    """
    return error(
        "TFD102", "the value is missing", Span(source, start, len(source.text)), text="expected a value"
    )


def not_a_value(span: Span) -> Diagnostic:
    """A `--set` whose value is not one expression."""
    return error("TFD102", f"{quoted(span.text)} is not a value", span, text="expected one value")


def unquoted_label(kind: str, label: str, span: Span) -> Diagnostic:
    """`model lenet {`.

    Args:
        kind: The kind of the block.
        label: The name as it is written, without quotes.
        span: The place of the name in the spec.
    """
    return error(
        "TFD102",
        f"the name of a `{kind}` block is a string",
        span,
        text="expected a string",
        help=f'write `{kind} "{label}" {{`',
        fix=replacing("add the quotes", span, f'"{label}"', safe=True),
    )


def equals_before_block(kind: str, span: Span) -> Diagnostic:
    """A `=` before a block: `data = { ... }`.

    Args:
        kind: The kind of the block.
        span: The place of the `=` in the spec.
    """
    return error(
        "TFD102",
        "unexpected `=` before a block",
        span,
        text="expected `{`",
        help=f"write `{kind} {{`",
        fix=replacing("remove the `=`", span, "", safe=True),
    )


def constant_called(span: Span) -> Diagnostic:
    """`true(...)`."""
    return error(
        "TFD102", f"{quoted(span.text)} is a constant and cannot be called", span, text="expected a name"
    )


def unterminated_string(span: Span) -> Diagnostic:
    """A string whose line ends before it does."""
    return error(
        "TFD103",
        "this string has no end",
        span,
        text='the line ends before the closing `"`',
        help='add the closing `"`; a line break inside a string is written `\\n`',
    )


def single_quotes(span: Span) -> Diagnostic:
    """A string in single or typographic quotes."""
    inner = span.text[1:-1].replace('"', '\\"')
    return error(
        "TFD103",
        "strings stand in double quotes",
        span,
        text="in other quotes",
        help=f"write {quoted(f'{chr(34)}{inner}{chr(34)}')}",
        fix=replacing("use double quotes", span, f'"{inner}"', safe=True),
    )


def unclosed(opener: str, span: Span) -> Diagnostic:
    """A bracket that is never closed.

    Args:
        opener: The bracket.
        span: The place of the bracket in the spec.
    """
    closer = {"(": ")", "[": "]", "{": "}"}[opener]
    return error("TFD104", f"this `{opener}` is never closed", span, text=f"its `{closer}` is missing")


def missing_brace(header: Span, closer: Span) -> Diagnostic:
    """A `}` for which no block was opened, after a line that looks like the start of one.

    Args:
        header: The place of that line.
        closer: The place of the `}`.
    """
    return error(
        "TFD104",
        f"the block {quoted(header.text)} has no `{{`",
        header,
        text="expected `{` after this",
        labels=(Label(closer, "this `}` closes no other block"),),
    )


def stray_brace(span: Span) -> Diagnostic:
    """A `{` that no block's name stands before."""
    return error(
        "TFD105", "this `{` opens no block", span, text="no name of a block before it", help="remove it"
    )


def unmatched(closer: str, span: Span) -> Diagnostic:
    """A closing bracket that nothing was opened for.

    Args:
        closer: The bracket.
        span: The place of the bracket in the spec.
    """
    return error(
        "TFD105", f"this `{closer}` closes nothing", span, text="nothing is open here", help="remove it"
    )


def wrong_closer(opener: str, closer: str, right: str, span: Span, opened: Span) -> Diagnostic:
    """`(` closed by `]`.

    Args:
        opener: The opening bracket.
        closer: The closing bracket that is written.
        right: The closing bracket that fits.
        span: The place of the closing bracket in the spec.
        opened: The place of the opening bracket.
    """
    return error(
        "TFD105",
        f"`{closer}` does not close `{opener}`",
        span,
        text=f"expected `{right}`",
        labels=(Label(opened, f"this `{opener}` is open"),),
        fix=replacing(f"write `{right}`", span, right),
    )


def malformed_number(written: str, span: Span) -> Diagnostic:
    """A number without a digit on one side of its point: `1.` or `.5`.

    Args:
        written: The number as it is written.
        span: The place of the number in the spec.
    """
    better = f"0{written}" if written.startswith(".") else f"{written}0"
    return error(
        "TFD106",
        f"{quoted(written)} is not a number",
        span,
        text="a digit is missing beside the point",
        help=f"write {quoted(better)}",
        fix=replacing(f"write {quoted(better)}", span, better, safe=True),
    )


def misplaced_underscore(written: str, span: Span) -> Diagnostic:
    """A number with a `_` that is not between two digits: `1__000` or `1_`.

    Args:
        written: The number as it is written.
        span: The place of the number in the spec.
    """
    return error(
        "TFD106",
        f"{quoted(written)} is not a number",
        span,
        text="misplaced `_`",
        notes=("a `_` stands between two digits, as in `1_000`",),
    )


def too_many_digits(span: Span) -> Diagnostic:
    """A number of hundreds of digits."""
    return error("TFD106", "this number is too long", span, text=counted(span.end - span.start, "digit"))


def number_too_large(written: str, span: Span) -> Diagnostic:
    """A number beyond the range of a float.

    Args:
        written: The number as it is written.
        span: The place of the number in the spec.
    """
    return error(
        "TFD106", f"{quoted(written)} is too large", span, notes=("the largest number is about 1.8e308",)
    )


def unknown_escape(escape: str, span: Span) -> Diagnostic:
    r"""`\d` in a string.

    Args:
        escape: The backslash and the character after it.
        span: The place of both in the spec.
    """
    return error(
        "TFD107",
        f"`{escape}` stands for no character",
        span,
        text="unknown escape",
        notes=('after a backslash comes one of `n`, `t`, `"` and `\\`',),
        help="write `\\\\` for a backslash" if escape[1] != "'" else "write `'` without a backslash",
    )


def nested_too_deeply(deepest: int, span: Span) -> Diagnostic:
    """More brackets within brackets than are read.

    Args:
        deepest: The most brackets within brackets that are read.
        span: The place of the first bracket beyond these in the spec.
    """
    return error("TFD108", f"brackets are nested more than {deepest} deep", span, text=f"level {deepest + 1}")


def too_many_tokens(most: int, span: Span) -> Diagnostic:
    """More tokens than are read.

    Args:
        most: The most tokens that a spec may have.
        span: The place of the first token beyond these in the spec.
    """
    return error(
        "TFD114",
        f"the spec has more than {most:,} words and signs",
        Span(span.source, span.start, min(span.end, span.start + _SHOWN)),
        text="nothing is read from here on",
        notes=("line ends count, comments do not, and all included files are counted together",),
        help="say it with less: `repeat`, `layer` and `let` stand for what recurs, and files have long lists",
    )


def name_too_long(length: int, longest: int, span: Span) -> Diagnostic:
    """A name or label of absurd length.

    Args:
        length: The number of its characters.
        longest: The most characters that a name may have.
        span: The place of the name in the spec.
    """
    return error(
        "TFD109",
        f"a name of {length:,} characters is too long",
        Span(span.source, span.start, min(span.end, span.start + _SHOWN)),
        notes=(f"the longest has {longest}",),
    )
