"""The comparison of forecasts with measurements: its layouts, its figures and its page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest
from attrs import define, evolve

import grammar
from benchmarks.forecasts import __main__
from benchmarks.forecasts.__main__ import EDGE_TURNS, FAMILIES, processes_of, take_turns
from benchmarks.forecasts.cases import LATER_HALF, MODELS, Case, calibrated, cases
from benchmarks.forecasts.measured import (
    Compared,
    append_compared,
    kendall_tau,
    quantile,
    read_compared,
)
from benchmarks.forecasts.page import BEGIN, END, summary, write_page
from benchmarks.forecasts.turn_effects import Chunk, Step, measured_steps
from benchmarks.forecasts.turns import Failed
from compiler.pipeline import make_plan
from compiler.process import intra_op_threads
from compiler.time.profile import MeasuredMachine, Profile


def test_there_are_enough_layouts() -> None:
    """At least sixty, each a spec without errors, with a name and the threads that it is said to have."""
    found = [each for model in MODELS for each in cases(model)]
    assert len(found) >= 60
    assert {each.family for each in found} == set(FAMILIES)
    assert len({(each.model, each.name) for each in found}) == len(found)
    for each in (*cases("mlp"), calibrated("lenet")):
        reading = grammar.read("case.tfdeploy", text=each.text)
        assert reading.spec is not None, [one.message for one in reading.diagnostics]
        plan = make_plan(reading.spec)
        assert len(plan.all_towers) == each.clones
        assert intra_op_threads(plan) == each.pool


def test_groups_have_layers_on_both_devices() -> None:
    """The layers on the second device are layers of the model, and not all of them."""
    for each in (one for model in MODELS for one in cases(model) if one.family == "groups"):
        reading = grammar.read("case.tfdeploy", text=each.text)
        assert reading.spec is not None
        layers = {layer.path.partition("/")[0] for layer in make_plan(reading.spec).model.layers}
        assert set(LATER_HALF[each.model]) < layers, each.model


def test_layouts_share_processes() -> None:
    """Those with the same number of threads for an op do, and each of two graphs has processes of its own."""
    found = list(processes_of(list(cases("mlp"))))
    assert sorted(each.name for same in found for each in same) == sorted(each.name for each in cases("mlp"))
    for same in found:
        assert len({(each.tasks, each.pool) for each in same}) == 1
        assert len(same) == 1 or all(each.family != "between" for each in same)


@define(eq=False)
class Measured:
    """Stands for the processes of some layouts, and notes which layout makes steps when.

    Attributes:
        cases: Its layouts.
        log: What all of them have measured.
        left: How many measurements it makes before it ends.
    """

    cases: tuple[Case, ...]
    log: list[str]
    left: int = 1000

    def measure(self, number: int, seconds: float) -> Chunk:
        """Note the layout."""
        self.left -= 1
        if self.left < 0:
            raise Failed("has ended")
        self.log.append(self.cases[number].name)
        return Chunk(seconds, seconds, 0.0)


def test_turns_go_to_and_fro(capsys: pytest.CaptureFixture[str]) -> None:
    """Every other turn is in the reverse order. Layouts whose process ends are left out, and named."""
    log: list[str] = []
    first, second, third, fourth = list(cases("mlp"))[:4]
    one, two = Measured((first, second), log), Measured((third, fourth), log, left=3)
    measurers: list[Any] = [one, two]
    found = take_turns(measurers, 0.1)
    there = [each.name for each in (first, second, third, fourth)]
    assert EDGE_TURNS == 2
    assert log == [*there, fourth.name, *reversed(there[:2])]
    assert {each: [len(chunks) for chunks in made] for each, made in found.items()} == {one: [2, 2]}
    assert f"has ended: {third.name}; {fourth.name}" in capsys.readouterr().err


def chunks(*seconds: float, others: float = 0.0) -> tuple[Chunk, ...]:
    """Return chunks of steps."""
    return tuple(Chunk(each, each, others) for each in seconds)


def compared(
    case: str, forecast: float, seconds: float, *, noise: float = 0.0, family: str = "clones"
) -> Compared:
    """Return a comparison with a layout that was measured to take these seconds."""
    return Compared("mlp", family, case, forecast, 1.0, chunks(seconds), Step(seconds, noise))


def seconds_of(*layouts: tuple[Chunk, ...]) -> list[float]:
    """Return the seconds of a step of each layout."""
    return [each.seconds for each in measured_steps(layouts)]


def test_a_slow_turn_is_slow_for_all_layouts() -> None:
    """What the turns have in common is divided out, and the lower quartile of their speeds counts."""
    speeds = (1.0, 1.5, 1.2, 2.0, 1.1)
    first, second, third = (chunks(*(each * speed for speed in speeds)) for each in (1.0, 3.0, 10.0))
    assert seconds_of(first) == pytest.approx([1.1])
    assert seconds_of(first, second, third) == pytest.approx([1.1, 3.3, 11.0])
    assert [each.noise for each in measured_steps((first, second, third))] == pytest.approx([0.0] * 3)
    odd = (*chunks(3.0), *chunks(9.0), *second[2:])  # slow in one turn, as the others are not
    assert seconds_of(first, odd, third) == pytest.approx([1.1, 3.3, 11.0])


def test_turns_that_others_disturb_do_not_count() -> None:
    """If all were disturbed, the half counts that was disturbed least."""
    assert seconds_of((*chunks(1.0, others=0.5), *chunks(2.0, 3.0))) == pytest.approx([2.0])
    assert seconds_of((*chunks(4.0, others=0.5), *chunks(5.0, others=0.4))) == pytest.approx([5.0])
    quiet = chunks(1.0, 1.0, 1.0)
    shaken = (*chunks(2.0, 2.0), *chunks(9.0, others=0.3))
    assert seconds_of(quiet, shaken) == pytest.approx([1.0, 2.0])


def test_the_noise_is_between_odd_and_even_turns() -> None:
    """A layout that takes a tenth longer in every other turn, beside two that do not, has so much noise."""
    steady, restless = chunks(*[1.0] * 6), chunks(*[1.1, 1.0] * 3)
    found = measured_steps((steady, restless, steady))
    assert [each.noise for each in found] == pytest.approx([0.0, 0.1, 0.0])


def test_figures() -> None:
    """Errors, quantiles and the agreement of two orders."""
    assert compared("2 clones", 1.1, 1.0).error == pytest.approx(0.1)
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
    assert quantile([float(each) for each in range(1, 21)], 0.95) == 19.0
    assert kendall_tau([(1, 10), (2, 20), (3, 30)]) == 1.0
    assert kendall_tau([(1, 30), (2, 20), (3, 10)]) == -1.0
    assert kendall_tau([(1, 10), (2, 30), (3, 20)]) == pytest.approx(1 / 3)


def test_the_calibrated_step_is_known() -> None:
    """Of the layouts of a model it is that of two clones, with one op at a time or with several."""
    profile = Profile(
        MeasuredMachine("a processor", 2, "2.21.0"), (), 0, 0, 0, 1, 1, (), (), serial=2.0, parallel=1.25
    )

    def found(model: str) -> dict[str, float]:
        steps = {each.name: each.when_calibrated(profile) for each in cases(model)}
        return {name: seconds for name, seconds in steps.items() if seconds is not None}

    assert found("mlp") == {"2 clones, 1 thread": 2.0, "2 clones, default threads": 1.25}
    assert found("embedding") == {"2 clones, 1 thread": 2.0}  # two threads work on an op of the other
    assert compared("2 clones", 1.0, 2.0).drift is None


def test_the_page(tmp_path: Path) -> None:
    """The last measurement of a layout counts, and only the part between the comments is replaced."""
    results, page = tmp_path / "measured.jsonl", tmp_path / "forecasts.md"
    for forecast in (2.0, 1.0):
        append_compared(results, compared("1 clone, 1 thread", forecast, 1.25))
    append_compared(results, evolve(compared("2 clones, 1 thread", 4.0, 2.0), calibrated=2.5))
    append_compared(results, compared("2 clones, 2 processes", 3.0, 3.0, family="cluster"))
    with results.open("a") as file:
        file.write('{"model": "mlp", "fam')  # a run was cut off here
    page.write_text(f"above\n{BEGIN}old\n{END}below\n", encoding="utf-8")
    write_page(page, read_compared(results), "a machine")
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"above\n{BEGIN}")
    assert text.endswith(f"{END}below\n")
    assert "old" not in text
    assert "| mlp | 1 clone, 1 thread | 1.00 s | 1.25 s | -20.0% | 0.0% |" in text
    assert "| clones of one process | 2 | 20.0% | 100.0% | 1.00 | 1.00 | +25.0% | +25.0% |" in text
    assert "| two processes with one graph | 1 | 0.0% | 0.0% | 1.00 | 1.00 | +0.0% |  |" in text
    assert "| difference between calibration and test, of the same step | 25.0% | 25.0% | 25.0% |" in text
    assert "| median error | at most 7% | 20.0% | no |" in text
    assert "| 95th percentile of the error | at most 20% | 100.0% | no |" in text
    assert "| tau of the layouts of each model | at least 0.9 | 0.33 | no |" in text
    assert "| tau of these, beyond the noise | at least 0.9 | 0.33 | no |" in text
    assert "| tau of all layouts of all models | at least 0.9 | 0.33 | no |" in text
    assert "| called best, against best | at most +5% | +25.0% | no |" in text
    assert "\n- mlp, 2 clones, 1 thread: +100.0%\n- mlp, 1 clone, 1 thread: -20.0%\n" in text
    assert [each.partition(", best")[0] for each in summary(read_compared(results))] == [
        "all: 3 layouts, median error 20.0%, 95th percentile 100.0%, tau 0.33, beyond the noise 0.33",
        "clones: 2 layouts, median error 20.0%, 95th percentile 100.0%, tau 1.00, beyond the noise 1.00",
        "cluster: 1 layouts, median error 0.0%, 95th percentile 0.0%, tau 1.00, beyond the noise 1.00",
    ]


def test_times_that_the_noise_hides_have_no_order() -> None:
    """Of three pairs, the two whose times differ by more than the median noise count, and are in order."""
    noisy = [
        compared(case, forecast, seconds, noise=0.1)
        for case, forecast, seconds in (
            ("1 clone", 1.0, 1.0),
            ("2 clones", 0.9, 1.04),
            ("3 clones", 2.0, 2.0),
        )
    ]
    assert "tau 0.33, beyond the noise 1.00," in summary(noisy)[0]


def test_the_best_takes_least_for_an_example() -> None:
    """An update of async training has the examples of one clone, and micro-batches count."""
    slow = compared("2 clones, mode = async", 0.9, 1.0)
    fast = compared("2 clones, accumulate = 2", 2.0, 2.0)
    assert "best within 0.0%" in summary([slow, fast])[0]
    assert "best within 100.0%" in summary([evolve(slow, forecast=0.1), fast])[0]


def test_layouts_take_turns_between_those_of_the_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """They make steps before it, whenever its processes have each had a turn, and after it."""
    wanted, log = list(cases("mlp"))[:2], list[str]()

    class Forecasting(Measured):
        """Also forecasts its layouts."""

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self.log.append("ended")

        def ready(self) -> None:
            self.log.append("ready")

        def forecast(self, path: Path) -> list[tuple[float, float]]:
            self.log.append(path.name)
            return [(1.0, 1.0)] * len(self.cases)

    def calibrate(model: str, between: Callable[[], None]) -> tuple[Profile, Path]:
        for _ in range(3):
            log.append(f"{model} calibrates")
            between()
        machine = MeasuredMachine("a processor", 2, "2.21.0")
        return Profile(machine, (), 0, 0, 0, 1, 1, (), (), serial=2.0, parallel=1.0), Path("profile.json")

    monkeypatch.setattr(__main__, "Measurer", lambda same: Forecasting(same, log))
    monkeypatch.setattr(__main__, "_calibrate", calibrate)
    found = list(__main__._compare("mlp", wanted, 0.1))
    assert [len(each.turns) for each in found] == [EDGE_TURNS + 3 + EDGE_TURNS] * 2
    assert [each.measured for each in found] == pytest.approx([0.1, 0.1])
    starts = [at for at, each in enumerate(log) if each == "mlp calibrates"]
    assert all(set(log[at + 1 : at + 3]) == {each.name for each in wanted} for at in starts)
    assert log.index("profile.json") > starts[-1]
    assert log[-1] == "ended"
