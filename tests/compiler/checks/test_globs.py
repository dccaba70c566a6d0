"""Globs that match nothing, with the nearest names, and rules that never win."""

from typing import Any

import pytest
from attrs import evolve

from compiler.checks import check_spec
from compiler.checks.rules import (
    globs_can_match,
    globs_match,
    rules_decide,
    rules_match,
    something_is_trained,
)
from compiler.pipeline import make_plan
from compiler.plan import Plan
from compiler.topology import declare
from dsl.diagnostics import Diagnostic
from tests.compiler.placement.places import places
from tests.specs import CLASSES
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


def test_a_glob_of_a_rule_that_was_not_read_is_written_out() -> None:
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


VARIABLES = ["encoder/dense/kernel", "encoder/dense/bias", "decoder/out/kernel"]
OPS = ["encoder/dense/MatMul", "encoder/dense/BiasAdd", "decoder/out/MatMul", "loss/sum"]
NAMES = {"variables": VARIABLES, "slots": VARIABLES[:2], "ops": OPS}


def rules(text: str) -> Any:
    """Return the rules of a `place` block."""
    return places(f"devices {{ cpu = 4 }}\n clones {{ batch = 2 }}\n place {{\n {text}\n }}").spec.place.rules


def nothing(text: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return message, marked text and notes for each rule that matches nothing."""
    return [
        (each.message, each.span.text if each.span is not None else "", each.notes)
        for each in rules_match(rules(text), NAMES)
    ]


@pytest.mark.parametrize(
    "rule",
    [
        'variables("decoder/*")',
        'ops("*/MatMul")',
        'slots("*kernel")',
        'ops("loss/*")',
        'variables("*")',
        "inputs",
    ],
)
def test_rules_that_match(rule: str) -> None:
    """A glob that matches one name, or no glob at all, is fine."""
    assert nothing(f"{rule} -> cpu[0]") == []


def test_a_rule_that_matches_nothing_has_the_nearest_names() -> None:
    """The marker is on the selector; names have as many parts as the glob, and its stars."""
    assert nothing('ops("decodr/*") -> cpu[0]') == [
        (
            '`ops("decodr/*")` matches nothing',
            'ops("decodr/*")',
            ("the nearest names are `decoder/*`, `encoder/*`",),
        )
    ]
    assert nothing('variables("encoder/dens/kernel") -> cpu[0]')[0][2] == (
        "the nearest names are `encoder/dense/kernel`, `decoder/out/kernel`, `encoder/dense/bias`",
    )


def test_a_rule_that_was_not_read_is_written_out() -> None:
    """A spec may be made of records; the place is that of the whole rule, if it has one."""
    (read,) = rules('ops("decodr/*") -> cpu[0]')
    made = evolve(read, selector=evolve(read.selector, span=None))
    (found,) = rules_match([made], NAMES)
    assert found.message == '`ops("decodr/*")` matches nothing'
    assert found.span == read.span
    assert found.span is not None


def test_names_of_one_role_say_nothing_of_another() -> None:
    """The last variable has no slots here, so a rule for them matches nothing; unknown names do not count."""
    assert len(nothing('slots("decoder/*") -> cpu[0]')) == 1
    assert len(nothing('variables("other") -> cpu[0]')) == 1
    assert list(rules_match(rules('variables("other") -> cpu[0]'), {"ops": OPS})) == []
    assert list(rules_decide(rules("\n".join(THREE)), {"variables": VARIABLES})) == []


A, B = 'ops("encoder/*A*") -> cpu[0]', 'ops("*dense/B*") -> cpu[1]'
"""All that the first matches is taken by the second, though neither glob contains the other."""
ALL = 'ops("encoder/*") -> cpu[0]'
THREE = 'ops("encoder/dense/*") -> cpu[0]', 'ops("*/MatMul") -> cpu[1]', 'ops("*/BiasAdd") -> cpu[2]'


@pytest.mark.parametrize(
    ("written", "beaten"),
    [
        ((A, B), [(A, B)]),
        (('ops("loss/*") -> cpu[2]', A, B), [(A, B)]),  # not compared with itself or with those before it
        ((*THREE, 'ops("l*") -> cpu[3]'), [(THREE[0], THREE[2])]),  # the last that is needed is shown
        ((ALL, 'ops("*/MatMul") -> cpu[1]'), []),  # it is enough to decide for one name
        (("variables -> cpu[0]", 'ops("*") -> cpu[1]'), []),  # rules of other roles do not count
        ((ALL, 'ops("*") -> cpu[1]'), []),  # those that are plainly beaten are told when a spec is read
        ((ALL, 'ops("encoder/*") -> cpu[1]'), []),
        (
            ('ops("none*") -> cpu[0]', 'ops("*/MatMul") -> cpu[1]'),
            [],
        ),  # it matches nothing, an error by itself
    ],
)
def test_a_rule_that_never_wins_is_a_warning_at_both_rules(
    written: tuple[str, ...], beaten: list[tuple[str, str]]
) -> None:
    """That it never decides, and the last of those after it that take all from it."""
    found = list(rules_decide(rules("\n".join(written)), NAMES))
    assert [(each.code, each.is_error) for each in found] == [("TFD604", False)] * len(beaten)
    assert [(marked(each), *(label.span.text for label in each.labels)) for each in found] == beaten


WEIGHTS = ["conv1/kernel", "conv1/bias", "logits/kernel", "logits/bias"]


def plan(update: str = "", step: str = "") -> Plan:
    """Return the plan of a model with two layers."""
    text = CLASSES.replace("Dense(2", f'Dense(3, name = "conv1"{step}) -> Dense(2').replace('"y"', '"logits"')
    return make_plan(spec_of(f"{text}update {{ optimizer = SGD(0.1){update} }}\n"))


def told_of(plan: Plan, names: list[str]) -> list[tuple[str, str, str]]:
    """Return code, message and marked text of each glob that matches nothing."""
    return [
        (each.code, each.message, each.span.text if each.span is not None else "")
        for each in globs_match(plan, names)
    ]


def test_globs_of_what_is_frozen() -> None:
    """Each that matches no weight is told_of, with the nearest names."""
    assert told_of(plan(', freeze = ["conv1/*", "*/bias"]'), WEIGHTS) == []
    frozen = plan(', freeze = ["conv2/*", "*/bias", "kernel", "conv2/*"]')
    assert [message for _, message, _ in told_of(frozen, WEIGHTS)] == [
        "no weight of the model matches `conv2/*`, which is to be frozen",
        "no weight of the model matches `kernel`, which is to be frozen",
    ]
    assert {code for code, _, _ in told_of(frozen, WEIGHTS)} == {"TFD570"}
    first = next(iter(globs_match(frozen, WEIGHTS)))
    assert any("conv1/*" in each for each in first.notes)


def test_a_file_for_a_step_without_weights() -> None:
    """The file is marked where it is named; a step that has weights is fine."""
    started = plan(step=', weights = "a.npz"')
    assert told_of(started, WEIGHTS) == []
    ((code, _, marked),) = told_of(started, WEIGHTS[2:])
    assert (code, marked) == ("TFD572", '"a.npz"')


@pytest.mark.parametrize(
    ("update", "step", "trained", "marked"),
    [
        (', freeze = ["*"]', "", (False, False), '["*"]'),
        ("", ", trainable = false", (False, False), 'Dense(3, name = "conv1", trainable = false)'),
        (', freeze = ["*"]', ", trainable = false", (False, False), '["*"]'),
        (', freeze = ["conv1/*"]', "", (False, True), None),
        ("", "", (False, False), None),
        (', freeze = ["*"]', "", (), None),
    ],
)
def test_something_is_trained(update: str, step: str, trained: tuple[bool, ...], marked: str | None) -> None:
    """The globs are marked, or the first step that is frozen; a model without weights is another matter."""
    names = dict(zip(WEIGHTS[::2], trained, strict=False))
    found = list(something_is_trained(plan(update, step=step), names))
    assert [each.code for each in found] == ["TFD571"] * (marked is not None)
    for each in found:
        assert each.span.text == marked
