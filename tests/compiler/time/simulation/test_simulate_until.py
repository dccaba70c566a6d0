"""A simulation that ends as soon as it is certain that a step takes longer than is of interest."""

from __future__ import annotations

import random

import pytest
from attrs import evolve

from compiler.time.simulation import simulate as module
from compiler.time.simulation.prepared import prepare
from compiler.time.simulation.simulate import simulate, simulate_until
from compiler.time.work import StepWork
from tests.compiler.time.steps import CPU, GPU, SECOND_GPU, Machine, op, step

MACHINE = Machine(start=1e-4, op_start=1e-5, hand_over=1e-5, speed=1e6, latency=1e-5)


def tangle(seed: int, count: int = 60) -> StepWork:
    """Return a step of ops on a CPU and two GPUs, each of which waits for up to two of those before it."""
    draw = random.Random(seed)  # noqa: S311 not for secrets
    ops = [op(f"{at}={draw.randint(1, 9)}", draw.choice((CPU, GPU, SECOND_GPU))) for at in range(count)]
    arrows = [
        (str(source), str(at))
        for at in range(1, count)
        for source in draw.sample(range(at), min(at, draw.randint(0, 2)))
    ]
    return step(ops, arrows, {str(at): draw.randint(0, 2000) for at in range(count)})


@pytest.mark.parametrize("seed", range(5))
def test_it_has_the_same_result_or_none(seed: int) -> None:
    """Up to its own time a step is simulated as without a limit, and there is no result below it."""
    work = tangle(seed)
    whole = simulate(work, MACHINE)
    assert simulate_until(prepare(work, MACHINE), whole.seconds) == whole
    assert simulate_until(prepare(work, MACHINE), whole.seconds * 1.5) == whole
    for part in (0.1, 0.5, 0.9, 0.999999):
        assert simulate_until(prepare(work, MACHINE), whole.seconds * part) is None


def test_it_ends_when_the_ops_of_a_gpu_no_longer_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that idles at first cannot make up for it, which is certain long before the limit."""
    ops = [op("a=10"), *(op(f"{at}=1", GPU) for at in range(50))]
    work = step(ops, [("a", "0"), *((str(at), str(at + 1)) for at in range(49))])
    ends: list[float] = []
    launched = module._Simulation._launched
    monkeypatch.setattr(
        module._Simulation,
        "_launched",
        lambda self, *args: ends.append(self.clock.now) or launched(self, *args),
    )
    machine = evolve(MACHINE, start=0.0)
    assert simulate_until(prepare(work, machine), 0.059) is None
    assert len(ends) == 1
    assert simulate_until(prepare(work, machine), 0.061) is not None
