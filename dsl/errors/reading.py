"""TFD1xx: characters, brackets and the order of tokens, and the notation of other languages.

What is of another language is reported once for a file, with the right notation.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from dsl.diagnostics import Diagnostic, Edit, Fix, Label
from dsl.errors.wording import Replacing, Wording, either
from dsl.errors.words import counted, joined, quoted
from dsl.source import Source, Span

_SHOWN = 40
_MOST_LABELS = 4


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


def name_not_ascii(name: str, span: Span) -> Diagnostic:
    """Return the diagnostic of a name with letters that TensorFlow's names cannot have."""
    strange = sorted({letter for letter in name if not letter.isascii()})
    return Diagnostic(
        "TFD101",
        f"{quoted(name)} has letters that a name cannot have",
        span,
        f"{joined([quoted(letter) for letter in strange[:5]])} cannot be part of a name",
        notes=("names are made of the letters a to z, digits and `_`",),
    )


unexpected_token = Wording(
    "TFD102",
    "unexpected {found}",
    text=either("expected {expected?:joined or}", "expected nothing more"),
    help="{advice?}",
)


def line_goes_on(before: Span, after: Span, *, wanting: bool) -> Diagnostic:
    """Return the diagnostic of an item that goes on in the next line.

    Args:
        before: The last token of the first line.
        after: The first token of the next line.
        wanting: Whether the first line is incomplete.
    """
    if wanting:
        arrow = before.text == "->"
        return Diagnostic(
            "TFD102",
            f"unexpected end of the line after {quoted(before.text)}",
            before,
            "expected a step" if arrow else "expected a value",
            labels=(Label(after, "this line starts a new item"),),
            help="put the `->` at the start of the next line" if arrow else "put both on one line",
        )
    what = "the name of its block" if after.text == "{" else "what comes before it"
    return Diagnostic(
        "TFD102",
        f"unexpected {quoted(after.text)} at the start of a line",
        after,
        "expected an item",
        labels=(Label(before, "the line before ends its item here"),),
        help=f"put the {quoted(after.text)} on the line of {what}",
    )


def value_expected(source: Source, start: int) -> Diagnostic:
    """Return the diagnostic of a `--set` without the value that should begin at `start`."""
    span = Span(source, start, len(source.text))
    return Diagnostic("TFD102", "the value is missing", span, "expected a value")


not_a_value = Wording("TFD102", "{span:quoted} is not a value", text="expected one value")
unquoted_label = Wording(
    "TFD102",
    "the name of a `{kind}` block is a string",
    text="expected a string",
    help='write `{kind} "{label}" {{`',
    fix=Replacing("add the quotes", '"{label}"', safe=True),
)
equals_before_block = Wording(
    "TFD102",
    "unexpected `=` before a block",
    text="expected `{{`",
    help="write `{kind} {{`",
    fix=Replacing("remove the `=`", "", safe=True),
)
constant_called = Wording(
    "TFD102", "{span:quoted} is a constant and cannot be called", text="expected a name"
)
unterminated_string = Wording(
    "TFD103",
    "this string has no end",
    text='the line ends before the closing `"`',
    help='add the closing `"`; a line break inside a string is written `\\n`',
)


single_quotes = Wording(
    "TFD103",
    "strings stand in double quotes",
    text="in other quotes",
    help="write {right:quoted}",
    fix=Replacing("use double quotes", "{right}", safe=True),
)
unclosed = Wording("TFD104", "this `{opener}` is never closed", text="its `{closer}` is missing")
missing_brace = Wording(
    "TFD104",
    "the block {span:quoted} has no `{{`",
    text="expected `{{` after this",
    places={"closer": "this `}}` closes no other block"},
)
stray_brace = Wording(
    "TFD105", "this `{{` opens no block", text="no name of a block before it", help="remove it"
)
unmatched = Wording("TFD105", "this `{closer}` closes nothing", text="nothing is open here", help="remove it")
wrong_closer = Wording(
    "TFD105",
    "`{closer}` does not close `{opener}`",
    text="expected `{right}`",
    places={"opened": "this `{opener}` is open"},
    fix=Replacing("write `{right}`", "{right}"),
)


