"""The bytes that a step has at once on each device, of steps that can be followed in the head."""

from __future__ import annotations

import pytest
from attrs import evolve

from compiler.suggest.peaks import peaks
from compiler.time.work import Arrow, Signature
from tests.compiler.time.steps import CPU, GPU, op, step

SIZES = {"a": 100, "b": 30, "c": 7, "d": 2}
CHAIN = [("a", "b"), ("b", "c"), ("c", "d")]


def test_a_tensor_is_there_until_its_last_user_has_run() -> None:
    """An op has its result beside what it takes; what nobody takes is not counted."""
    assert peaks(step([op(each) for each in "abcd"], CHAIN, SIZES)) == {"cpu[0]": 130}
    late = [*CHAIN, ("b", "d")]  # d follows c, and so b's result stays
    assert peaks(step([op(each) for each in "bcd"], late[1:], SIZES)) == {"cpu[0]": 37}
    small = {"a": 5, "b": 30, "c": 70, "d": 2}
    assert peaks(step([op(each) for each in "abcd"], CHAIN, small)) == {"cpu[0]": 100}


def test_a_tensor_with_several_users_is_there_once() -> None:
    """On each device that uses it."""
    ops = [op("a"), op("b"), op("c"), op("d", GPU), op("e", GPU)]
    work = step(ops, [("a", each) for each in "bcde"], SIZES)
    assert peaks(work) == {"cpu[0]": 100, "gpu[0]": 100}
    two = evolve(work, arrows=(*work.arrows, Arrow(0, 1, "a:1", 11)))
    assert peaks(two) == {"cpu[0]": 111, "gpu[0]": 100}


def test_what_is_not_known_or_no_tensor_takes_nothing() -> None:
    """A device without anything is there all the same."""
    work = step([op("a"), op("b")], [("a", "b")])
    assert peaks(evolve(work, devices=(CPU, GPU))) == {"cpu[0]": 0, "gpu[0]": 0}


@pytest.mark.parametrize("kind", ["ReadVariableOp", "VarHandleOp"])
def test_a_variable_takes_memory_only_where_it_is_sent(kind: str) -> None:
    """On its own device it is there anyway."""
    ops = [evolve(op("a"), signature=Signature(kind, ())), op("b"), op("c", GPU)]
    assert peaks(step(ops, [("a", "b"), ("a", "c"), ("b", "c")], SIZES)) == {"cpu[0]": 0, "gpu[0]": 130}


def test_ops_run_in_the_order_in_which_they_become_ready() -> None:
    """Two chains go on side by side, so that both of their results are there at once."""
    ops = [op(each) for each in "abcd"]
    work = step(ops, [("a", "c"), ("b", "d")], {"a": 100, "b": 30})
    assert peaks(work) == {"cpu[0]": 130}
    after = evolve(work, arrows=(*work.arrows, Arrow(2, 1)))
    assert peaks(after) == {"cpu[0]": 100}
