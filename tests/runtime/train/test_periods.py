"""When things are due, and how many steps a run has."""

import sys

import pytest
from rich.console import Console

from compiler.pipeline import make_plan
from compiler.plan import Plan
from dsl import ir
from tests.specs import LINE
from tests.support import refusal, spec_of
from tfdeploy.runtime.show.console import LineReporter
from tfdeploy.runtime.show.reporting import StepRange
from tfdeploy.runtime.train.loop import SHORTEST_PAUSE, Period, left_out, total_steps

SPEC = f"""{LINE}
data {{ train = csv("train.csv", x = "x*", y = "y") }}
clones {{ batch = 10 }}
"""


def plan(train: str, **overrides: str) -> Plan:
    """Return the plan of a spec whose `train` block holds `train`; a step takes 10 examples."""
    return make_plan(spec_of(f"{SPEC}\ntrain {{ {train} }}", **overrides))


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_a_count_of_steps() -> None:
    """A period of steps is due at its multiples."""
    period = Period.of(ir.Every(steps=3))
    assert [step for step in range(1, 10) if period.due(step)] == [3, 6, 9]


def test_no_period_is_never_due() -> None:
    """Without a period nothing is due."""
    assert not any(Period.of(None).due(step) for step in range(1, 100))


def test_seconds_count_from_the_last_time() -> None:
    """A period of seconds is due when they have passed since it was done."""
    clock = Clock()
    period = Period(seconds=10, clock=clock)
    assert not period.due(1)
    clock.now += 10
    assert period.due(2)
    period.done()
    assert not period.due(3)


def test_checkpoints_take_a_fiftieth_of_the_time() -> None:
    """Where the spec does not say, what takes 2 seconds happens every 100, what takes none every 5."""
    clock = Clock()
    period = Period(seconds=SHORTEST_PAUSE, adapts=True, clock=clock)
    clock.now += 5
    assert period.due(1)
    period.done(2.0)
    clock.now += 99
    assert not period.due(2)
    clock.now += 1
    assert period.due(3)


@pytest.mark.parametrize(
    ("train", "size", "steps", "spare"),
    [
        ("steps = 7", None, 7, 0),
        ("epochs = 3", 100, 30, 0),
        ("epochs = 3", 25, 7, 5),
        ("epochs = 1", 19, 1, 9),
    ],
)
def test_steps_of_a_run(train: str, size: int | None, steps: int, spare: int) -> None:
    """Steps are taken as they are; epochs are passes over the data, without a last batch that is not full."""
    assert total_steps(plan(train), size) == steps
    assert left_out(plan(train), size) == spare


@pytest.mark.parametrize(("size", "steps", "spare"), [(25, 2, 5), (35, 3, 5), (38, 3, 8), (40, 4, 0)])
def test_clones_that_update_alone_leave_out_less_than_a_batch_of_one(
    size: int, steps: int, spare: int
) -> None:
    """Under `async` an update takes the 10 examples of one of two clones, not the 20 of both."""
    found = plan("epochs = 1", devices__cpu="2", clones__count="2", update__mode="async")
    assert (total_steps(found, size), left_out(found, size)) == (steps, spare)


def test_examples_that_are_left_out_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A run says beforehand that its last batch is not full."""
    console = Console(file=sys.stdout, markup=False)
    LineReporter(console).started(StepRange(0, 224, "runs/x", left_out=88))
    LineReporter(console).started(StepRange(0, 224, "runs/x"))
    training = "training to step 224 in runs/x"
    spare = "the last 88 examples do not fill a step and are left out"
    assert capsys.readouterr().out.splitlines() == [training, spare, training]


@pytest.mark.parametrize(
    ("train", "step", "examples", "steps"),
    [
        ("epochs = 3", 12, 120, 30),  # with the same batch it is the run that was not interrupted
        ("epochs = 3", 12, 240, 18),  # with a batch of 20 before
        ("epochs = 1", 12, 240, 12),
        ("steps = 7", 5, 100, 7),
    ],
)
def test_steps_of_a_run_that_goes_on(train: str, step: int, examples: int, steps: int) -> None:
    """Epochs of a run that goes on are passes over the data all the same, whatever its batch was before."""
    assert total_steps(plan(train), 100, step, examples) == steps


def test_epochs_need_a_known_size() -> None:
    """Epochs over data of unknown size are an error at `epochs`."""
    found = refusal(total_steps, plan("epochs = 2"), None)
    assert (found.code, found.help) == ("TFD740", "give `steps` in place of `epochs`")
    assert found.span.text == "2"


def test_epochs_that_fill_no_batch() -> None:
    """Too little data for a single step is an error at the source, which points at the batch too."""
    found = refusal(total_steps, plan("epochs = 2"), 4)
    assert (found.code, found.message) == ("TFD739", "8 examples cannot fill one global batch of 10")
    assert found.span.text == 'csv("train.csv", x = "x*", y = "y")'
    assert [label.text for label in found.labels] == ["10 examples a step"]
