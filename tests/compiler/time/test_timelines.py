"""When everything happens in a few entangled steps, as a golden text that shows what a change changes.

The other tests have steps whose times can be computed in the head. In these, ops of all kinds wait for each
other, so that hardly anything about a simulation can change without changing them.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve

from compiler.time.forecast import StepForecast, forecast_step
from compiler.time.work import Echo, StepWork
from compiler.topology import Device
from tests.compiler.time.steps import CPU, GPU, OTHER_CPU, SECOND_GPU, Machine, op, step

NEAR, FAR = Device("cpu", 0, "worker", 0, ordinal=0), Device("cpu", 0, "worker", 1, ordinal=1)
NEAR_GPU = Device("gpu", 0, "worker", 0, ordinal=2)
MACHINE = Machine(
    cores=3, step_start=2e-3, op_start=1e-5, hand_over=2e-5, crowding=1.3, start=1e-4, speed=1e6, latency=1e-4
)
BUSY = evolve(
    MACHINE,
    awake=1.5,
    start_cores=1.5,
    widening=0.6,
    processors=0.7,
    message=2e-4,
    work=7e-4,
    asking=2e-4,
    giving=3e-4,
)


def tangle(seed: int, devices: Sequence[Device], count: int = 18, **more: Any) -> StepWork:
    """Return a step in which each op waits for up to three before it, a few of them very short.

    Args:
        seed: What it is drawn by.
        devices: The devices of the ops.
        count: How many ops there are.
        **more: Attributes of the step.
    """
    draw = random.Random(seed)  # noqa: S311 not for secrets
    milliseconds = [draw.choice((0.001, 0.002, 1, 2, 3, 5, 8)) for _ in range(count)]
    ops = [op(f"{at}={each}", draw.choice(devices)) for at, each in enumerate(milliseconds)]
    arrows = [
        (str(source), str(at))
        for at in range(1, count)
        for source in draw.sample(range(at), min(at, draw.randint(0, 3)))
    ]
    return step(ops, arrows, {str(at): draw.randint(0, 4000) for at in range(count)}, **more)


def rounds() -> StepWork:
    """Return two clones that update by themselves, in turn, with variables on a GPU that both use."""
    ops = [
        evolve(op(f"{letter}{at}={each}", device), enters=enters, leaves=leaves)
        for letter, device in (("a", NEAR), ("b", FAR))
        for at, (each, device, enters, leaves) in enumerate(
            [(3, device, "", ""), (1, NEAR_GPU, "", ""), (0.5, device, "m", ""), (2, device, "", "m")]
        )
    ]
    arrows = [(f"{letter}{at}", f"{letter}{at + 1}") for letter in "ab" for at in range(3)]
    sizes = {f"{letter}{at}": 700 for letter in "ab" for at in range(4)}
    return step(ops, arrows, sizes, one_process=False, loops=((0, 1, 2, 3), (4, 5, 6, 7)))


def again() -> StepWork:
    """Return a worker that begins another run when another has done its part."""
    ops = [op("a=4", FAR), op("b=1", NEAR), evolve(op("c=0.5", NEAR), begins=True), op("d=1", NEAR)]
    return step(ops, [("a", "c"), ("b", "c"), ("c", "d")], {"a": 900}, one_process=False)


STEPS: dict[str, tuple[Callable[[], StepWork], Machine]] = {
    "one_process": (lambda: tangle(1, (CPU, OTHER_CPU, GPU, SECOND_GPU)), MACHINE),
    "emulated": (lambda: tangle(2, (CPU, GPU, SECOND_GPU), emulated=True, inner_threads=0), BUSY),
    "one_machine": (lambda: tangle(3, (NEAR, FAR), one_process=False, op_threads=2, inner_threads=2), BUSY),
    "two_machines": (
        lambda: tangle(4, (NEAR, FAR, NEAR_GPU), one_process=False, one_machine=False, looking=False),
        BUSY,
    ),
    "some_stand_for_others": (
        lambda: tangle(
            5,
            (NEAR, FAR),
            one_process=False,
            alike={FAR.host: 3},
            task_threads={FAR.host: 2},
            echoes=(Echo(0, FAR, "0:0", 500, 2), Echo(1, FAR, "1:0", 2000, 2)),
        ),
        BUSY,
    ),
    "rounds_of_clones": (rounds, BUSY),
    "again": (again, BUSY),
}


@pytest.mark.parametrize("name", STEPS)
def test_the_course_of_a_step(name: str, golden: Callable[[str, str], None]) -> None:
    """Each op with its thread and what it waited for, each tensor on its way, and the critical path."""
    make, machine = STEPS[name]
    golden(f"timelines/{name}.txt", told(forecast_step(make(), machine)))


def told(forecast: StepForecast) -> str:
    """Return a forecast as text, with times in milliseconds."""
    simulated, ops = forecast.simulated, forecast.work.ops

    def at(seconds: float) -> str:
        return f"{seconds * 1e3:8.3f}"

    lines = [
        f"{at(forecast.seconds)} a step; {at(simulated.seconds)} simulated, {simulated.updates:g} updates"
    ]
    lines += ["", "   start      end    ready"]
    lines += [
        f"{at(bar.start)} {at(bar.end)} {at(bar.ready)}  {ops[bar.op].name} on {ops[bar.op].device.ref}, "
        f"thread {bar.thread}, after {bar.after}, over {bar.over}"
        for bar in simulated.bars
    ]
    lines += [
        f"{at(hop.start)} {at(hop.end)}           {hop.tensor} from {hop.source.ref} to {hop.target.ref}, "
        f"{hop.bytes} bytes, after {hop.after}"
        for hop in simulated.hops
    ]
    lines += ["", "   start     long"] if forecast.path else []
    lines += [
        f"{at(part.start)} {at(part.seconds)}  {part.what} {part.name} on {part.device}"
        for part in forecast.path
    ]
    lines += ["", "    busy"]
    lines += [f"{at(each.seconds)}  {each.ref}, {each.busy:.4f}" for each in forecast.devices]
    lines += [
        f"{at(each.seconds)}  {each.from_device} to {each.to_device}, {each.busy:.4f}, {each.bytes} bytes"
        for each in forecast.links
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"
