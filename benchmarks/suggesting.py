"""How much longer `suggest` takes than the compile that it needs anyway.

`python -m benchmarks.suggesting`, with specs to choose others; without one it is ResNet-50 on eight GPUs.
The compile is what `tfdeploy plan --emulate` does with the same spec: it starts TensorFlow, builds the graph,
and forecasts its memory and its time. `suggest` does that too, for the figures before its own, and then
compares placements. Both are processes of their own, which take turns; what is told is the least time of the
processor of each, which depends on other work of the machine far less than time by the clock.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

LARGE = str(Path(__file__).parents[1] / "examples" / "resnet50.tfdeploy")
ON_EIGHT = ("--set", "devices.gpu=8", "--set", "devices.cpu=2", "--set", "devices.kind=v100")


@click.command()
@click.argument("specs", nargs=-1)
@click.option("--turns", default=3, show_default=True, help="How often each side is measured.")
def main(specs: tuple[str, ...], turns: int) -> None:
    """Print the processor seconds of the compile and of `suggest` for each spec, and the difference."""
    click.echo(f"{'spec':24}{'compile':>10}{'suggest':>10}{'beyond':>10}")
    for spec in specs or (LARGE,):
        more = () if specs else ON_EIGHT
        turned = [
            (seconds(["plan", "--emulate", spec, *more]), seconds(["suggest", spec, *more]))
            for _ in range(turns)
        ]
        compiled, suggested = (min(each) for each in zip(*turned, strict=True))
        beyond = suggested - compiled
        click.echo(f"{Path(spec).stem:24}{compiled:8.2f} s{suggested:8.2f} s{beyond:8.2f} s")


def seconds(arguments: Sequence[str]) -> float:
    """Return the time of the processor that a command takes, in seconds.

    Args:
        arguments: What stands behind `tfdeploy`.

    Raises:
        click.ClickException: The command fails.
    """
    before = os.times()
    command = [sys.executable, "-m", "tfdeploy", *arguments]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    after = os.times()
    if done.returncode != 0:
        raise click.ClickException(f"tfdeploy {' '.join(arguments)}: {done.stderr.strip()}")
    return after.children_user - before.children_user + after.children_system - before.children_system


if __name__ == "__main__":
    main()
