"""Workers with all weights and no parameter servers, against `MultiWorkerMirroredStrategy`.

`python -m benchmarks.clusters.replicas [ROUNDS] [STEPS] [AGGREGATION] [MODEL ...]`: two workers of one
process each on loopback, the same model, batch and optimizer, in turns. Prints the steps per second of both,
where a step is the batches of both workers, and their ratio.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks.clusters.rates import PATIENCE, WORKERS, environment_of_tasks, trained
from benchmarks.models import PROBLEMS

TAIL = """
data {{
  train = npz("examples.npz") -> cache()
}}
devices {{
  job "worker" {{ tasks = {workers} }}
}}
clones {{ batch = {batch} }}
place {{ variables -> replicated }}
update {{ replication = between_graph, aggregate = {aggregate}, optimizer = SGD(0.01) }}
train {{
  steps = {steps}, log_every = {every}, checkpoint_every = 1h
  seed = 1, summaries = none, directory = "run"
}}
"""


def ours(model: str, steps: int, aggregate: str) -> float:
    """Return the steps per second of tfdeploy."""
    return trained(PROBLEMS[model], TAIL, steps, workers=WORKERS, aggregate=aggregate)


def multi_worker(model: str, steps: int) -> float:
    """Return the steps per second of `MultiWorkerMirroredStrategy`."""
    from tests.runtime.tasks import free_ports

    addresses = [f"127.0.0.1:{port}" for port in free_ports(WORKERS)]

    def options(index: int) -> dict[str, Any]:
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        return {
            "args": [sys.executable, "-m", "benchmarks.contenders.multi_worker", model, str(steps)],
            "env": {**environment_of_tasks(), "TF_CONFIG": json.dumps(config)},
            "stderr": subprocess.DEVNULL,
        }

    with ExitStack() as stack:
        for index in range(1, WORKERS):
            process = subprocess.Popen(**options(index), stdout=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
        done = subprocess.run(**options(0), stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
        return float(steps / json.loads(done.stdout.splitlines()[-1])["seconds"])


def main(rounds: str = "3", steps: str = "200", aggregate: str = "add_n", *models: str) -> None:
    """Print the rates and their ratio for each model."""
    for model in models or ("mlp", "lenet"):
        pairs = [
            (ours(model, int(steps), aggregate), multi_worker(model, int(steps))) for _ in range(int(rounds))
        ]
        mine, theirs = (median(each) for each in zip(*pairs, strict=True))
        ratio = median(a / b for a, b in pairs)
        print(
            f"{model}, {aggregate}: ours {mine:.1f} steps/s,"
            f" MultiWorkerMirroredStrategy {theirs:.1f} steps/s, ratio {ratio:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
