"""Short synchronous runs on three workers, over and over: python -m tests.runtime.cluster.repeats [TIMES].

Each run starts all tasks as processes, with and without a worker to spare. Exit code 1 where one does not end
within a minute or not with the exact step count.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.runtime.tasks import SPEC, Process

PATIENCE = 60.0
STEPS = 40


def main(times: str = "20") -> int:
    """Run so many times each; return the exit code."""
    failed = 0
    for backup in (0, 1):
        begun = time.monotonic()
        for number in range(int(times)):
            failed += not one_run(backup, number)
        seconds = (time.monotonic() - begun) / int(times)
        print(f"backup = {backup}: {times} runs, {seconds:.1f} s each, {failed} failed so far", flush=True)  # noqa: T201
    return int(failed > 0)


def one_run(backup: int, number: int) -> bool:
    """Train once; return whether that ended as it should."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "spec.tfdeploy"
        text = SPEC.format(ps="tasks = 1", worker="tasks = 3")
        update = f"optimizer = SGD(0.1), replication = between_graph, backup = {backup}"
        text = text.replace("optimizer = SGD(0.1)", update).replace("steps = 20", f"steps = {STEPS}")
        spec.write_text(text)
        process = Process(["-m", "tfdeploy", "compile-and-run", str(spec), "--json"], {}, Path(folder))
        end = time.monotonic() + PATIENCE
        while process.process.poll() is None and time.monotonic() < end:
            process.read()
            time.sleep(0.05)
        if process.process.poll() is None:
            process.send(signal.SIGTERM)
            process.end(10)
        process.read()
        fine = process.process.returncode == 0 and json.loads(process.lines[-1])["steps"] == STEPS
        if not fine:
            print(f"backup = {backup}, run {number} failed:\n{process.text}", flush=True)  # noqa: T201
        return fine


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