malformed_number = Wording(
    "TFD106",
    "{written:quoted} is not a number",
    text="a digit is missing beside the point",
    help="write {right:quoted}",
    fix=Replacing("write {right:quoted}", "{right}", safe=True),
)
misplaced_underscore = Wording(
    "TFD106",
    "{written:quoted} is not a number",
    text="misplaced `_`",
    notes=("a `_` stands between two digits, as in `1_000`",),
)


too_many_digits = Wording("TFD106", "this number is too long", text="{digits:counted digit}")
number_too_large = Wording(
    "TFD106", "{written:quoted} is too large", notes=("the largest number is about 1.8e308",)
)


unknown_escape = Wording(
    "TFD107",
    "`{escape}` stands for no character",
    text="unknown escape",
    notes=('after a backslash comes one of `n`, `t`, `"` and `\\`',),
    help=either("{if:quote}write `'` without a backslash", "write `\\\\` for a backslash"),
)
nested_too_deeply = Wording(
    "TFD108", "brackets are nested more than {deepest:d} deep", text="level {level:d}"
)


def too_many_tokens(most: int, span: Span) -> Diagnostic:
    """Return the diagnostic of more tokens than are read; `span` is the first that is not."""
    return Diagnostic(
        "TFD114",
        f"the spec has more than {most:,} words and signs",
        _start(span, _SHOWN),
        "nothing is read from here on",
        notes=("line ends count, comments do not, and all included files are counted together",),
        help="say it with less: `repeat`, `layer` and `let` stand for what recurs, and files have long lists",
    )


def name_too_long(length: int, longest: int, span: Span) -> Diagnostic:
    """Return the diagnostic of a name or label of absurd length."""
    message = f"a name of {length:,} characters is too long"
    return Diagnostic("TFD109", message, _start(span, _SHOWN), notes=(f"the longest has {longest}",))


# --- the notation of other languages ----------------------------------------------------------------------

_REPEAT = "`repeat(3, Dense(64))` makes a step several times, and a `layer` block gives several steps a name"
_ONE_MODEL = "a spec describes one model; `--set PATH=VALUE` changes its values from the command line"
_BLOCK = 'a `layer "name" { ... }` block gives several steps a name, and `parameter(...)` is its argument'
_FUNCTION = 'use a `layer` block, or `python("module:function")`, whose function returns a Keras layer'
_INCLUDE = 'write `include = ["other.tfdeploy"]` at the top of the file; Keras needs no import'
_LET = "constants stand in a block: `let { size = 64 }`"

WORDS = {
    "for": _REPEAT,
    "while": _REPEAT,
    "if": _ONE_MODEL,
    "else": _ONE_MODEL,
    "def": _BLOCK,
    "class": _BLOCK,
    "fn": _BLOCK,
    "function": _BLOCK,
    "lambda": _FUNCTION,
    "import": _INCLUDE,
    "from": _INCLUDE,
    "return": "a `layer` block gives what its `output = ...` says",
    "print": "`tfdeploy plan` shows what a spec makes",
    "let": _LET,
    "const": _LET,
    "var": _LET,
}
"""What to write instead of words that other languages have."""


def foreign_comments(spans: Sequence[Span], edits: Sequence[Edit]) -> Diagnostic:
    """Return the diagnostic of all comments of a file that start with `//` or `/*`.

    Args:
        spans: The places of the comments, of which there is at least one.
        edits: The edits that make comments of this language of them; none if one of them cannot be changed.
    """
    signs = [_start(each, 2) for each in spans]
    return Diagnostic(
        "TFD102",
        f"{quoted(signs[0].text)} starts no comment here",
        signs[0],
        "expected `#`",
        labels=_others(signs),
        notes=_more(spans),
        help="a comment starts with `#` and ends with its line",
        fix=Fix("write `#`", tuple(edits), "safe") if edits else None,
    )


