"""What a core reaches, from the ops that were measured."""

from __future__ import annotations

import pytest
from attrs import evolve

from compiler.time.profile import MeasuredMachine, OpCost, Profile
from dsl.schema.hardware import REACHED_BYTES, REACHED_FLOPS, TABLE
from tfdeploy.runtime.calibrate.processes import joined, reached

MACHINE = MeasuredMachine("a processor", 2, "2.21.0")


def cost(kind: str, flops: int, size: int, alone: float) -> OpCost:
    """Return the measured cost of an op."""
    return OpCost(kind, (), "", flops, size, 1, 1.0, alone, alone)


OPS = (
    cost("MatMul", 10**9, 10**6, 0.1),
    cost("MatMul", 10**9, 10**6, 0.3),
    cost("Relu", 10**5, 10**6, 0.002),
    cost("Identity", 0, 10**9, 1e-6),
)
FOUND = Profile(MACHINE, (), 1e-5, 1e-6, 2e-6, 5e9, 5e8, OPS, (), awake=1.5, serial=0.1, parallel=0.05)


def test_rates_are_those_of_long_ops_together() -> None:
    """2 GFLOP in 0.4 s and 1 MB in 2 ms; what only hands a tensor on does not count."""
    assert reached(OPS) == pytest.approx((5e9, 5e8))


def test_without_long_ops_the_table_counts() -> None:
    """Short ops take what their start takes."""
    table = TABLE["cpu"]
    expected = (table.flops * REACHED_FLOPS, table.memory * REACHED_BYTES)
    assert reached(OPS[3:]) == reached(()) == expected


def test_wide_times_come_from_the_other_process() -> None:
    """An op has its time with several threads from the answer with the same signature."""
    other = evolve(FOUND, ops=(evolve(OPS[2], alone=0.0015),), awake=1.75, tower_awake=1.5)
    profile = joined((FOUND, other), "a.tfdeploy")
    wide = {each.type: each.wide for each in profile.ops}
    assert wide["Relu"] == 0.0015
    assert wide["Identity"] is None
    assert profile == evolve(
        FOUND, specs=("a.tfdeploy",), ops=profile.ops, awake=1.75, tower_awake=1.5
    )  # all else is from the process with one thread for each op
    reads = evolve(FOUND, ops=(cost("IteratorGetNext", 0, 10**6, 1e-4),))
    assert joined((reads, reads), "").ops[0].wide is None  # it waits for a thread of its own
    assert joined((FOUND,), "").awake == 0


def test_what_counts_for_which_rate() -> None:
    """An op with as many operations as bytes is one of memory, 10 µs are long, and no work counts nowhere."""
    ops = (cost("MatMul", 101, 100, 1e-5), cost("Relu", 100, 100, 1e-5), cost("NoOp", 0, 0, 1.0))
    assert reached(ops) == pytest.approx((101e5, 1e7))


def test_wide_times_are_those_of_the_same_signature() -> None:
    """An op with other inputs or details has a time of its own."""
    base = cost("Relu", 10, 100, 0.002)
    ops = (base, evolve(base, inputs=("float32[2]",)), evolve(base, detail="to [2]"))
    wide = evolve(FOUND, ops=tuple(evolve(each, alone=0.001 * at) for at, each in enumerate(ops, 1)))
    profile = joined((evolve(FOUND, ops=ops), wide), "")
    assert [each.wide for each in profile.ops] == pytest.approx([0.001, 0.002, 0.003])
