"""One diagnostic for all uses of a name that is not defined."""

from __future__ import annotations

import grammar
from dsl.diagnostics import Diagnostic

MODEL = 'tfdeploy = 1\nmodel "m" {{\n  x = input(float32, [4])\n  y = x {}\n  output = y\n}}\n'


def read(flow: str) -> list[Diagnostic]:
    """Return what is wrong with a model of one flow."""
    return [
        each for each in grammar.read("spec.tfdeploy", text=MODEL.format(flow)).diagnostics if each.is_error
    ]


def test_an_unknown_name_is_said_once() -> None:
    """The first use has the message and the others a label each; the fix mends all of them."""
    (found,) = read("-> Dens(1) -> Dens(2) -> Dens(3)")
    assert (found.code, found.span is not None and found.span.begin.column) == ("TFD404", 12)
    assert [(each.span.begin.column, each.text) for each in found.labels] == [
        (23, "here too"),
        (34, "here too"),
    ]
    assert found.fix is not None
    assert [edit.span.begin.column for edit in found.fix.edits] == [12, 23, 34]


def test_names_that_differ_are_told_apart() -> None:
    """Each unknown name has a diagnostic of its own."""
    assert [each.message for each in read("-> Dens(1) -> Densse(2)")] == [
        "there is no layer `Dens`",
        "there is no layer `Densse`",
    ]


def test_what_is_not_shown_is_counted() -> None:
    """Beyond four other places a note says how many there are."""
    (found,) = read(" -> ".join(["", *["Dens(1)"] * 7]))
    assert len(found.labels) == 4
    assert found.notes[-1] == "and in 2 more places"
    assert found.fix is not None
    assert len(found.fix.edits) == 7
