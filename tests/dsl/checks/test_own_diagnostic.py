"""A diagnostic is added by the places that CONTRIBUTING lists, and then every format shows it."""

import json
from collections.abc import Iterator

import pytest

import grammar
from dsl.checks import Facts
from dsl.codes import CODES, Code
from dsl.diagnostics import Diagnostic
from dsl.errors.wording import Wording
from dsl.formats.render import FORMATS, render

odd_batch = Wording("TFD999: {batch:d} examples are an odd number", text="odd", help="use {batch:plus 1}")

TEXT = """tfdeploy = 1
model "m" {
  x = input(float32, [2])
  output = x -> Dense(1)
}
clones { batch = 3 }
"""


def even_batches(facts: Facts) -> Iterator[Diagnostic]:
    """Report a batch of an odd number of examples."""
    clones = facts.clones
    if clones is not None and isinstance(clones.batch, int) and clones.batch % 2:
        yield odd_batch(clones.span_of("batch"), batch=clones.batch)


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add it: its code, its row, and the check that reports it."""
    monkeypatch.setitem(CODES, "TFD999", Code("TFD999", "odd-batch", "an odd number of examples"))
    monkeypatch.setattr(grammar, "CHECKS", (*grammar.CHECKS, even_batches))


@pytest.mark.parametrize("format_", FORMATS)
def test_it_is_shown_with_its_place(format_: str) -> None:
    """By its code, name, words and line, in each format in its own way."""
    reading = grammar.read("own.tfdeploy", text=TEXT)
    assert (reading.spec, [each.code for each in reading.diagnostics]) == (None, ["TFD999"])
    shown = render(reading.diagnostics, format_)
    assert "TFD999" in shown
    assert "3 examples are an odd number" in shown
    if format_ == "json":
        (found,) = json.loads(shown)["diagnostics"]
        assert (found["name"], found["help"], found["range"]["start"]["line"]) == ("odd-batch", "use 4", 6)
    assert "own.tfdeploy:6:18" in shown or format_ not in {"human", "concise"}


def test_nothing_is_said_of_what_is_right() -> None:
    """Neither of an even number nor of a list of numbers."""
    for batch in ("4", "[1, 2]"):
        assert not list(grammar.read("own.tfdeploy", text=TEXT.replace("= 3", f"= {batch}")).diagnostics)
