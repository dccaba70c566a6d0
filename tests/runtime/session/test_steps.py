"""Steps of all clones together, and updates of single ones, of an engine that does as it is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import classifier, refusal
from tfdeploy.runtime.session.engine import StepReport
from tfdeploy.runtime.session.steps import MOST_SKIPPED, AsyncSteps, StepResult, SyncSteps, make_steps

BATCH = 32


class Scripted:
    """An engine whose steps are applied, and wait for their examples, as a test says beforehand."""

    def __init__(self, *script: tuple[bool, float | None]) -> None:
        plan = SimpleNamespace(global_batch=BATCH, spec=classifier(update__precision="mixed_float16"))
        self.compiled = SimpleNamespace(plan=plan, train_loops=())
        self.script = list(script)
        self.made: list[str] = []
        self.on_run_metadata = None

    def step(self, *, logged: bool, traced: bool = False) -> StepReport:
        """Make a step, whose loss is its number."""
        self.made.append("traced" if traced else "logged" if logged else "plain")
        applied, waited = self.script.pop(0) if self.script else (True, None)
        return StepReport(float(len(self.made)), 0.0, waited=waited, applied=applied)


def steps(engine: Any) -> SyncSteps:
    """Return what makes the steps of an engine."""
    made = make_steps(engine)
    assert isinstance(made, SyncSteps)
    assert made.stride == 1
    return made


def test_the_first_step_is_traced_and_others_are_as_they_are_asked_for() -> None:
    """While a step is profiled, each is run so that its times are taken."""
    engine: Any = Scripted()
    made = steps(engine)
    found = [made.next(logged=logged, until=9) for logged in (False, False, True, False)]
    engine.on_run_metadata = print
    found.append(made.next(logged=False, until=9))
    assert engine.made == ["traced", "plain", "logged", "plain", "logged"]
    assert [each.report is not None for each in found] == [True, False, True, False, True]
    assert [(each.loss, each.examples, each.steps) for each in found] == [(n, BATCH, 1) for n in range(1, 6)]
    assert made.settle() == []


@pytest.mark.parametrize(
    ("waits", "together"), [((0.5, 0.25, 1.0), 1.75), ((None, 1.0, 1.0), None), ((1.0, None, 1.0), None)]
)
def test_a_step_that_is_skipped_is_made_again(
    waits: tuple[float | None, ...], together: float | None
) -> None:
    """The result is that of the step that was applied, with the examples and the waits of all."""
    engine = Scripted((True, 9.0), *zip((False, False, True), waits, strict=True))
    made = steps(engine)
    assert made.next(logged=False, until=9).waited == 9.0
    assert made.next(logged=False, until=9) == StepResult(3 * BATCH, 4.0, waited=together)
    assert engine.made == ["traced", "plain", "plain", "plain"]


@pytest.mark.parametrize("skipped", [MOST_SKIPPED - 1, MOST_SKIPPED])
def test_not_more_than_so_many_steps_in_a_row_are_skipped(skipped: int) -> None:
    """Then no scale of the loss helps, which is said at the precision that has a scale."""
    made = steps(Scripted(*[(False, None)] * skipped))
    if skipped < MOST_SKIPPED:
        assert made.next(logged=False, until=9).examples == MOST_SKIPPED * BATCH
        return
    found = refusal(made.next, logged=False, until=9)
    assert found.message == f"the gradients of {MOST_SKIPPED} steps in a row were not finite"
    assert found.span is not None


def test_clones_that_update_alone_wait_side_by_side() -> None:
    """What one of two clones waits holds up half of the training; the first update of each is traced."""
    loops = [SimpleNamespace(clone=clone, batch=8 * (1 + clone)) for clone in range(2)]
    kept: dict[int, list[bool]] = {0: [], 1: []}

    def update(loop: Any, *, traced: bool) -> StepReport:
        kept[loop.clone].append(traced)
        return StepReport(3.0, 2.0, {}, {}, waited=0.5 if loop.clone else None)

    plan = SimpleNamespace(update=SimpleNamespace(staleness=1))
    engine: Any = SimpleNamespace(compiled=SimpleNamespace(train_loops=loops, plan=plan), loop_step=update)
    made = make_steps(engine)
    assert isinstance(made, AsyncSteps)
    assert made.stride == 1
    found = [made.next(logged=False, until=6) for _ in range(6)]
    assert made.settle() == []
    made.close()
    assert kept == {0: [True, False, False], 1: [True, False, False]}  # neither is ahead by more than one
    assert {(each.examples, each.loss, each.waited) for each in found} == {(8, 3.0, None), (16, 3.0, 0.25)}
    assert all(each.report is not None for each in found)
