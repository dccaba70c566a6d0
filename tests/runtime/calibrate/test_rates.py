"""What a core reaches, from the ops that were measured."""

from __future__ import annotations

import pytest
from attrs import evolve

from compiler.time.profile import MeasuredMachine, OpCost
from dsl.schema.hardware import REACHED_BYTES, REACHED_FLOPS, TABLE
from tfdeploy.runtime.calibrate.processes import Measured, profile_of

MACHINE = MeasuredMachine("a processor", 2, "2.21.0")


def cost(kind: str, flops: int, size: int, alone: float) -> OpCost:
    """Return the measured cost of an op."""
    return OpCost(kind, (), "", flops, size, 1, 1.0, alone, alone)


FOUND = Measured(
    MACHINE,
    (
        cost("MatMul", 10**9, 10**6, 0.1),
        cost("MatMul", 10**9, 10**6, 0.3),
        cost("Relu", 10**5, 10**6, 0.002),
        cost("Identity", 0, 10**9, 1e-6),
    ),
    1e-5,
    1e-6,
    0.0,
    0.1,
    0.1,
)


def test_rates_are_those_of_long_ops_together() -> None:
    """2 GFLOP in 0.4 s and 1 MB in 2 ms; what only hands a tensor on does not count."""
    profile = profile_of(FOUND, ("a.tfdeploy",))
    assert profile.flops_per_second == pytest.approx(5e9)
    assert profile.bytes_per_second == pytest.approx(5e8)


def test_without_long_ops_the_table_counts() -> None:
    """Short ops take what their start takes."""
    short = profile_of(evolve(FOUND, ops=FOUND.ops[3:]), ())
    assert short.flops_per_second == TABLE["cpu"].flops * REACHED_FLOPS


def test_wide_times_come_from_the_other_process() -> None:
    """An op has its time with several threads from the answer with the same signature."""
    other = evolve(FOUND, ops=(evolve(FOUND.ops[2], alone=0.0015),), processors=1.75, tower_processors=1.5)
    profile = profile_of(FOUND, (), wide=other)
    wide = {each.type: each.wide for each in profile.ops}
    assert wide["Relu"] == 0.0015
    assert wide["Identity"] is None
    assert (profile.awake, profile.tower_awake) == (1.75, 1.5)
    reads = evolve(FOUND, ops=(cost("IteratorGetNext", 0, 10**6, 1e-4),))
    assert profile_of(reads, (), wide=reads).ops[0].wide is None  # it waits for a thread of its own
    assert profile_of(FOUND, ()).awake == 0


def test_what_counts_for_which_rate() -> None:
    """An op with as many operations as bytes is one of memory, 10 µs are long, and no work counts nowhere."""
    ops = (cost("MatMul", 101, 100, 1e-5), cost("Relu", 100, 100, 1e-5), cost("NoOp", 0, 0, 1.0))
    profile = profile_of(evolve(FOUND, ops=ops), ())
    assert profile.flops_per_second == pytest.approx(101e5)
    assert profile.bytes_per_second == pytest.approx(1e7)
    none = profile_of(evolve(FOUND, ops=()), ())
    assert none.bytes_per_second == TABLE["cpu"].memory * REACHED_BYTES


def test_a_profile_has_what_was_measured() -> None:
    """All times are those of the answer."""
    found = evolve(FOUND, parallel=0.05, hand_over=2e-6, cluster_start=3e-3, cluster_processors=1.25)
    profile = profile_of(found, ("a.tfdeploy", "b.tfdeploy"))
    assert (profile.machine, profile.specs) == (MACHINE, ("a.tfdeploy", "b.tfdeploy"))
    assert (profile.step_start, profile.op_start, profile.hand_over) == (1e-5, 1e-6, 2e-6)
    assert (profile.cluster_start, profile.cluster_processors) == (3e-3, 1.25)
    assert (profile.serial, profile.parallel) == (0.1, 0.05)
    assert profile.tower_awake is None


def test_wide_times_are_those_of_the_same_signature() -> None:
    """An op with other inputs or details has a time of its own."""
    base = cost("Relu", 10, 100, 0.002)
    ops = (base, evolve(base, inputs=("float32[2]",)), evolve(base, detail="to [2]"))
    wide = evolve(FOUND, ops=tuple(evolve(each, alone=0.001 * at) for at, each in enumerate(ops, 1)))
    profile = profile_of(evolve(FOUND, ops=ops), (), wide=wide)
    assert [each.wide for each in profile.ops] == pytest.approx([0.001, 0.002, 0.003])