def foreign_token(written: str, right: str, spans: Sequence[Span]) -> Diagnostic:
    """Return the diagnostic of all places of a file with a token of another language, such as `=>`.

    Args:
        written: The token as it is written.
        right: The token of this language that means the same.
        spans: The places of all such tokens in the file, of which there is at least one.
    """
    return Diagnostic(
        "TFD102",
        f"unexpected {quoted(written)}",
        spans[0],
        f"expected {quoted(right)}",
        labels=_others(spans),
        notes=_more(spans),
        help=f"write {quoted(right)}" + (", which leads from a tensor to a step" if right == "->" else ""),
        fix=Fix(f"write {quoted(right)}", tuple(Edit(each, right) for each in spans), "safe"),
    )


def quoted_keys(spans: Sequence[Span], edits: Sequence[Edit]) -> Diagnostic:
    """Return the diagnostic of all names of attributes and blocks of a file that stand in quotes, as in JSON.

    Args:
        spans: The places of the names with their quotes, of which there is at least one.
        edits: The edits that remove the quotes, one for each name.
    """
    return Diagnostic(
        "TFD102",
        "the name of an attribute or a block has no quotes",
        spans[0],
        "expected a name",
        labels=_others(spans),
        notes=_more(spans),
        help=f"write {quoted(edits[0].replacement + ' ...')}",
        fix=Fix("remove the quotes", tuple(edits), "safe"),
    )


def _others(spans: Sequence[Span]) -> tuple[Label, ...]:
    return tuple(Label(each, "here too") for each in spans[1 : _MOST_LABELS + 1])


def _more(spans: Sequence[Span]) -> tuple[str, ...]:
    unseen = len(spans) - 1 - _MOST_LABELS
    return (f"and in {counted(unseen, 'more place')}",) if unseen > 0 else ()


colon_of_block = Wording(
    "TFD101",
    "a block has no `:`",
    text="unexpected character",
    help=either("{if:brace}remove it", "the items of a block stand between `{{` and `}}`"),
    fix=Replacing("{if:brace}remove it", "", safe=True),
)
range_with_colon = Wording(
    "TFD101",
    "`:` makes no range",
    text="expected `..`",
    help="write a range as in `gpu[0..3]`, which includes both ends",
)


def doubled(first: Span, again: Span, *, safe: bool, list_item: bool) -> Diagnostic:
    """Return the diagnostic of two equal tokens in a row.

    Args:
        first: The place of the first token.
        again: The place of the second one.
        safe: Whether removing one of them cannot change what is meant.
        list_item: Whether they are in brackets, where a `,` between them may have been meant.
    """
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


_OPTIMIZER = (
    "a learning rate is an argument of the optimizer: `update { optimizer = Adam(learning_rate = 1e-3) }`"
)
_BATCH = "batches are cut for clones: `clones { batch = 64 }`, or `global_batch` for all clones together"
_LENGTH = "training is as long as `steps` or `epochs` in `train` say"
_FREEZE = (
    "give `trainable = false` to the steps of the model that are to stay as they are, or name them in "
    '`update { freeze = ["backbone/*"] }`'
)

ATTRIBUTES = {
    "lr": _OPTIMIZER,
    "learning_rate": _OPTIMIZER,
    "batch_size": _BATCH,
    "batchsize": _BATCH,
    "max_steps": _LENGTH,
    "num_steps": _LENGTH,
    "max_epochs": _LENGTH,
    "num_epochs": _LENGTH,
    "n_epochs": _LENGTH,
    "trainable": _FREEZE,
    "dataset": "data stands in a block of its own: `data { train = csv(...) }`",
}
"""Attributes of other languages, each with what to write instead."""


def foreign_word(word: str, span: Span) -> Diagnostic:
    """Return the diagnostic of a word of `WORDS`, such as `for`."""
    message = f"the language has no {quoted(word)}" if word != "let" else "`let` is a block"
    return Diagnostic("TFD102", message, span, "not a word of a spec", help=WORDS[word])


def called_twice(span: Span, rewritten: tuple[Span, str] | None, *, whole: bool) -> Diagnostic:
    """Return the diagnostic of `Dense(64)(x)`.

    Args:
        span: The place of the second pair of brackets.
        rewritten: The place of the whole call, and the flow that says the same; None if there is none.
        whole: Whether the call is all of a value, or the start of a flow, so that the flow can replace it.
    """
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


def _start(span: Span, length: int) -> Span:
    """Return the first characters of a span."""
    return Span(span.source, span.start, min(span.end, span.start + length))
