"""Asynchronous training on a cluster of this machine's processes, against `ParameterServerStrategy`.

`python -m benchmarks.clusters [ROUNDS] [STEPS]`: two parameter servers and two workers on loopback, the same
model, batch and number of processes, in turns. Prints steps per second of both (a step is one worker's batch)
and their ratio.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import ClusterRates
from benchmarks.models import PROBLEMS, Problem

MODELS = ("mlp", "lenet")
SERVERS, WORKERS = 2, 2
PATIENCE = 300
TAIL = """
data {{
  train = synthetic({examples}, x = feature(float32, {shape}), y = feature(int32, classes = {classes}))
    -> cache()
}}
devices {{
  job "ps" {{ tasks = {servers} }}
  job "worker" {{ tasks = {workers} }}
}}
clones {{ batch = {batch} }}
place {{ variables -> balanced(ps[*]) }}
update {{ mode = async, optimizer = Momentum(0.01, momentum = 0.9) }}
train {{ steps = {steps}, log_every = {every}, seed = 1, summaries = none, directory = "run" }}
"""


def run_clusters(rounds: int = 3, steps: int = 400) -> list[ClusterRates]:
    """Return the rates for each model, the contenders taking turns."""
    found = []
    for model in MODELS:
        pairs = [(ours(PROBLEMS[model], steps), parameter_server(model, steps)) for _ in range(rounds)]
        found.append(ClusterRates(model, [each for each, _ in pairs], [each for _, each in pairs]))
    return found


def ours(problem: Problem, steps: int) -> float:
    """Train on a launched cluster; return the steps per second of the second half."""
    with tempfile.TemporaryDirectory() as folder:
        tail = TAIL.format(
            examples=4 * problem.batch * WORKERS,
            shape=list(problem.shape),
            classes=problem.classes,
            servers=SERVERS,
            workers=WORKERS,
            batch=problem.batch,
            steps=2 * steps,
            every=max(steps // 20, 1),
        )
        spec = Path(folder) / "spec.tfdeploy"
        spec.write_text(problem.spec + tail)
        command = [sys.executable, "-m", "tfdeploy", "compile-and-run", str(spec)]
        subprocess.run(
            command, cwd=folder, env=_environment(), check=True, capture_output=True, timeout=PATIENCE
        )
        history = (Path(folder) / "run" / "history.jsonl").read_text().splitlines()
        lines = [each for each in map(json.loads, history) if each["step"] >= steps]
        first, last = lines[0], lines[-1]
        times = [datetime.fromisoformat(each["time"]) for each in (first, last)]
        return float((last["step"] - first["step"]) / (times[1] - times[0]).total_seconds())


def parameter_server(model: str, steps: int) -> float:
    """Train by the strategy on as many processes; return the steps per second of the second half."""
    from tests.runtime.tasks import free_ports

    addresses = [f"127.0.0.1:{port}" for port in free_ports(SERVERS + WORKERS + 1)]
    cluster = {
        "chief": addresses[:1],
        "ps": addresses[1 : 1 + SERVERS],
        "worker": addresses[1 + SERVERS :],
    }
    with ExitStack() as stack:
        for job in ("ps", "worker"):
            for index in range(len(cluster[job])):
                process = subprocess.Popen(**_task(model, steps, cluster, job, index))
                stack.callback(process.wait)
                stack.callback(process.kill)
        options = _task(model, steps, cluster, "chief", 0)
        done = subprocess.run(**{**options, "stdout": subprocess.PIPE}, check=True, timeout=PATIENCE)
        return float(steps / json.loads(done.stdout.splitlines()[-1])["seconds"])


def _task(model: str, steps: int, cluster: Mapping[str, Any], job: str, index: int) -> dict[str, Any]:
    config = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
    return {
        "args": [sys.executable, "-m", "benchmarks.contenders.parameter_server", model, str(steps)],
        "env": {**_environment(), "TF_CONFIG": config},
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }


def _environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[1])
    clean = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    return {**clean, "PYTHONPATH": root, "TF_CPP_MIN_LOG_LEVEL": "3"}


def main(rounds: str = "3", steps: str = "400") -> None:
    """Print what was measured."""
    for each in run_clusters(int(rounds), int(steps)):
        ratio = median(a / b for a, b in zip(each.ours, each.parameter_server, strict=True))
        print(
            f"{each.model}: ours {median(each.ours):.0f} steps/s, ParameterServerStrategy"
            f" {median(each.parameter_server):.0f} steps/s, ratio {ratio:.2f}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
