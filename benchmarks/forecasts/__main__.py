"""Forecast and measure layouts, and write how far the two are apart into `docs/reference/forecasts.md`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

import click

from benchmarks.forecasts.cases import MODELS, Case, calibrated, cases, profile_between
from benchmarks.forecasts.measured import Compared, append_compared, read_compared
from benchmarks.forecasts.page import summary, text, write_page
from benchmarks.forecasts.turn_effects import Chunk, measured_steps
from benchmarks.forecasts.turns import Failed, Measurer
from benchmarks.race.run import ROOT
from compiler.process import cores
from compiler.time.profile import Profile
from dsl.files.typed_json import to_json

RESULTS = ROOT / "benchmarks" / "results" / "forecasts"
PAGE = ROOT / "docs" / "reference" / "forecasts.md"
EDGE_TURNS = 2
"""How many turns the layouts take before the calibration, in which they warm up, and how many after it."""

CALIBRATION_SECONDS, CALIBRATION_TURNS = 7.2, 24
"""The most seconds of each measurement of the calibration, and in how many turns it is made."""

Chunks = dict[Measurer, list[list[Chunk]]]
"""The chunks of each layout, in the order of the layouts of each process."""

FAMILIES = ("clones", "groups", "cluster", "between")


@click.command()
@click.option("--model", "models", multiple=True, type=click.Choice(MODELS), help="Take these models alone.")
@click.option("--family", "families", multiple=True, type=click.Choice(FAMILIES), help="Take these alone.")
@click.option("--seconds", default=0.1, show_default=True, help="How long a layout makes steps at a time.")
@click.option(
    "--again",
    is_flag=True,
    help="Measure also what has been measured before. If the last measurement was cut off, it is continued.",
)
@click.option("--write", is_flag=True, help="Write the results into the documentation.")
def main(
    *,
    models: tuple[str, ...],
    families: tuple[str, ...],
    seconds: float,
    again: bool,
    write: bool,
) -> None:
    """Compare forecasts of the time of a step with measurements.

    The layouts of a model take many short turns in processes of their own, between those of the calibration.
    The whole takes about 35 minutes, in which the machine should do nothing else. Measurements are kept in
    `benchmarks/results/forecasts`, and the program continues with those that are missing if it was
    interrupted.
    """
    RESULTS.mkdir(parents=True, exist_ok=True)
    results = RESULTS / "measured.jsonl"
    wanted = [
        each for model in models or MODELS for each in cases(model) if each.family in (families or FAMILIES)
    ]
    done = {(each.model, each.case) for each in read_compared(results)}
    if again and all((each.model, each.name) in done for each in wanted):
        results.unlink(missing_ok=True)
        done = set()
    for model in models or MODELS:
        missing = [each for each in wanted if each.model == model and (model, each.name) not in done]
        if missing:
            began = time.perf_counter()
            for compared in _compare(model, missing, seconds):
                append_compared(results, compared)
                print(compared.line, flush=True)
            print(f"{model}: {time.perf_counter() - began:.0f} s", flush=True)
    found = read_compared(results)
    if write:
        write_page(PAGE, found, _machine())
    print(text(found, _machine()))
    print("\n".join(summary(found)))


def _compare(model: str, wanted: Sequence[Case], seconds: float) -> Iterator[Compared]:
    """Measure layouts of a model between the turns of its calibration.

    The machine can be slower for seconds or minutes. Calibration and test then meet it in the same states.
    """
    with ExitStack() as stack:
        measurers = [stack.enter_context(Measurer(each)) for each in processes_of(wanted)]
        measurers = [each for each in measurers if _works(each, each.ready)]
        before = take_turns(measurers, seconds)
        during = chunks_of(before)
        profile, path = _calibrate(model, lambda: take_turn(during, seconds))
        after = take_turns(list(during), seconds)
        layouts = [(each, number) for each in after for number in range(len(each.cases))]
        turns = [
            tuple(chunk for part in (before, during, after) for chunk in part[each][number])
            for each, number in layouts
        ]
        forecasts = [found for each in after for found in each.forecast(path)]
        for (measurer, number), taken, step, (forecast, known) in zip(
            layouts, turns, measured_steps(turns), forecasts, strict=True
        ):
            case = measurer.cases[number]
            calibrated = case.when_calibrated(profile)
            yield Compared(model, case.family, case.name, forecast, known, taken, step, calibrated)


def _works(measurer: Measurer, does: Callable[[], object]) -> bool:
    """Let the processes of some layouts do something. If they fail, print why and leave them out."""
    try:
        does()
    except (Failed, BrokenPipeError) as fault:
        names = "; ".join(each.name for each in measurer.cases)
        print(f"left out, because a process {fault}: {names}", file=sys.stderr, flush=True)
        return False
    return True


def processes_of(wanted: Sequence[Case]) -> Iterator[tuple[Case, ...]]:
    """Yield the layouts that are measured in the same process, or in the same two."""

    def key(case: Case) -> tuple[str, ...]:
        own = case.name if case.family == "between" else str(case.clones) if case.tasks > 1 else ""
        return str(case.tasks), str(case.pool), own

    for _, same in groupby(sorted(wanted, key=key), key):
        yield tuple(same)


def chunks_of(measurers: Iterable[Measurer]) -> Chunks:
    """Return the chunks of the layouts of some processes, of which there are none yet."""
    return {each: [[] for _ in each.cases] for each in measurers}


def take_turns(measurers: Sequence[Measurer], seconds: float) -> Chunks:
    """Let layouts make steps in turn, again and again, and return the chunks of each layout that works.

    The memory of the machine is slower for seconds at a time while its neighbours use it. Many short turns
    meet each layout with that equally often, and leave each enough without it. Every other turn is in the
    reverse order.

    Args:
        measurers: The processes of the layouts.
        seconds: How long a layout makes steps at a time.
    """
    found = chunks_of(measurers)
    for made in range(EDGE_TURNS):
        take_turn(found, seconds, -1 if made % 2 else 1)
    return found


def take_turn(found: Chunks, seconds: float, way: int = 1) -> None:
    """Let each layout make steps once.

    Args:
        found: Gets a chunk for each layout. Processes that fail are left out.
        seconds: How long a layout makes steps.
        way: 1 for the order of the layouts, -1 for the reverse.
    """
    for measurer in list(found)[::way]:

        def measure(measurer: Measurer = measurer) -> None:
            for number in range(len(measurer.cases))[::way]:
                found[measurer][number].append(measurer.measure(number, seconds))

        if not _works(measurer, measure):
            del found[measurer]


def _calibrate(model: str, between: Callable[[], None]) -> tuple[Profile, Path]:
    """Calibrate a model; return its profile, and the file of that.

    Args:
        model: The name of the model.
        between: Is called between the turns of the calibration.
    """
    spec, path = RESULTS / f"{model}.tfdeploy", RESULTS / f"{model}.profile.json"
    spec.write_text(calibrated(model).text, encoding="utf-8")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    threads = [1, cores()] if cores() > 1 else [1]
    profile = profile_between(spec, threads, CALIBRATION_SECONDS, CALIBRATION_TURNS, between)
    path.write_text(to_json(profile, indent=1) + "\n", encoding="utf-8")
    return profile, path


def _machine() -> str:
    import importlib.metadata

    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, with TensorFlow {importlib.metadata.version('tensorflow')}"


if __name__ == "__main__":
    main()
