"""Diagnostics to be rendered."""

from typing import Any

from hypothesis import strategies as st

from dsl.diagnostics import Diagnostic, Label
from dsl.source import Source, Span


def at(source: Source, text: str) -> Span:
    """Return the first place of `text` in `source`."""
    start = source.text.index(text)
    return Span(source, start, start + len(text))


def error(message: str, span: Span | None = None, text: str = "", **more: Any) -> Diagnostic:
    """Return an error, with a code of its own, to be rendered."""
    return Diagnostic("TFD402", message, span, text, **more)


TRAIN = Source("train.tfdeploy", "\n" * 9 + "  gpu = 4\n\n\n\n\n\n  clones -> gpu[0..7]\n")
NO_GPU = error(
    "`gpu[7]` does not exist",
    at(TRAIN, "7"),
    "index 7",
    labels=(Label(at(TRAIN, "4"), "only 4 GPUs are declared (0..3)"),),
    notes=("ranges include both ends",),
    help="use `gpu[0..3]`, or raise `gpu` to 8",
)

ENDS = st.lists(st.tuples(st.integers(0, 120), st.integers(0, 120)), min_size=1, max_size=5)
"""Pairs of offsets, in any order, perhaps beyond the end of a text."""


def texts() -> st.SearchStrategy[str]:
    """Return texts with everything that is hard to show."""
    return st.text(alphabet="ab \t\n\r={}日\u0301\x1b\xa0", max_size=120)


def anywhere(text: str, ends: list[tuple[int, int]]) -> Diagnostic:
    """Return an error at the first of the pairs of offsets, with labels at the others."""
    source = Source("any.tfdeploy", text)
    spans = [Span(source, min(*pair, len(text)), min(max(pair), len(text))) for pair in ends]
    return error("any", spans[0], "main", labels=tuple(Label(span, "more") for span in spans[1:]))
