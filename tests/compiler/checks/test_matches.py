"""Rules whose globs match nothing are errors with the nearest names; rules that never win are warnings."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from compiler.checks.rules import rules_decide, rules_match
from tests.compiler.placement.places import places
from tests.support import marked

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


def test_slots_are_only_of_what_is_trained() -> None:
    """The last variable has no slots here, so a rule for them matches nothing."""
    assert len(nothing('slots("decoder/*") -> cpu[0]')) == 1


def test_a_rule_that_never_wins_is_a_warning_at_both_rules() -> None:
    """All that the first matches is taken by the second, though neither glob contains the other."""
    (found,) = rules_decide(rules('ops("encoder/*A*") -> cpu[0]\n ops("*dense/B*") -> cpu[1]'), NAMES)
    assert (found.code, found.is_error) == ("TFD604", False)
    assert marked(found) == 'ops("encoder/*A*") -> cpu[0]'
    assert [label.span.text for label in found.labels] == ['ops("*dense/B*") -> cpu[1]']


def test_any_rule_but_the_last_can_be_the_one_that_never_wins() -> None:
    """It is compared with the rules after it, and not with itself or those before it."""
    text = 'ops("loss/*") -> cpu[2]\n ops("encoder/*A*") -> cpu[0]\n ops("*dense/B*") -> cpu[1]'
    (found,) = rules_decide(rules(text), NAMES)
    assert marked(found) == 'ops("encoder/*A*") -> cpu[0]'


def test_a_rule_that_wins_once_is_none() -> None:
    """It is enough to decide for one name, and rules of other roles do not count."""
    assert list(rules_decide(rules('ops("encoder/*") -> cpu[0]\n ops("*/MatMul") -> cpu[1]'), NAMES)) == []
    assert list(rules_decide(rules('variables -> cpu[0]\n ops("*") -> cpu[1]'), NAMES)) == []


def test_rules_that_are_plainly_beaten_have_been_told_before() -> None:
    """A later rule for everything, or for the same glob, is found when a spec is read."""
    for later in ('ops("*") -> cpu[1]', 'ops("encoder/*") -> cpu[1]'):
        assert list(rules_decide(rules(f'ops("encoder/*") -> cpu[0]\n {later}'), NAMES)) == []


def test_several_rules_can_take_all_from_one_together() -> None:
    """The last that is needed for that is shown; rules without names that are known are left out."""
    three = 'ops("encoder/dense/*") -> cpu[0]\n ops("*/MatMul") -> cpu[1]\n ops("*/BiasAdd") -> cpu[2]'
    (found,) = rules_decide(rules(f'{three}\n ops("l*") -> cpu[3]'), NAMES)
    assert marked(found) == 'ops("encoder/dense/*") -> cpu[0]'
    assert [label.span.text for label in found.labels] == ['ops("*/BiasAdd") -> cpu[2]']
    assert list(rules_decide(rules(three), {"variables": VARIABLES})) == []
    assert nothing('variables("other") -> cpu[0]') != []
    assert list(rules_match(rules('variables("other") -> cpu[0]'), {"ops": OPS})) == []


def test_a_rule_that_matches_nothing_takes_nothing_from_others() -> None:
    """It is an error by itself, and neither beaten nor beating."""
    assert list(rules_decide(rules('ops("none*") -> cpu[0]\n ops("*/MatMul") -> cpu[1]'), NAMES)) == []
