"""Run contenders against each other: each measurement in a fresh process, in turn, over several rounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click

from benchmarks.contenders import CONTENDERS
from benchmarks.models import PROBLEMS
from benchmarks.report import Result, write_report

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
TIMEOUT = 1800  # seconds for one measurement


def _measure(contender: str, model: str, towers: int, steps: int) -> Result | None:
    """Measure in a process of its own; None where the contender failed, which is said on standard error."""
    command = [sys.executable, "-m", "benchmarks.worker", contender, model, str(towers), str(steps)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode != 0:
        click.echo(f"{contender} failed on {model} with {towers} towers:\n{done.stderr[-2000:]}", err=True)
        return None
    return Result(**json.loads(done.stdout.strip().splitlines()[-1]))


@click.command(context_settings={"show_default": True})
@click.option("--model", "models", multiple=True, type=click.Choice(tuple(PROBLEMS)), default=tuple(PROBLEMS))
@click.option("--contender", "contenders", multiple=True, type=click.Choice(CONTENDERS), default=CONTENDERS)
@click.option("--towers", multiple=True, type=int, default=(1, 2, 4, 8))
@click.option("--rounds", default=3, help="How often every contender is measured, in turn.")
@click.option("--steps", default=40, help="Steps that are timed; 0 measures the build alone.")
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS, help="Folder of the results.")
def main(
    models: tuple[str, ...],
    contenders: tuple[str, ...],
    towers: tuple[int, ...],
    rounds: int,
    steps: int,
    output: Path,
) -> None:
    """Measure every model with every number of towers; write a table of ratios, a JSON file and a plot."""
    results: list[Result] = []
    for model in models:
        for count in towers:
            for number in range(rounds):
                for contender in contenders:
                    found = _measure(contender, model, count, steps)
                    if found is not None:
                        click.echo(f"round {number + 1}: {found.line()}")
                        results.append(found)
    write_report(results, output)
    click.echo((output / "table.md").read_text())


if __name__ == "__main__":
    main()
