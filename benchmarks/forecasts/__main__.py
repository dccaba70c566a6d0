"""Forecast and measure layouts, and write how far the two are apart into `docs/reference/forecasts.md`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click

from benchmarks.forecasts.cases import CALIBRATED, MODELS, Case, cases
from benchmarks.forecasts.measured import Compared, append_compared, read_compared
from benchmarks.forecasts.page import text, write_page
from benchmarks.race import ROOT

RESULTS = ROOT / "benchmarks" / "results" / "forecasts"
PAGE = ROOT / "docs" / "reference" / "forecasts.md"


@click.command()
@click.option("--model", "models", multiple=True, type=click.Choice(MODELS), help="Take these models alone.")
@click.option("--first", type=click.IntRange(1), help="Take so many layouts of each model.")
@click.option("--seconds", default=3.0, show_default=True, help="How long each process makes steps.")
@click.option("--processes", default=2, show_default=True, help="In how many processes a layout is measured.")
@click.option("--again", is_flag=True, help="Measure also what has been measured before.")
@click.option("--keep-profiles", is_flag=True, help="Calibrate only models that have no profile yet.")
@click.option("--write", is_flag=True, help="Write the results into the documentation.")
def main(
    *,
    models: tuple[str, ...],
    first: int | None,
    seconds: float,
    processes: int,
    again: bool,
    keep_profiles: bool,
    write: bool,
) -> None:
    """Compare forecasts of the time of a step with measurements, in as many parts as one likes.

    What was measured is kept in `benchmarks/results/forecasts`, and is not measured again. The whole takes
    about half an hour, in which the machine should do nothing else.
    """
    results = RESULTS / "compared.jsonl"
    done = set() if again else {(each.model, each.case) for each in read_compared(results)}
    for model in models or MODELS:
        wanted = [each for each in list(cases(model))[:first] if (model, each.name) not in done]
        if wanted:
            profile = _profile(model, seconds, keep=keep_profiles)
        for case in wanted:
            compared = _compare(case, profile, seconds, processes)
            append_compared(results, compared)
            print(f"{model}, {case.name}: {compared.error:+.1%}, noise {compared.noise:.1%}", flush=True)
    found = read_compared(results)
    if write:
        write_page(PAGE, found, _machine())
    print(text(found, _machine()))


def _profile(model: str, seconds: float, *, keep: bool) -> Path:
    """Calibrate a model; return the file of its profile."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    spec, profile = RESULTS / f"{model}.tfdeploy", RESULTS / f"{model}.profile.json"
    spec.write_text(Case(model, CALIBRATED).text, encoding="utf-8")
    if not (keep and profile.exists()):
        _python("tfdeploy", "calibrate", str(spec), "--seconds", str(2 * seconds))
    return profile


def _compare(case: Case, profile: Path, seconds: float, processes: int) -> Compared:
    spec = RESULTS / "case.tfdeploy"
    spec.write_text(case.text, encoding="utf-8")
    worker = ("benchmarks.forecasts.worker", str(spec), str(profile), str(seconds))
    said = [json.loads(_python(*worker).splitlines()[-1]) for _ in range(processes)]
    measured = tuple(each["measured"] for each in said)
    return Compared(case.model, case.name, said[0]["forecast"], measured, said[0]["known"])


def _python(*arguments: str) -> str:
    """Run a module as a process, and return what it has written."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def _machine() -> str:
    import importlib.metadata

    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, with TensorFlow {importlib.metadata.version('tensorflow')}"


if __name__ == "__main__":
    main()
