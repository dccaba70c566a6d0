"""An attribute of `update` is added by the places that CONTRIBUTING lists; the rest follows the schema."""

import pytest
from attrs import evolve, frozen

import grammar
from dsl import ir
from dsl.schema import BLOCKS, Attribute, vocabulary
from dsl.schema.types import integer
from grammar.unparse import unparse

TEXT = """tfdeploy = 1
model "m" {{
  x = input(float32, [2])
  output = x -> Dense(1)
}}
update {{ {} }}
"""


@frozen
class Update(ir.Update):
    """The record of the block with one more field."""

    pause: int = 2


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add it: a row of the schema, and a field of the record."""
    update = BLOCKS["update"]
    row = Attribute("pause", integer(0, 9), "steps between two updates")
    more = evolve(update, attributes=(*update.attributes, row), record=Update)
    monkeypatch.setitem(BLOCKS, "update", more)
    monkeypatch.setattr(ir, "Update", Update)


def read(written: str, *overrides: tuple[str, str]) -> grammar.Reading:
    """Read a spec with something written in `update`."""
    return grammar.read("own.tfdeploy", overrides, text=TEXT.format(written))


def test_it_is_read_and_written() -> None:
    """From the text, from `--set`, and by its default; what `show` writes of it is the same spec."""
    for reading, pause in (
        (read("pause = 3"), 3),
        (read("pause = 3", ("update.pause", "4")), 4),
        (read("accumulate = 1"), 2),
    ):
        spec = reading.spec
        assert spec.update.pause == pause
        text = unparse(spec)
        assert f"pause = {pause}\n" in text
        assert grammar.read("again.tfdeploy", text=text).spec == spec


@pytest.mark.parametrize(
    ("written", "code", "place"),
    [("pause = 10", "TFD305", "10"), ("pause = no", "TFD401", "no"), ("pauze = 3", "TFD202", "pauze")],
)
def test_what_is_wrong_is_refused_at_its_place(written: str, code: str, place: str) -> None:
    """A value beyond its bounds, one that is none, and a name that is similar."""
    (found,) = read(written).diagnostics
    assert (found.code, found.span and found.span.text) == (code, place)
    assert code != "TFD202" or (found.fix is not None and found.fix.title == "write `pause`")


def test_tools_know_its_name() -> None:
    """Those that colour specs, and completions of `--set`."""
    assert "pause" in vocabulary.attributes()
    assert "update.pause=" in vocabulary.override_completions("update.pa")
