"""TFD10x: notation of other languages. Each is reported once for a file, with the right notation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Diagnostic, Edit, Fix, Label
from dsl.errors.making import error, replacing
from dsl.errors.words import counted, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.source import Span

_MOST_LABELS = 4

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
    """Report all comments of a file that start with `//` or `/*`.

    `edits` make comments of this language of them; there are none if one of them cannot be changed.

    Args:
        spans: The places of the comments, of which there is at least one.
        edits: The edits that make comments of this language of them; none if one of them cannot be changed.
    """
    sign = spans[0].text[:2]
    return error(
        "TFD102",
        f"{quoted(sign)} starts no comment here",
        _start(spans[0]),
        text="expected `#`",
        labels=_others([_start(each) for each in spans[1:]]),
        notes=_more(spans),
        help="a comment starts with `#` and ends with its line",
        fix=Fix("write `#`", tuple(edits), "safe") if edits else None,
    )


def foreign_token(written: str, right: str, spans: Sequence[Span]) -> Diagnostic:
    """Report all places of a file with a token of another language, such as `=>`.

    Args:
        written: The token as it is written.
        right: The token of this language that means the same.
        spans: The places of all such tokens in the file, of which there is at least one.
    """
    return error(
        "TFD102",
        f"unexpected {quoted(written)}",
        spans[0],
        text=f"expected {quoted(right)}",
        labels=_others(spans[1:]),
        notes=_more(spans),
        help=f"write {quoted(right)}" + (", which leads from a tensor to a step" if right == "->" else ""),
        fix=Fix(f"write {quoted(right)}", tuple(Edit(each, right) for each in spans), "safe"),
    )


def quoted_keys(spans: Sequence[Span], edits: Sequence[Edit]) -> Diagnostic:
    """Report all names of attributes and blocks of a file that stand in quotes, as JSON has them.

    Args:
        spans: The places of the names with their quotes, of which there is at least one.
        edits: The edits that remove the quotes, one for each name.
    """
    return error(
        "TFD102",
        "the name of an attribute or a block has no quotes",
        spans[0],
        text="expected a name",
        labels=_others(spans[1:]),
        notes=_more(spans),
        help=f"write {quoted(edits[0].replacement + ' ...')}",
        fix=Fix("remove the quotes", tuple(edits), "safe"),
    )


def colon_of_block(span: Span, *, brace: bool) -> Diagnostic:
    """Report a `:` before the `{` of a block, or in its place.

    Args:
        span: The place of the `:` in the spec.
        brace: Whether a `{` follows.
    """
    return error(
        "TFD101",
        "a block has no `:`",
        span,
        text="unexpected character",
        help="remove it" if brace else "the items of a block stand between `{` and `}`",
        fix=replacing("remove it", span, "", safe=True) if brace else None,
    )


def range_with_colon(span: Span) -> Diagnostic:
    """Report `gpu[0:3]`."""
    return error(
        "TFD101",
        "`:` makes no range",
        span,
        text="expected `..`",
        help="write a range as in `gpu[0..3]`, which includes both ends",
    )


def doubled(first: Span, again: Span, *, safe: bool, list_item: bool) -> Diagnostic:
    """Report two equal tokens in a row.

    Args:
        first: The place of the first token.
        again: The place of the second one.
        safe: Whether removing one of them cannot change what is meant.
        list_item: Whether they are in brackets, where a `,` between them may have been meant.
    """
    return error(
        "TFD102",
        f"{quoted(again.text)} stands here twice",
        again,
        text="given again",
        labels=(Label(first, "first given here"),),
        help="remove one of them" + (", or put a `,` between the two" if list_item else ""),
        fix=replacing(f"remove one {quoted(again.text)}", _with_space(first, again), "", safe=safe),
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
    """Report a word that is part of other languages and not of this one, such as `for`.

    Args:
        word: The word.
        span: The place of the word in the spec.
    """
    message = f"the language has no {quoted(word)}" if word != "let" else "`let` is a block"
    return error("TFD102", message, span, text="not a word of a spec", help=WORDS[word])


def called_twice(span: Span, rewritten: tuple[Span, str] | None, *, whole: bool) -> Diagnostic:
    """Report `Dense(64)(x)`; `rewritten` is where it stands and the flow that says the same.

    `whole` says that it is all of a value, or the start of a flow.

    Args:
        span: The place of the second pair of brackets.
        rewritten: The place of the whole call, and the flow that says the same; None if there is no such
            flow.
        whole: Whether the call is all of a value, or the start of a flow, so that the flow can replace it.
    """
    flow = "x -> Dense(64)" if rewritten is None else rewritten[1]
    return error(
        "TFD102",
        "a layer is not called on a tensor",
        span,
        text="a second call",
        notes=("a tensor goes into a layer by `->`, and the brackets hold the layer's arguments",),
        help=f"write {quoted(flow)}",
        fix=replacing("write it as a flow", rewritten[0], flow, safe=True) if rewritten and whole else None,
    )


def _start(span: Span) -> Span:
    """Return the token that a comment starts with."""
    return type(span)(span.source, span.start, span.start + 2)


def _others(spans: Sequence[Span]) -> tuple[Label, ...]:
    return tuple(Label(each, "here too") for each in spans[:_MOST_LABELS])


def _more(spans: Sequence[Span]) -> tuple[str, ...]:
    unseen = len(spans) - 1 - _MOST_LABELS
    return (f"and in {counted(unseen, 'more place')}",) if unseen > 0 else ()


def _with_space(first: Span, again: Span) -> Span:
    """Return the second of two tokens with the white space before it."""
    return type(again)(again.source, first.end, again.end)
