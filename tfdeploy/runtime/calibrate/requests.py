"""What a process that measures is asked, what it answers, and the profile that is made of the answers."""

from __future__ import annotations

from attrs import evolve, frozen

from compiler.time.profile import LinkCost, MeasuredMachine, OpCost, Profile
from dsl.schema.hardware import REACHED_BYTES, REACHED_FLOPS, TABLE

LONG = 10e-6
"""The seconds from which on the time of an op is that of its work."""

ALONE = ("IteratorGetNext",)
"""The types of ops that are never divided among threads: these wait for a thread of their own."""

CORE = TABLE["cpu"]


@frozen
class MeasureRequest:
    """What is to be measured.

    Attributes:
        emulate: Whether every declared device is a logical CPU of the process.
        inner_threads: How many threads may work on one op.
        beside: Whether ops are also measured while all cores are busy, and steps without a trace.
        traced: How many steps are traced.
        seconds: The most that each of the measurements may take.
        turns: In how many turns steps are made.
    """

    emulate: bool
    inner_threads: int
    beside: bool
    traced: int
    seconds: float
    turns: int


@frozen
class Measured:
    """The answer. Times are in seconds.

    Attributes:
        machine: The machine.
        ops: The costs of ops with as many threads as were asked for; `wide` is empty.
        step_start: The time of a step without ops.
        op_start: The time of starting an op.
        hand_over: The time until a thread that has nothing to do takes an op.
        serial: The time of a step that runs one op at a time.
        parallel: The time of a step with a thread for each core; equal to `serial` if there is one.
        processors: The cores that the process used, as a mean, while it ran one op at a time.
        tower_processors: The cores that it used while it ran one tower with a thread for each core; None if
            one thread works on an op.
        cluster_start: The time of a step without ops of two processes; None if the spec has no jobs.
        cluster_processors: The cores that such a step uses.
        links: The links that were measured.
    """

    machine: MeasuredMachine
    ops: tuple[OpCost, ...]
    step_start: float
    op_start: float
    hand_over: float
    serial: float
    parallel: float
    processors: float = 1.0
    tower_processors: float | None = None
    cluster_start: float | None = None
    cluster_processors: float = 1.0
    links: tuple[LinkCost, ...] = ()


def profile_of(found: Measured, specs: tuple[str, ...], *, wide: Measured | None = None) -> Profile:
    """Return the profile of what was measured.

    Args:
        found: The answer of a process with one thread for each op.
        specs: The paths of the specs.
        wide: The answer of a process with a thread for each core for each op, if there are several cores.
    """
    known = (
        {_key(each): each.alone for each in wide.ops if each.type not in ALONE} if wide is not None else {}
    )
    ops = tuple(evolve(each, wide=known.get(_key(each))) for each in found.ops)
    return Profile(
        machine=found.machine,
        specs=specs,
        step_start=found.step_start,
        op_start=found.op_start,
        hand_over=found.hand_over,
        flops_per_second=_rate(
            [(each.flops, each.alone) for each in ops if each.flops > each.bytes], CORE.flops * REACHED_FLOPS
        ),
        bytes_per_second=_rate(
            [(each.bytes, each.alone) for each in ops if each.flops <= each.bytes],
            CORE.memory * REACHED_BYTES,
        ),
        ops=ops,
        links=found.links,
        cluster_start=found.cluster_start,
        cluster_processors=found.cluster_processors,
        awake=wide.processors if wide is not None else 0.0,
        tower_awake=wide.tower_processors if wide is not None else None,
        serial=found.serial,
        parallel=found.parallel,
    )


def _rate(work: list[tuple[int, float]], otherwise: float) -> float:
    """Return the work per second of all long ops together, so that the longest count most.

    Args:
        work: The work and the seconds of each op.
        otherwise: The rate if there is no long op, whose time would not be that of its start.
    """
    found = [(amount, seconds) for amount, seconds in work if seconds >= LONG and amount]
    return sum(each[0] for each in found) / sum(each[1] for each in found) if found else otherwise


def _key(cost: OpCost) -> tuple[str, tuple[str, ...], str]:
    return cost.type, cost.inputs, cost.detail
