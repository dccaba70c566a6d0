"""How long a step takes with the rules that `suggest` finds, against rules that were written by hand.

`python -m benchmarks.forecasts.suggested`. The layouts written by hand are those of four clones on logical
devices among the cases of `benchmarks.forecasts`, whose profiles are taken: run that first. `suggest` begins
with the first of them, and may vary the aggregation and the packing as well as the rules. All layouts of a
model take turns in one process, as there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from attrs import frozen

from benchmarks.forecasts.__main__ import RESULTS, take_turn
from benchmarks.forecasts.cases import MODELS, Case, cases
from benchmarks.forecasts.turn_effects import Step, measured_steps
from benchmarks.forecasts.turns import Measurer

CLONES = 4


@frozen
class Suggested(Case):
    """The layout that `suggest` has found.

    Attributes:
        written: The text of its spec.
    """

    written: str = ""

    @property
    def name(self) -> str:
        """What it is called here."""
        return "suggested"

    @property
    def text(self) -> str:
        """The text of its spec."""
        return self.written


def by_hand(model: str) -> Iterator[Case]:
    """Yield the layouts of a model that somebody might write for four devices.

    Args:
        model: The name of the model.
    """
    for each in cases(model):
        if each.family == "clones" and each.clones == CLONES and each.threads > 1:
            yield each


def suggested(text: str, profile: Path) -> str:
    """Return the text of a spec with the rules that `suggest` has written into it.

    Args:
        text: The text of the spec as it is.
        profile: The profile of its model.

    Raises:
        click.ClickException: The command fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder, "spec.tfdeploy")
        spec.write_text(text, encoding="utf-8")
        arguments = [str(spec), f"--profile={profile}", "--vary=aggregate,pack", "--write"]
        command = [sys.executable, "-m", "tfdeploy", "suggest", *arguments]
        done = subprocess.run(command, capture_output=True, check=False, text=True)
        if done.returncode != 0:
            raise click.ClickException(f"suggest has failed: {done.stderr.strip()}")
        return spec.read_text(encoding="utf-8")


def measured(layouts: Sequence[Case], turns: int, seconds: float) -> list[Step]:
    """Return how long a step of each layout took.

    Args:
        layouts: The layouts, which all fit into one process.
        turns: How often each of them makes steps.
        seconds: How long it makes them at a time.
    """
    with Measurer(layouts) as measurer:
        measurer.ready()
        found = {measurer: [[] for _ in layouts]}
        for made in range(turns):
            take_turn(found, seconds, -1 if made % 2 else 1)
        return measured_steps(found[measurer])


@click.command()
@click.option("--model", "models", multiple=True, type=click.Choice(MODELS), help="Take these models alone.")
@click.option("--turns", default=24, show_default=True, help="How often each layout makes steps.")
@click.option("--seconds", default=0.2, show_default=True, help="How long it makes them at a time.")
def main(models: tuple[str, ...], turns: int, seconds: float) -> None:
    """Print the measured time of a step of each layout, and that of the one that is suggested."""
    for model in models or MODELS:
        profile = RESULTS / f"{model}.profile.json"
        if not profile.exists():
            raise click.ClickException(f"{profile} is missing: run `python -m benchmarks.forecasts` first")
        written = list(by_hand(model))
        text = suggested(written[0].text, profile)
        layouts = [*written, Suggested(model, "clones", CLONES, written=text)]
        for each, step in zip(layouts, measured(layouts, turns, seconds), strict=True):
            click.echo(f"{model:12}{each.name:60}{1e3 * step.seconds:9.2f} ms, noise {step.noise:.1%}")
        before = written[0].text.splitlines()
        changed = [each.strip() for each in text.splitlines() if each not in before]
        click.echo(f"{model:12}suggested: {'; '.join(changed) or 'nothing else'}")


if __name__ == "__main__":
    main()
