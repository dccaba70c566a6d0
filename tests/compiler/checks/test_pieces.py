"""Axes of variables that are cut, and their optimizers, checked without TensorFlow."""

import pytest

from compiler.checks import check_spec
from dsl.diagnostics import Diagnostic
from tests.support import cloned, spec_of

TEXT = """
  x = input(int32, [4])
  label = input(int32, [])
  z = x -> Embedding(10, 4, name = "table") -> Flatten() -> Dense(2, name = "wide"{more})
  loss = [label, z] -> SparseCategoricalCrossentropy(from_logits = true)
"""
CUT = "variables -> sharded(cpu[*])"
COPIES, OVER_CLONES = "variables -> replicated", "slots -> sharded(clones)"
GROUPS = 'optimizer { "wide/*" -> Lamb(0.1)\n"*" -> SGD(0.1) }'


def errors(
    rules: str, update: str = "optimizer = SGD(0.1)", more: str = "", **changed: str
) -> list[Diagnostic]:
    """Return the errors of a spec with rules of placement and more arguments of its last layer."""
    text = cloned(TEXT.format(more=more), update=update) + f"place {{ {rules} }}"
    return [each for each in check_spec(spec_of(text, **changed)) if each.is_error]


@pytest.mark.parametrize(
    ("rule", "more", "words"),
    [
        ('variables("table/*") -> sharded(cpu[*], axis = 2)', "", "`table/embeddings` has no axis 2"),
        ('variables("wide/kernel") -> sharded(cpu[*], axis = 2)', "", "`wide/kernel` has no axis 2"),
        ('variables("wide/*") -> sharded(cpu[*], axis = 1)', "", "`wide/bias` has no axis 1"),
        ("variables -> sharded(cpu[*], axis = 1)", "", "`wide/bias` has no axis 1"),
        ("variables -> sharded(cpu[*], axis = 1)", ", use_bias = false", None),
        ('variables("*/kernel") -> sharded(cpu[*], axis = 1)', "", None),
        ('variables("wide/*") -> sharded(cpu[*], axis = 1)\n variables("*/bias") -> cpu[0]', "", None),
        ('variables("table/*") -> sharded(cpu[*], axis = 1)', "", None),
    ],
)
def test_an_axis_that_is_not_there_is_found_by_check(rule: str, more: str, words: str | None) -> None:
    """At the axis; the last rule that matches decides; the help names no axis that is not there."""
    found = errors(rule, more=more)
    assert [each.message for each in found] == ([] if words is None else [words])
    for each in found:
        assert (each.code, each.span and each.span.text) == ("TFD547", rule.rpartition("= ")[2][0])
        assert "axis = 1)" in each.help or "with `axis = 1`" in each.help


@pytest.mark.parametrize(
    ("rule", "optimizer", "more", "names"),
    [
        (CUT, "Muon(0.1)", "", ["wide/kernel"]),
        (CUT, 'Muon(0.1, exclude_layers = ["wide"])', "", []),
        (CUT, "Muon(0.1)", ", trainable = false", []),
        (CUT, 'Muon(0.1)\nfreeze = ["wide/*"]', "", []),
        (CUT, "Muon(0.1)", ", lora_rank = 1", []),
        ("variables -> sharded(cpu[*], min_size = 65B)", "Muon(0.1)", "", []),
        ("variables -> sharded(cpu[*], min_size = 64B)", "Muon(0.1)", "", ["wide/kernel"]),
        ("variables -> sharded(cpu[*], min_size = 64B)", "Muon(0.1)", ', dtype = "float16"', []),
        ('variables("wide/bias") -> sharded(cpu[*])', "Muon(0.1)", "", []),
        (CUT, "Muon(0.1, exclude_embeddings = false)", "", ["table/embeddings", "wide/kernel"]),
        (CUT, "GROUPS", "", ["wide/kernel", "wide/bias"]),
    ],
)
def test_an_optimizer_that_needs_the_whole_is_found_by_check(
    rule: str, optimizer: str, more: str, names: list[str]
) -> None:
    """At the optimizer, with the rule beside it, for weights that are surely matrices, trained and cut."""
    written = GROUPS if optimizer == "GROUPS" else f"optimizer = {optimizer}"
    found = errors(rule, written, more)
    assert [each.message.split("`")[1] for each in found] == names
    for each in found:
        assert (each.code, each.labels[0].span.text) == ("TFD548", rule)
        assert each.span.text in written


@pytest.mark.parametrize(
    ("rules", "optimizer", "count", "names"),
    [
        (f"{COPIES}\n{OVER_CLONES}", "Muon(0.1)", 2, ["wide/kernel"]),
        (f"{COPIES}\n{OVER_CLONES}", "Muon(0.1)", 1, []),
        (f'{COPIES}\nslots("table/*") -> sharded(clones)', "Muon(0.1)", 2, []),
        (f'{COPIES}\n{OVER_CLONES}\nslots("*/kernel") -> cpu[0]', "Muon(0.1)", 2, []),
        (f"variables -> cpu[0]\n{OVER_CLONES}", "Muon(0.1)", 2, []),
        (f"{COPIES}\n{OVER_CLONES}", 'Muon(0.1)\nfreeze = ["wide/*"]', 2, []),
        (f"{COPIES}\n{OVER_CLONES}", "SGD(0.1)", 2, []),
    ],
)
def test_an_optimizer_that_needs_whole_slots_is_found_by_check(
    rules: str, optimizer: str, count: int, names: list[str]
) -> None:
    """At the optimizer, with the rule for the slots beside it, for matrices of which clones have copies."""
    every = errors(rules, f"optimizer = {optimizer}", clones__count=str(count))
    found = [each for each in every if each.code == "TFD548"]
    assert [each.message.split("`")[1] for each in found] == names
    for each in found:
        assert (each.span and each.span.text, each.labels[0].span.text) == (optimizer, OVER_CLONES)
