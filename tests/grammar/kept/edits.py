"""Random edits of texts, and all that reading gives in a form that can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from compiler.checks import diagnose
from dsl import syntax
from dsl.source import Span

if TYPE_CHECKING:
    import random

    from dsl.diagnostics import Diagnostic
    from grammar import Reading

PIECES = (
    *"{}()[],=\"#\nx1 ':;§+*-<%.",
    *(
        "->",
        "=>",
        "//",
        "/*",
        "..",
        "...",
        "😀",
        "\r\n",
        "for",
        "1.",
        "name(",
        "[0]",
        "layer",
        "a b",
        "\n  ",
        "\n\n",
    ),
    *("a = 1", "# tfdeploy: allow(unused-binding)", "# tfdeploy: allow(wrong)", "x = y -> Dense(4)\n"),
    *("  y = Dense(\n", "a, b = x -> LSTM(4)\n", "\n}\n", "metrics {\n a = b -> C()\n}\n", "Dense(64)(x)"),
    *("let {\n  one = 1\n}\n", 'layer "l" {\n  x = input()\n  output = x\n}\n'),
)
"""What is put into texts: brackets and quotes without partners, line ends, whole blocks, other languages."""


def edited(text: str, chosen: random.Random) -> str:
    """Return a text after one edit: a piece put in, characters or lines taken out, doubled or replaced."""
    at, kind = chosen.randrange(len(text) + 1), chosen.random()
    if kind < 0.5:
        return text[:at] + chosen.choice(PIECES) + text[at:]
    if kind < 0.75:
        return text[:at] + text[at + chosen.choice((1, 1, 1, 2, 5, 30, 200)) :]
    if kind < 0.85:
        start = chosen.randrange(len(text) + 1)
        return text[:at] + text[start : start + chosen.randrange(60)] + text[at:]
    return text[:at] + chosen.choice(PIECES) + text[at + chosen.randrange(1, 8) :]


def said(reading: Reading) -> list[Any]:
    """Return all of the diagnostics."""
    return [_said(each) for each in diagnose(reading)]


def _said(each: Diagnostic) -> tuple[Any, ...]:
    edits = each.fix.edits if each.fix else ()
    return (
        *(each.code, each.message, each.help, each.notes, each.severity, each.file),
        place(each.span),
        [(place(label.span), label.text) for label in each.labels],
        [(place(edit.span), edit.replacement) for edit in edits],
    )


def place(span: Span | None) -> tuple[str, int, int, str] | None:
    """Return where a span is, and its text."""
    return None if span is None else (span.source.name, span.start, span.end, span.text)


def places(value: object) -> list[Any]:  # noqa: PLR0911 one for each kind
    """Return where all parts of a syntax tree or of a record of the IR are, in order."""
    if isinstance(value, Span):
        return [place(value)]
    if isinstance(value, tuple | list):
        return [found for each in value for found in places(each)]
    if isinstance(value, dict):
        return places(list(value.values()))
    if isinstance(value, syntax.Node):
        names = [name for name in type(value).__slots__ if name != "memory"]
        return [type(value).__name__, *places([value.span, *(getattr(value, name) for name in names)])]
    if isinstance(value, syntax.File):
        return places(value.items)
    if isinstance(value, syntax.Allowance):
        return [value.name, value.line, place(value.span)]
    if attrs.has(type(value)):
        return places([getattr(value, each.name) for each in attrs.fields(type(value))])
    return [] if value is None else [str(value)]
