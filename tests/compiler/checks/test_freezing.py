"""Globs of what is frozen, and of what starts from files, held against the names of the weights."""

from __future__ import annotations

import pytest

from compiler.checks.rules import globs_match, something_is_trained
from compiler.pipeline import make_plan
from compiler.plan import Plan
from tests.support import spec_of

NAMES = ["conv1/kernel", "conv1/bias", "logits/kernel", "logits/bias"]


def plan(update: str = "", train: str = "", step: str = "") -> Plan:
    """Return the plan of a model with two layers."""
    text = f"""
tfdeploy = 1
model "m" {{
  x = input(float32, [4])
  label = input(int32, [])
  y = x -> Dense(3, name = "conv1"{step}) -> Dense(2, name = "logits")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
}}
devices {{ cpu = 1 }}
clones {{ batch = 2 }}
update {{ optimizer = SGD(0.1){update} }}
train {{ seed = 1{train} }}
"""
    return make_plan(spec_of(text))


def told(plan: Plan, names: list[str]) -> list[tuple[str, str, str]]:
    """Return code, message and marked text of each glob that matches nothing."""
    return [
        (each.code, each.message, each.span.text if each.span is not None else "")
        for each in globs_match(plan, names)
    ]


def test_globs_of_what_is_frozen() -> None:
    """Each that matches no weight is told, with the nearest names."""
    assert told(plan(', freeze = ["conv1/*", "*/bias"]'), NAMES) == []
    frozen = plan(', freeze = ["conv2/*", "*/bias", "kernel"]')
    assert [message for _, message, _ in told(frozen, NAMES)] == [
        "no weight of the model matches `conv2/*`, which is to be frozen",
        "no weight of the model matches `kernel`, which is to be frozen",
    ]
    assert {code for code, _, _ in told(frozen, NAMES)} == {"TFD570"}
    first = next(iter(globs_match(frozen, NAMES)))
    assert any("conv1/*" in each for each in first.notes)


def test_a_file_for_a_step_without_weights() -> None:
    """The file is marked where it is named; a step that has weights is fine."""
    started = plan(step=', weights = "a.npz"')
    assert told(started, NAMES) == []
    ((code, _, marked),) = told(started, NAMES[2:])
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
    names = dict(zip(NAMES[::2], trained, strict=False))
    found = list(something_is_trained(plan(update, step=step), names))
    assert [each.code for each in found] == ["TFD571"] * (marked is not None)
    for each in found:
        assert each.span is not None
        assert each.span.text == marked
