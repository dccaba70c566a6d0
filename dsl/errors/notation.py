"""TFD1xx: characters, brackets and the order of tokens, and the notation of other languages.

What is of another language is reported once for a file, with the right notation.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from dsl.diagnostics import Diagnostic, Edit, Fix, Label
from dsl.errors.wording import Replacing, Wording, either, here_too, quoted
from dsl.instead import OPERATIONS
from dsl.source import Span

# What word processors and web pages put in place of plain characters.
# ruff: noqa: RUF001 the characters are what this table is about
_PLAIN = {"−": "-", "–": "-", "×": "*", "→": "->", "\u00a0": " "}

name_not_ascii = Wording(
    "TFD101: {name:quoted} has letters that a name cannot have",
    text="{letters:listed} cannot be part of a name",
    notes=("names are made of the letters a to z, digits and `_`",),
)
unexpected_token = Wording(
    "TFD102: unexpected {found}",
    text="expected {expected?:|{expected:joined or}|nothing more}",
    help="{advice?}",
)
line_wants_more = Wording(
    "TFD102: unexpected end of the line after {span:quoted}",
    text="expected a {arrow:|step|value}",
    places={"after": "this line starts a new item"},
    help="put {arrow:|the `->` at the start of the next line|both on one line}",
)
line_goes_on = Wording(
    "TFD102: unexpected {span:quoted} at the start of a line",
    text="expected an item",
    places={"before": "the line before ends its item here"},
    help="put the {span:quoted} on the line of {brace:|the name of its block|what comes before it}",
)
value_expected = Wording("TFD102: the value is missing", text="expected a value")
not_a_value = Wording("TFD102: {span:quoted} is not a value", text="expected one value")
unquoted_label = Wording(
    "TFD102: the name of a `{kind}` block is a string",
    text="expected a string",
    help='write `{kind} "{label}" {{`',
    fix=Replacing("add the quotes", '"{label}"', safe=True),
)
equals_before_block = Wording(
    "TFD102: unexpected `=` before a block",
    text="expected `{{`",
    help="write `{kind} {{`",
    fix=Replacing("remove the `=`", "", safe=True),
)
constant_called = Wording("TFD102: {span:quoted} is a constant and cannot be called", text="expected a name")
unterminated_string = Wording(
    "TFD103: this string has no end",
    text='the line ends before the closing `"`',
    help='add the closing `"`; a line break inside a string is written `\\n`',
)
single_quotes = Wording(
    "TFD103: strings stand in double quotes",
    text="in other quotes",
    help="write {right:quoted}",
    fix=Replacing("use double quotes", "{right}", safe=True),
)
unclosed = Wording("TFD104: this `{opener}` is never closed", text="its `{closer}` is missing")
missing_brace = Wording(
    "TFD104: the block {span:quoted} has no `{{`",
    text="expected `{{` after this",
    places={"closer": "this `}}` closes no other block"},
)
stray_brace = Wording(
    "TFD105: this `{{` opens no block", text="no name of a block before it", help="remove it"
)
unmatched = Wording("TFD105: this `{closer}` closes nothing", text="nothing is open here", help="remove it")
wrong_closer = Wording(
    "TFD105: `{closer}` does not close `{opener}`",
    text="expected `{right}`",
    places={"opened": "this `{opener}` is open"},
    fix=Replacing("write `{right}`", "{right}"),
)
malformed_number = Wording(
    "TFD106: {written:quoted} is not a number",
    text="a digit is missing beside the point",
    help="write {right:quoted}",
    fix=Replacing("write {right:quoted}", "{right}", safe=True),
)
misplaced_underscore = Wording(
    "TFD106: {written:quoted} is not a number",
    text="misplaced `_`",
    notes=("a `_` stands between two digits, as in `1_000`",),
)
too_many_digits = Wording("TFD106: this number is too long", text="{digits:counted digit}")
number_too_large = Wording(
    "TFD106: {written:quoted} is too large", notes=("the largest number is about 1.8e308",)
)
unknown_escape = Wording(
    "TFD107: `{escape}` stands for no character",
    text="unknown escape",
    notes=('after a backslash comes one of `n`, `t`, `"` and `\\`',),
    help="write {quote:|`'` without a backslash|`\\\\` for a backslash}",
)
nested_too_deeply = Wording(
    "TFD108: brackets are nested more than {deepest:d} deep", text="level {deepest:plus 1}"
)
too_many_tokens = Wording(
    "TFD114: the spec has more than {most:,} words and signs",
    text="nothing is read from here on",
    notes=("line ends count, comments do not, and all included files are counted together",),
    help="say it with less: `repeat`, `layer` and `let` stand for what recurs, and files have long lists",
)
name_too_long = Wording(
    "TFD109: a name of {length:,} characters is too long", notes=("the longest has {longest:d}",)
)


def unexpected_character(character: str, span: Span, instead: str | None) -> Diagnostic:
    """Return the diagnostic of a character; `instead` is what it is taken for, None if it is dropped."""
    visible = character.isprintable() and not character.isspace()
    plain = instead or _PLAIN.get(character)
    said = quoted(plain) if plain and plain.strip() else "a plain space"
    known_as = f"U+{ord(character[0]):04X} {unicodedata.name(character[0], 'without a name').lower()}"
    operation = OPERATIONS.get(character)
    removed = Fix.replacing("remove it", span, "")
    written = Fix.replacing(f"write {said}", span, plain, safe=instead is not None) if plain else removed
    return Diagnostic(
        "TFD101",
        f"{quoted(character) if visible else 'this character'} has no meaning here",
        span,
        "unexpected character",
        notes=() if character.isascii() and visible else (f"it is {known_as.replace('û', 'u')}",),
        help=f"an operation on tensors is a function: `ops.{operation}`"
        if operation
        else f"write {said} instead"
        if plain
        else "remove it",
        fix=None if operation else written,
    )


# --- the notation of other languages ----------------------------------------------------------------------


colon_of_block = Wording(
    "TFD101: a block has no `:`",
    text="unexpected character",
    help=either("{if:brace}remove it", "the items of a block stand between `{{` and `}}`"),
    fix=Replacing("{if:brace}remove it", "", safe=True),
)
foreign_word = Wording(
    "TFD102: {block:|`let` is a block|the language has no {word:quoted}}",
    text="not a word of a spec",
    help="{advice}",
)
range_with_colon = Wording(
    "TFD101: `:` makes no range",
    text="expected `..`",
    help="write a range as in `gpu[0..3]`, which includes both ends",
)


def foreign_comments(spans: Sequence[Span], edits: Sequence[Edit]) -> Diagnostic:
    """Return the diagnostic of all comments of a file that start with `//` or `/*`."""
    signs = [Span(each.source, each.start, each.start + 2) for each in spans]
    message = f"{quoted(signs[0].text)} starts no comment here"
    help_ = "a comment starts with `#` and ends with its line"
    return _all_over(signs, message, "expected `#`", help_, Fix("write `#`", tuple(edits), "safe"))


def foreign_token(written: str, right: str, spans: Sequence[Span]) -> Diagnostic:
    """Return the diagnostic of all places of a file with a token of another language, such as `=>`."""
    help_ = f"write {quoted(right)}" + (", which leads from a tensor to a step" if right == "->" else "")
    fix = Fix(f"write {quoted(right)}", tuple(Edit(each, right) for each in spans), "safe")
    return _all_over(spans, f"unexpected {quoted(written)}", f"expected {quoted(right)}", help_, fix)


def quoted_keys(spans: Sequence[Span], edits: Sequence[Edit]) -> Diagnostic:
    """Return the diagnostic of all names of attributes and blocks in quotes, as JSON has them."""
    message = "the name of an attribute or a block has no quotes"
    fix = Fix("remove the quotes", tuple(edits), "safe")
    return _all_over(spans, message, "expected a name", f"write {quoted(edits[0].replacement + ' ...')}", fix)


def _all_over(spans: Sequence[Span], message: str, text: str, help_: str, fix: Fix) -> Diagnostic:
    labels, notes = here_too(spans[1:])
    corrected = fix if fix.edits else None
    return Diagnostic(
        "TFD102", message, spans[0], text, labels=labels, notes=notes, help=help_, fix=corrected
    )


def doubled(first: Span, again: Span, *, safe: bool, list_item: bool) -> Diagnostic:
    """Return the diagnostic of two equal tokens in a row, as items of a list or not."""
    with_space = Span(again.source, first.end, again.end)
    return Diagnostic(
        "TFD102",
        f"{quoted(again.text)} stands here twice",
        again,
        "given again",
        labels=(Label(first, "first given here"),),
        help="remove one of them" + (", or put a `,` between the two" if list_item else ""),
        fix=Fix.replacing(f"remove one {quoted(again.text)}", with_space, "", safe=safe),
    )


def called_twice(span: Span, rewritten: tuple[Span, str] | None, *, whole: bool) -> Diagnostic:
    """Return the diagnostic of `Dense(64)(x)`, with its whole place and the flow that says the same."""
    flow = "x -> Dense(64)" if rewritten is None else rewritten[1]
    return Diagnostic(
        "TFD102",
        "a layer is not called on a tensor",
        span,
        "a second call",
        notes=("a tensor goes into a layer by `->`, and the brackets hold the layer's arguments",),
        help=f"write {quoted(flow)}",
        fix=Fix.replacing("write it as a flow", rewritten[0], flow, safe=True)
        if rewritten and whole
        else None,
    )
