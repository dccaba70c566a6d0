"""Asynchronous training on a cluster of this machine's processes, against `ParameterServerStrategy`.

`python -m benchmarks.clusters [ROUNDS] [STEPS] [MODEL ...]`: two parameter servers and two workers on
loopback, the same model, batch and number of processes, in turns. Prints steps per second of both (a step is
one worker's batch) and their ratio. The model `table` has a table of 1,000,000 rows in pieces, which the
strategy's own partitioner cuts; the variables of the other models are whole.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from attrs import frozen

from benchmarks.contenders.parameter_server import EXAMPLES
from benchmarks.figures import ClusterRates
from benchmarks.models import PROBLEMS, TABLE, Problem

SERVERS, WORKERS = 2, 2
PATIENCE = 300
MOMENTUM = "Momentum(0.01, momentum = 0.9)"


@frozen
class ClusterCase:
    """A model that both contenders train.

    Attributes:
        problem: The model.
        command: The module and the arguments of the strategy's contender, apart from the number of steps.
        optimizer: Our optimizer, which is also that of the contender.
        rules: Further rules for places.
        rounds: How often both train it. The rates of the table differ most from turn to turn.
    """

    problem: Problem
    command: tuple[str, ...]
    optimizer: str = MOMENTUM
    rules: str = ""
    rounds: int = 3


CASES = (
    *(ClusterCase(PROBLEMS[each], ("parameter_server", each)) for each in ("mlp", "lenet")),
    ClusterCase(TABLE, ("table",), "SGD(0.01)", 'variables("*/embeddings") -> sharded(ps[*])', rounds=5),
)
TAIL = """
data {{
  train = npz("examples.npz") -> cache()
}}
devices {{
  job "ps" {{ tasks = {servers} }}
  job "worker" {{ tasks = {workers} }}
}}
clones {{ batch = {batch} }}
place {{
  variables -> balanced(ps[*])
  {rules}
}}
update {{ mode = async, optimizer = {optimizer} }}
train {{
  steps = {steps}, log_every = {every}, checkpoint_every = 1h
  seed = 1, summaries = none, directory = "run"
}}
"""


def run_clusters(
    rounds: int | None = None, steps: int = 400, models: Collection[str] = ()
) -> list[ClusterRates]:
    """Return the rates of both contenders, which take turns, for each model.

    Args:
        rounds: How often both train each model; None for as often as the model needs.
        steps: The number of steps of a training, of all workers together.
        models: The names of the models, or none for all of them.
    """
    found = []
    for case in CASES:
        name = case.problem.name
        if not models or name in models:
            pairs = [(ours(case, steps), parameter_server(case, steps)) for _ in range(rounds or case.rounds)]
            rates = [each for each, _ in pairs], [each for _, each in pairs]
            found.append(ClusterRates(name, *rates, datetime.now(UTC).date().isoformat()))
    return found


def ours(case: ClusterCase, steps: int) -> float:
    """Train with tfdeploy on a cluster of processes.

    Args:
        case: The model.
        steps: The number of steps, of all workers together.

    Returns:
        The steps per second of the second half of the training.
    """
    told = {"servers": SERVERS, "workers": WORKERS, "rules": case.rules, "optimizer": case.optimizer}
    return trained(case.problem, TAIL, steps, **told)


def trained(problem: Problem, tail: str, steps: int, **told: object) -> float:
    """Train a model with tfdeploy on processes of this machine.

    Args:
        problem: The model.
        tail: The rest of the spec, with fields for its batch, its steps, and `told`.
        steps: Half of the number of steps.
        told: What the fields of the tail get.

    Returns:
        The steps per second of the second half of the training.
    """
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        x, y = problem.arrays(EXAMPLES * problem.batch)
        np.savez(Path(folder) / "examples.npz", x=x, y=y)
        spec = Path(folder) / "spec.tfdeploy"
        given = {"batch": problem.batch, "steps": 2 * steps, "every": max(steps // 20, 1), **told}
        spec.write_text(problem.spec + tail.format(**given))
        command = [sys.executable, "-m", "tfdeploy", "compile-and-run", str(spec)]
        subprocess.run(
            command, cwd=folder, env=environment_of_tasks(), check=True, capture_output=True, timeout=PATIENCE
        )
        history = (Path(folder) / "run" / "history.jsonl").read_text().splitlines()
        lines = [each for each in map(json.loads, history) if each["step"] >= steps]
        first, last = lines[0], lines[-1]
        times = [datetime.fromisoformat(each["time"]) for each in (first, last)]
        return float((last["step"] - first["step"]) / (times[1] - times[0]).total_seconds())


def parameter_server(case: ClusterCase, steps: int) -> float:
    """Train with `ParameterServerStrategy` on the same number of processes.

    Args:
        case: The model.
        steps: The number of steps, of all workers together.

    Returns:
        The steps per second of the second half of the training.
    """
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
                process = subprocess.Popen(**_task(case, steps, cluster, job, index))
                stack.callback(process.wait)
                stack.callback(process.kill)
        options = _task(case, steps, cluster, "chief", 0)
        done = subprocess.run(**{**options, "stdout": subprocess.PIPE}, check=True, timeout=PATIENCE)
        return float(steps / json.loads(done.stdout.splitlines()[-1])["seconds"])


def _task(case: ClusterCase, steps: int, cluster: Mapping[str, Any], job: str, index: int) -> dict[str, Any]:
    config = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
    module, *arguments = case.command
    return {
        "args": [sys.executable, "-m", f"benchmarks.contenders.{module}", *arguments, str(steps)],
        "env": {**environment_of_tasks(), "TF_CONFIG": config},
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }


def environment_of_tasks() -> dict[str, str]:
    """Return the environment of the tasks of a cluster, without the tasks of another one."""
    root = str(Path(__file__).resolve().parents[2])
    clean = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    return {**clean, "PYTHONPATH": root, "TF_CPP_MIN_LOG_LEVEL": "3"}


def main(rounds: str = "3", steps: str = "400", *models: str) -> None:
    """Print the rates and their ratio for each model.

    Args:
        rounds: How often both contenders train each model.
        steps: The number of steps of a training.
        *models: The names of the models, or none for all of them.
    """
    for each in run_clusters(int(rounds), int(steps), models):
        ratio = median(a / b for a, b in zip(each.ours, each.parameter_server, strict=True))
        print(
            f"{each.model}: ours {median(each.ours):.0f} steps/s, ParameterServerStrategy"
            f" {median(each.parameter_server):.0f} steps/s, ratio {ratio:.2f}"
        )
