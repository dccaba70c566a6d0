"""Measures the processor time of light commands, beside that of importing the libraries that they use."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from benchmarks.figures import Launch
from benchmarks.race.run import ROOT, environment

SPEC = "examples/digits.tfdeploy"
BASELINE = 'python -c "import lark, attrs, click"'


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the commands by their names in the report.

    Args:
        folder: Where to put the placement map that two of the commands read.
    """
    program = str(Path(sys.executable).with_name("tfdeploy"))
    placement = folder / "placement.json"
    with placement.open("w") as target:
        subprocess.run([program, "plan", SPEC, "--json"], cwd=ROOT, stdout=target, check=True)
    return {
        BASELINE: [sys.executable, "-c", "import lark, attrs, click"],
        f"check {SPEC}": [program, "check", SPEC],
        f"fmt --check {SPEC}": [program, "fmt", "--check", SPEC],
        f"show {SPEC}": [program, "show", SPEC],
        "explain TFD402": [program, "explain", "TFD402"],
        "diff placement.json placement.json": [program, "diff", str(placement), str(placement)],
    }


def run_launches(rounds: int) -> list[Launch]:
    """Run all commands in turn, and return the processor time of every run after the first."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = commands(Path(folder))
        seconds: dict[str, list[float]] = {name: [] for name in wanted}
        for number in range(rounds + 1):
            for name, command in wanted.items():
                spent = _processor_time(command)
                if number:
                    seconds[name].append(spent)
    click.echo(f"{len(wanted)} commands, {rounds} times each", err=True)
    return [Launch(name, tuple(each)) for name, each in seconds.items()]


def _processor_time(command: list[str]) -> float:
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise click.ClickException(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime
