"""Run contenders against each other, and write a page, a JSON file and a chart: `make bench`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from attrs import evolve

from benchmarks.clusters.rates import run_clusters
from benchmarks.clusters.replicas import run_replicas
from benchmarks.clusters.server_memory import run_server_memory
from benchmarks.contenders import CONTENDERS
from benchmarks.figures import Figures
from benchmarks.launches import run_launches
from benchmarks.many_clones import run_many_clones
from benchmarks.models import PROBLEMS
from benchmarks.pipelining import run_pipelining
from benchmarks.race.run import ROOT, Race, run_build, run_race
from benchmarks.reading.rates import TURNS as READING_TURNS
from benchmarks.reading.rates import run_readings
from benchmarks.recomputing import run_recomputing
from benchmarks.report.page import write_page
from benchmarks.report.results import Machine, Results, read_results, with_races

WITHOUT_FIT = tuple(each for each in CONTENDERS if each != "fit")
SMALL = ("lenet", "mlp", "transformer", "embedding")

RACES = (
    Race("lenet", 4, CONTENDERS, rounds=2, turns=8),
    *(Race(model, 4, CONTENDERS) for model in SMALL[1:]),
    *(Race("lenet", towers, WITHOUT_FIT, turns=4) for towers in (1, 2, 8)),
    Race("resnet50", 8, WITHOUT_FIT, rounds=2, turns=3, seconds=3, together=False),
)
BUILDS = (
    *(("ours", "resnet50", clones) for clones in (1, 2, 4, 8, 16, 32, 64)),
    *(("tutorial", "resnet50", clones) for clones in (1, 2, 4, 8, 64)),
    *(("ours", model, 8) for model in ("lenet", "resnet101", "resnet152")),
    *(("tutorial", model, 8) for model in ("lenet", "resnet101")),
)
FULL_RACES = (
    *(Race(model, towers, CONTENDERS, rounds=3, turns=8) for model in SMALL for towers in (1, 2, 4, 8)),
    *(Race("resnet50", towers, CONTENDERS, 3, 3, 3, together=False) for towers in (1, 2, 4, 8)),
)
FULL_BUILDS = (
    *BUILDS,
    *(("tutorial", "resnet50", clones) for clones in (16, 32)),
    ("tutorial", "resnet152", 8),
)


@click.command()
@click.option("--full", is_flag=True, help="Every model with every number of towers (hours).")
@click.option(
    "--model", "models", multiple=True, type=click.Choice(tuple(PROBLEMS)), help="Race these alone."
)
@click.option(
    "--contender", "contenders", multiple=True, type=click.Choice(CONTENDERS), help="Race these alone."
)
@click.option(
    "--towers", multiple=True, type=click.IntRange(1), help="Race on these numbers of towers alone."
)
@click.option("--rounds", type=click.IntRange(1), help="How often processes are started.")
@click.option(
    "--turns", type=click.IntRange(1), help="How often each contender's steps are timed in a round."
)
@click.option(
    "--reading", is_flag=True, help="Measure the reading of files alone; what else is in OUTPUT stays."
)
@click.option(
    "--clusters", is_flag=True, help="Measure training on clusters alone; what else is in OUTPUT stays."
)
@click.option(
    "--replicas", is_flag=True, help="Measure workers without servers alone; all else in OUTPUT stays."
)
@click.option(
    "--servers", is_flag=True, help="Measure the memory of servers alone; what else is in OUTPUT stays."
)
@click.option("--recomputing", is_flag=True, help="Measure recomputation alone; all else in OUTPUT stays.")
@click.option("--pipelining", is_flag=True, help="Measure pipelines alone; all else in OUTPUT stays.")
@click.option("--clones", is_flag=True, help="Measure plans of many clones alone; all else in OUTPUT stays.")
@click.option(
    "--races", is_flag=True, help="Race the chosen models, or all, again; what else is in OUTPUT stays."
)
@click.option("--output", type=click.Path(path_type=Path), help="Folder of the results.")
def main(
    *,
    full: bool,
    models: tuple[str, ...],
    contenders: tuple[str, ...],
    towers: tuple[int, ...],
    rounds: int | None,
    turns: int | None,
    reading: bool,
    clusters: bool,
    replicas: bool,
    servers: bool,
    clones: bool,
    recomputing: bool,
    pipelining: bool,
    races: bool,
    output: Path | None,
) -> None:
    """Run the benchmarks, and write `benchmarks.md`, `.json` and `.svg`.

    Without options this takes about 20 minutes and writes into `docs`. If options choose a part, the results
    go into `benchmarks/results`; the parts on races, reading files, clusters, workers without servers,
    servers, clones, recomputation and pipelines take a few minutes each, and are updated in `docs`.
    """
    folder = output or ROOT / "docs"
    parts: dict[str, tuple[bool, Callable[[], Iterable[Any]]]] = {
        "readings": (reading, lambda: run_readings(turns=turns or READING_TURNS)),
        "clusters": (clusters, lambda: run_clusters(rounds)),
        "replicas": (replicas, lambda: run_replicas(rounds or 3)),
        "servers": (servers, lambda: run_server_memory(full=full)),
        "many": (clones, run_many_clones),
        "recomputings": (recomputing, run_recomputing),
        "pipelinings": (pipelining, run_pipelining),
    }
    asked = {name: measure for name, (wanted, measure) in parts.items() if wanted}
    for name, measure in asked.items():
        _renew(folder, **{name: tuple(measure())})
    if races:
        _renew_races(folder, [each for each in RACES if each.model in (models or PROBLEMS)])
    if asked or races:
        return
    if models or contenders or towers or rounds or turns:
        chosen = _chosen(models or SMALL, towers or (4,), contenders or CONTENDERS, rounds or 1, turns or 5)
        results = _measure(chosen, (), launches=0)
    else:
        results = _measure(FULL_RACES if full else RACES, FULL_BUILDS if full else BUILDS, launches=25)
    partial = not results.builds
    folder = output or (ROOT / "benchmarks" / "results" if partial else ROOT / "docs")
    write_page(results, folder)
    click.echo((folder / "benchmarks.md").read_text())


def _renew(folder: Path, **parts: tuple[Any, ...]) -> None:
    """Renew parts of the results in `folder`."""
    write_page(evolve(read_results(folder), **parts), folder)
    click.echo((folder / "benchmarks.md").read_text())


def _renew_races(folder: Path, races: list[Race]) -> None:
    """Run races again, and put what is measured in the place of the same races in `folder`."""
    today = Machine.here().date
    raced = [evolve(figures, date=today) for race in races for figures in run_race(race)]
    _renew(folder, races=with_races(read_results(folder).races, raced))


def _chosen(
    models: tuple[str, ...], towers: tuple[int, ...], contenders: tuple[str, ...], rounds: int, turns: int
) -> tuple[Race, ...]:
    return tuple(
        Race(model, count, contenders, rounds, turns, together=not model.startswith("resnet"))
        for model in models
        for count in towers
    )


def _measure(races: tuple[Race, ...], builds: tuple[tuple[str, str, int], ...], *, launches: int) -> Results:
    commands = run_launches(launches) if launches else []
    raced: list[Figures] = [figures for race in races for figures in run_race(race)]
    built = [run_build(*each) for each in builds]
    clusters = run_clusters() if launches else []
    readings = run_readings() if launches else []
    servers = run_server_memory() if launches else ()
    many = run_many_clones() if launches else ()
    recomputings = run_recomputing() if launches else ()
    pipelinings = run_pipelining() if launches else ()
    replicas = tuple(run_replicas()) if launches else ()
    return Results(
        Machine.here(),
        tuple(raced),
        tuple(built),
        tuple(commands),
        tuple(clusters),
        tuple(readings),
        tuple(servers),
        tuple(many),
        tuple(recomputings),
        tuple(pipelinings),
        replicas,
    )


if __name__ == "__main__":
    main()
