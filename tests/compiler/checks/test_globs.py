"""Globs of rules for weights that begin like no layer are found without TensorFlow."""

from __future__ import annotations

import pytest
from attrs import evolve

from compiler.checks import check_spec
from compiler.checks.rules import globs_can_match
from compiler.topology import declare
from dsl.diagnostics import Diagnostic
from tests.support import marked, spec_of

SPEC = """
tfdeploy = 1
layer "block" {
  units = parameter(int)
  x = input()
  output = x -> Dense(units, name = "wide") -> LayerNormalization(name = "norm")
}
model "m" {
  x = input(float32, [4])
  scale = weight([4])
  y = x * scale -> block(8, name = "encoder") -> Dense(2, name = "words")
  output = y
}
DEVICES
place { RULE }
"""
CPU = "devices { cpu = 2 }"


def found(rule: str, devices: str = CPU) -> list[Diagnostic]:
    """Return the errors that `check` finds in a spec with a rule."""
    text = SPEC.replace("RULE", rule).replace("DEVICES", devices)
    return [each for each in check_spec(spec_of(text)) if each.is_error]


@pytest.mark.parametrize("devices", [CPU, ""])
@pytest.mark.parametrize(
    ("selector", "nearest"),
    [
        ('variables("wrods/*")', "`words/*`"),
        ('variables("wrods/kernel")', "`words/kernel`"),
        ('slots("encodr/*")', "`encoder/*`"),
        ('variables("encoder/wied/*")', "`encoder/wide/*`"),
        ('variables("words")', "`words/*`"),
        ('variables("word/*")', "`words/*`"),
    ],
)
def test_a_glob_that_begins_like_no_layer_is_an_error(selector: str, nearest: str, devices: str) -> None:
    """The nearest names are told, and the place is that of the selector; devices need not be declared."""
    (error,) = found(f"{selector} -> cpu[0]", devices)
    assert error.code == "TFD511"
    assert marked(error) == selector
    assert error.notes[0].startswith(f"the nearest names are {nearest}")


def test_a_rule_that_was_not_read_is_written_out() -> None:
    """A spec may be made of records; the place is that of the whole rule, if it has one."""
    spec = spec_of(SPEC.replace("RULE", 'variables("wrods/*") -> cpu[0]').replace("DEVICES", CPU))
    (read,) = spec.place.rules
    made = evolve(read, selector=evolve(read.selector, span=None))
    (error,) = globs_can_match(
        evolve(spec, place=evolve(spec.place, rules=(made,))), declare(spec.devices, 0)
    )
    assert error.message == '`variables("wrods/*")` matches nothing'
    assert error.span == read.span
    assert error.span is not None


@pytest.mark.parametrize(
    "selector",
    [
        'variables("words/*")',
        'variables("words/unknown")',
        'variables("*kernel")',
        'variables("w[ao]rds/*")',
        'variables("enc*")',
        'slots("encoder/wide/k*")',
        'variables("scale")',
        'ops("input/*")',
    ],
)
def test_a_glob_that_may_match_is_left_to_the_compiler(selector: str) -> None:
    """What Keras calls weights inside a layer, and the names of ops, are not known here."""
    assert found(f"{selector} -> cpu[0]") == []


def test_many_rules_are_compared_with_many_layers_by_looking_names_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Similar names are looked for only for the first rules, and no more rules are reported than are read."""
    asked: list[str] = []
    monkeypatch.setattr("compiler.checks.rules._nearest", lambda pattern, _: asked.append(pattern) or ())
    rules = "\n".join(
        f'variables("dens_{at}/*") -> cpu[0]\nvariables("wide{at}*") -> cpu[0]' for at in range(300)
    )
    spec = spec_of(SPEC.replace("DEVICES", CPU).replace("place { RULE }", f"place {{\n{rules}\n}}"))
    found = list(globs_can_match(spec, declare(spec.devices, 0)))
    assert (len(found), len(asked)) == (200, 3)
