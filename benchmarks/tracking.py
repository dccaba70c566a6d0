"""Runs with trackers that are slow, gone or hang, beside runs without one: `python -m benchmarks.tracking`.

Every run is a `compile-and-run` in a process of its own, and only the tracker differs. Each round has all
runs in turn, so that other load of the machine affects all of them alike. The table has medians of the
ratios to the run without a tracker of the same round: of the time in which steps are made, by the clock, and
of the processor time of the whole run, in which that of the tracker's process is contained.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import click
from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent
SPEC = ROOT / "examples" / "digits.tfdeploy"
STEPS = 3000
TRACKERS = {"none": None, "slow": 1.0, "hangs": 1e6, "gone": -1.0}
"""The seconds that each call of a tracker takes; it raises an error if they are negative."""
HOOK = '''
"""A tracker that is slow, hangs or is gone."""
import time

class Tracker:
    def __init__(self, seconds):
        self.seconds = seconds

    def begin(self, run, known):
        if self.seconds < 0:
            raise ConnectionRefusedError("it is gone")
        time.sleep(self.seconds)
        return "run"

    def log(self, records):
        time.sleep(self.seconds)

    def end(self, run):
        time.sleep(self.seconds)
'''


@frozen
class Run:
    """The seconds of a run.

    Attributes:
        training: Those in which steps were made, by the clock.
        processor: The processor time of all its processes, from the beginning to the end.
        ended: Those from the last step to the end of its process, by the clock.
    """

    training: float
    processor: float
    ended: float


def measure(seconds: float | None, steps: int) -> Run:
    """Train with a tracker of which each call takes `seconds`, or with none, and return the measurements."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tracking_hook.py").write_text(HOOK)
        settings = [f"train.steps={steps}", "train.log_every=10", f"train.directory={folder}/run"]
        if seconds is not None:
            settings.append(f'train.track=python("tracking_hook:Tracker", seconds = {seconds}, wait = 1s)')
        words = [word for each in settings for word in ("--set", each)]
        command = [
            sys.executable,
            "-m",
            "tfdeploy",
            "compile-and-run",
            str(SPEC),
            "--quiet",
            "--allow-python",
        ]
        environment = {**os.environ, "PYTHONPATH": folder, "TF_CPP_MIN_LOG_LEVEL": "3"}
        process = subprocess.Popen([*command, *words], env=environment, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        ended = time.time()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise click.ClickException(f"the run has ended with {process.returncode}")
        result = Path(folder) / "run" / "result.json"
        found = json.loads(result.read_text())
        return Run(found["seconds"]["train"], usage.ru_utime + usage.ru_stime, ended - result.stat().st_mtime)


@click.command()
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(1))
@click.option("--steps", default=STEPS, show_default=True, type=click.IntRange(1))
def main(rounds: int, steps: int) -> None:
    """Measure runs with each kind of tracker, and print a table."""
    found: dict[str, list[Run]] = {name: [] for name in TRACKERS}
    for turn in range(rounds):
        for name in list(TRACKERS)[:: 1 if turn % 2 else -1]:
            found[name].append(measure(TRACKERS[name], steps))
    for name, runs in found.items():
        pairs = list(zip(runs, found["none"], strict=True))
        training = median(one.training / other.training for one, other in pairs)
        processor = median(one.processor / other.processor for one, other in pairs)
        click.echo(
            f"{name:6} steps {training:5.2f} times as long   processor time {processor:5.2f}"
            f"   from the result to the end {median(each.ended for each in runs):5.2f} s"
        )


if __name__ == "__main__":
    main()
