"""Compare update modes on the digits: speed, and the loss after equal numbers of examples.

    python -m benchmarks.modes --write

Every mode is a run of `compile-and-run` in a process of its own, and only the lines that are shown differ.
Each round runs all modes in turn, so that other load of the machine affects all of them alike; the table has
medians, and speed as a ratio to `sync` of the same round. `--write` puts it into docs/reference/modes.md.
"""

from __future__ import annotations

import datetime as dt
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "modes.md"
SPEC = "examples/digits.tfdeploy"
BATCH = 32  # examples of one clone and step in the spec
BEGIN, END = "<!-- written by benchmarks/modes.py -->", "<!-- end -->"


@frozen
class Contestant:
    """A variant of the spec.

    Attributes:
        settings: The lines that are added to the spec.
        clones_per_step: The number of clones whose examples one step uses.
    """

    settings: tuple[str, ...]
    clones_per_step: int = 2


CONTESTANTS = (
    Contestant(("update.mode=sync",)),
    Contestant(("update.mode=sync", "update.aggregate=ring")),
    Contestant(("update.mode=sync", "update.aggregate=collective")),
    Contestant(("update.mode=async",), clones_per_step=1),
    Contestant(("update.mode=async", "update.staleness=2"), clones_per_step=1),
    Contestant(("update.mode=local", "update.average_every=10")),
    Contestant(("update.mode=local", "update.average_every=50")),
)


@frozen
class Measurement:
    """The measurements of one run.

    Attributes:
        steps: Steps per second.
        examples: Examples per second.
        loss: The loss on the test split.
        accuracy: The accuracy on the test split.
    """

    steps: float
    examples: float
    loss: float
    accuracy: float


def measure(contestant: Contestant, examples: int) -> Measurement:
    """Train on `examples` examples in a separate process, and return the measurements."""
    taken = BATCH * contestant.clones_per_step
    with tempfile.TemporaryDirectory() as directory:
        settings = [
            *contestant.settings,
            f"train.steps={examples // taken}",
            f"train.directory={directory}/run",
            "train.evaluate_every=1000000",
            "train.log_every=100",
            "train.summaries=none",
            "train.seed=1",
        ]
        command = [sys.executable, "-m", "tfdeploy", "compile-and-run", SPEC, "--json"]
        command += [part for setting in settings for part in ("--set", setting)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise click.ClickException(f"{' '.join(contestant.settings)} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    speed = result["examples_per_second"]
    test = result["test"]
    return Measurement(speed / taken, speed, test["loss"], test["metrics"]["accuracy"])


@click.command()
@click.option("--rounds", default=3, show_default=True, help="How often every mode is run, in turn.")
@click.option("--examples", default=64 * 600, show_default=True, help="How many examples each trains on.")
@click.option("--write", is_flag=True, help="Put the table into the page of the documentation.")
def main(rounds: int, examples: int, write: bool) -> None:
    """Run all modes, print the table, and write it into the documentation if that is asked for."""
    found: dict[Contestant, list[Measurement]] = {each: [] for each in CONTESTANTS}
    for _ in range(rounds):
        for each in CONTESTANTS:
            found[each].append(measure(each, examples))
            print(", ".join(each.settings), found[each][-1], flush=True)
    table = "\n".join(_table(found, examples))
    print(table)
    if write:
        text = PAGE.read_text()
        before, rest = text.split(BEGIN)
        _, after = rest.split(END)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


def _table(found: dict[Contestant, list[Measurement]], examples: int) -> list[str]:
    lines = [
        "| set | steps/s | examples/s | ratio to `sync` | test loss | test accuracy |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    base = found[CONTESTANTS[0]]
    for contestant, runs in found.items():
        ratios = [ours.examples / theirs.examples for ours, theirs in zip(runs, base, strict=True)]
        spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
        cells = [
            ", ".join(f"`{each}`" for each in contestant.settings),
            f"{statistics.median(each.steps for each in runs):.0f}",
            f"{statistics.median(each.examples for each in runs):.0f}",
            f"{statistics.median(ratios):.2f}{spread}",
            f"{statistics.median(each.loss for each in runs):.4f}",
            f"{statistics.median(each.accuracy for each in runs):.4f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", _circumstances(len(base), examples)]


def _circumstances(rounds: int, examples: int) -> str:
    from importlib.metadata import version

    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    return (
        f"Medians of {rounds} round{'' if rounds == 1 else 's'}, {examples:,} examples each, "
        "two clones on two logical CPU devices;"
        f"\n{today}, TensorFlow {version('tensorflow')}, Python {platform.python_version()}."
        "\nNothing was measured on GPUs."
    )


if __name__ == "__main__":
    main()
