"""Models that a few lines make very large are refused before they are written out."""

from __future__ import annotations

import pytest
from attrs import evolve

import grammar
from compiler.checks import diagnose
from compiler.model import elaborate as elaboration
from compiler.model.expansion import DEEPEST, MOST_STEPS, require_bounded
from dsl.diagnostics import SpecError

LAYER = """layer "{}" {{
  x = input()
  n = parameter(int, default = 1)
  output = x -> {}
}}
"""


def text(step: str, *blocks: tuple[str, str]) -> str:
    """Return a spec whose model has a step, with some `layer` blocks."""
    model = f'model "m" {{\n  x = input(float32, [4])\n  y = x -> {step}\n  output = y\n}}\n'
    return "tfdeploy = 1\n" + "".join(LAYER.format(*each) for each in blocks) + model


def doubled(base: str, again: str) -> list[tuple[str, str]]:
    """Return forty blocks, each of which uses the one before it as `again` says."""
    return [("l0", base), *((f"l{at}", again.format(*(f"l{at - 1}",) * 2)) for at in range(1, 41))]


TOO_LARGE = {
    "blocks": text("l40()", *doubled("Dense(4)", "{}() -> {}()")),
    "blocks without layers": text(
        "l40()", *doubled("l()", "{}() -> {}()"), ("l", "repeat(n, i())"), ("i", "E")
    ),
    "repeat": text("repeat(200, repeat(200, Dense(4)))"),
    "parameters": text("l40(1)", *doubled("repeat(n, Dense(4))", "{}(2 * n) -> {}(2 * n + 1)")),
    "many parts": text("repeat(3, l())", ("l", " -> ".join(["Dense(4)"] * 7_000))),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_grows_beyond_the_bound_is_refused_before_it_grows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is at the step, for `check` and the plan alike, and no step is made."""
    made: list[object] = []
    monkeypatch.setattr(elaboration._Builder, "_step", lambda *_: made.append(_))
    reading = grammar.read("a", text=TOO_LARGE[name].replace("-> E", ""))
    assert reading.spec is not None
    (error,) = diagnose(reading)
    assert (error.code, error.is_error) == ("TFD518", True)
    assert error.span is not None
    with pytest.raises(SpecError, match="TFD518"):
        elaboration.elaborate(reading.spec)
    assert made == []


@pytest.mark.parametrize(
    "written",
    [
        text("repeat(10, l(2)) -> l(0)", ("l", "Dense(4) -> repeat(n, repeat(3, m()))"), ("m", "Dense(4)")),
        text("Dense(4)\n  s = layer(l(2))\n  z = x -> s -> s", ("l", "repeat(n, Dense(4))")),
        text("Dense(4)\n  z = x[:, 0:2] + ops.exp(x[:, 0:2]) * 2"),
    ],
    ids=["repeated", "shared", "operations"],
)
def test_the_steps_that_are_counted_are_those_that_are_made(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound of exactly the steps of a model lets it pass, and one less does not."""
    spec = grammar.read("a", text=written).spec
    assert spec is not None
    graph = elaboration.elaborate(spec)
    blocks = 0
    block = elaboration._Builder._block

    def counted(*given: object) -> object:
        nonlocal blocks
        blocks += 1
        return block(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(elaboration._Builder, "_block", counted)
    elaboration.elaborate(evolve(spec))
    steps = len(graph.calls) + blocks
    monkeypatch.setattr("compiler.model.expansion.MOST_STEPS", steps)
    require_bounded(spec)
    monkeypatch.setattr("compiler.model.expansion.MOST_STEPS", steps - 1)
    with pytest.raises(SpecError, match="TFD518"):
        require_bounded(spec)


def test_blocks_within_each_other_have_a_bounded_depth() -> None:
    """So many blocks as are allowed are written out, and one more is refused at its use."""
    chain = [(f"l{at}", f"l{at + 1}()") for at in range(DEEPEST)]
    deepest = (f"l{DEEPEST}", "Dense(4)")
    fine = grammar.read("a", text=text("l1()", *chain[1:], deepest))
    assert not any(each.is_error for each in diagnose(fine))
    (error,) = diagnose(grammar.read("a", text=text("l0()", *chain, deepest)))
    assert (error.code, error.span and error.span.text) == ("TFD518", f"l{DEEPEST}()")


def test_a_model_of_the_largest_size_is_written_out() -> None:
    """The bound itself is allowed."""
    spec = grammar.read(
        "a", text=text(f"repeat({MOST_STEPS // 2}, Dense(4)) -> repeat({MOST_STEPS // 2}, Dense(4))")
    ).spec
    assert spec is not None
    assert len(elaboration.elaborate(spec).calls) == MOST_STEPS
