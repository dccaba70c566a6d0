"""A family of specs: what runs is where it was asked to be, nothing is unplaced, all is explained."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.graph.build import compile_graph
from compiler.graph.inspect.one_step import run_one_step
from compiler.graph.inspect.placement_map import map_placement
from compiler.step.read.why import explain_placement
from tests.compiler.graph.inspect.family import Member, plan_of

MEMBERS = 216
EIGHTH = MEMBERS // 8  # of all kinds, which take turns by threes, fours and eights
CHUNK = EIGHTH


def check(number: int) -> None:
    """Compile a member, run one step of it, and look at every op."""
    compiled = compile_graph(plan_of(number))
    found = run_one_step(compiled)
    placement = map_placement(compiled, found)
    assert placement.misplaced == ()
    assigned = {each.name: each.assigned for each in placement.ops}
    assert _unseen(compiled.step.run, assigned) == []
    assert all(op.device for op in compiled.graph.get_operations())
    for each in placement.ops:
        _explained(compiled, each, found)


def _unseen(ops: list[Any], assigned: dict[str, str | None]) -> list[str]:
    """Return the ops of a step of which nothing was seen; a loop may have no use for all that it is given."""
    unseen = {op.name for op in ops if assigned[op.name] is None}
    seen = [op for op in ops if op.name not in unseen and "While" not in op.type]
    return sorted({each.op for op in seen for each in op.inputs} & unseen)


def _explained(compiled: Any, op: Any, assigned: dict[str, str]) -> None:
    (found,) = explain_placement(compiled.step, op.name, assigned)
    assert (found.requested, found.assigned) == (op.requested, op.assigned)
    assert found.decider.kind in {"rule", "default"}
    assert found.decider.text
    if found.decider.kind == "rule":
        assert (op.rule.line, op.rule.decided_by or op.rule.text) == (
            found.decider.rule.span.begin.line,
            found.decider.text,
        )


@pytest.mark.parametrize("number", range(EIGHTH))
def test_an_eighth_of_the_family(number: int) -> None:
    """Machines with CPUs, with GPUs, and clusters, in turn."""
    check(number)


@pytest.mark.full
@pytest.mark.parametrize("first", range(EIGHTH, MEMBERS, CHUNK))
def test_the_rest_of_the_family(first: int) -> None:
    """All other members; the number of the one that fails is in the message."""
    for number in range(first, first + CHUNK):
        try:
            check(number)
        except Exception as fault:
            raise AssertionError(f"member {number}:\n{Member(number).spec()}") from fault
