"""Training through the servers of a cluster of this machine's processes, against what TensorFlow has for it.

`python -m benchmarks.clusters [ROUNDS] [STEPS] [MODEL ...]`: two workers and one or two parameter servers on
loopback, the same model, batch and optimizer, in turns. Prints steps per second of tfdeploy and of each peer,
and their ratio. In `async` a step is one worker's batch, in `sync` a batch of each worker. The model `table`
has a table of 1,000,000 rows in pieces, which the strategy's own partitioner cuts; the variables of the other
models are whole.
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

WORKERS = 2
PATIENCE = 300
MOMENTUM = "Momentum(0.01, momentum = 0.9)"


@frozen
class Peer:
    """What trains the same model on a cluster with TensorFlow alone.

    Attributes:
        name: The class of TensorFlow.
        command: The module and the arguments of the contender, apart from the number of steps.
        jobs: The jobs of its cluster, with the number of their tasks. Task 0 of the first job trains, and
            prints the seconds that it takes; the others are ended after that.
    """

    name: str
    command: tuple[str, ...]
    jobs: Mapping[str, int]


@frozen
class ClusterCase:
    """A model that all contenders train.

    Attributes:
        problem: The model.
        peers: The peers.
        mode: The update mode.
        servers: The number of our servers.
        optimizer: Our optimizer, which is also that of the peers.
        rules: Further rules for places.
        rounds: How often all train it. The rates of the table, and of `sync`, differ most from turn to turn.
    """

    problem: Problem
    peers: tuple[Peer, ...]
    mode: str = "async"
    servers: int = 2
    optimizer: str = MOMENTUM
    rules: str = ""
    rounds: int = 3


def _coordinated(*command: str) -> tuple[Peer]:
    return (Peer("ParameterServerStrategy", command, {"chief": 1, "ps": 2, "worker": WORKERS}),)


def mirrored(model: str) -> Peer:
    """Return the peer that has no servers."""
    return Peer("MultiWorkerMirroredStrategy", ("multi_worker", model), {"worker": WORKERS})


CASES = (
    *(
        ClusterCase(PROBLEMS[each], _coordinated("parameter_server", each))
        for each in ("mlp", "lenet", "deep")
    ),
    ClusterCase(
        TABLE,
        _coordinated("table"),
        optimizer="SGD(0.01)",
        rules='variables("*/embeddings") -> sharded(ps[*])',
        rounds=5,
    ),
    ClusterCase(
        PROBLEMS["mlp"],
        (
            Peer("SyncReplicasOptimizer", ("sync_replicas", "mlp"), {"worker": WORKERS, "ps": 1}),
            mirrored("mlp"),
        ),
        "sync",
        1,
        "SGD(0.01)",
        rounds=5,
    ),
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
update {{ mode = {mode}, replication = between_graph, optimizer = {optimizer} }}
train {{
  steps = {steps}, log_every = {every}, checkpoint_every = 1h
  seed = 1, summaries = none, directory = "run"
}}
"""


def run_clusters(
    rounds: int | None = None, steps: int = 400, models: Collection[str] = ()
) -> list[ClusterRates]:
    """Return the rates of all contenders, which take turns, for each model and peer.

    Args:
        rounds: How often all train each model; None for as often as the model needs.
        steps: The number of steps of a training, of all workers together.
        models: The names of the models, or none for all of them.
    """
    found = []
    for case in CASES:
        name = case.problem.name
        if not models or name in models:
            turns = [
                (ours(case, steps), *(rate_of(each, steps) for each in case.peers))
                for _ in range(rounds or case.rounds)
            ]
            mine, *others = map(list, zip(*turns, strict=True))
            today = datetime.now(UTC).date().isoformat()
            for peer, theirs in zip(case.peers, others, strict=True):
                found.append(ClusterRates(name, mine, theirs, today, case.mode, peer.name))
    return found


def ours(case: ClusterCase, steps: int) -> float:
    """Return the steps per second of tfdeploy on a cluster of processes, in the second half of a training."""
    told = {each: getattr(case, each) for each in ("mode", "servers", "optimizer", "rules")}
    return trained(case.problem, TAIL, steps, workers=WORKERS, **told)


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


def rate_of(peer: Peer, steps: int) -> float:
    """Return the steps per second of a peer on processes, after as many steps for warming up."""
    from tests.runtime.tasks import free_ports

    addresses = [f"127.0.0.1:{port}" for port in free_ports(sum(peer.jobs.values()))]
    cluster = {job: [addresses.pop(0) for _ in range(count)] for job, count in peer.jobs.items()}
    first, *others = [(job, index) for job, tasks in cluster.items() for index in range(len(tasks))]

    def options(task: tuple[str, int]) -> dict[str, Any]:
        config = json.dumps({"cluster": cluster, "task": {"type": task[0], "index": task[1]}})
        module, *arguments = peer.command
        return {
            "args": [sys.executable, "-m", f"benchmarks.contenders.{module}", *arguments, str(steps)],
            "env": {**environment_of_tasks(), "TF_CONFIG": config},
            "stderr": subprocess.DEVNULL,
        }

    with ExitStack() as stack:
        for each in others:
            process = subprocess.Popen(**options(each), stdout=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
        done = subprocess.run(**options(first), stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
        return float(steps / json.loads(done.stdout.splitlines()[-1])["seconds"])


def environment_of_tasks() -> dict[str, str]:
    """Return the environment of the tasks of a cluster, without the tasks of another one."""
    root = str(Path(__file__).resolve().parents[2])
    clean = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    return {**clean, "PYTHONPATH": root, "TF_CPP_MIN_LOG_LEVEL": "3"}


def main(rounds: str = "3", steps: str = "400", *models: str) -> None:
    """Print the rates and their ratio for each model.

    Args:
        rounds: How often all contenders train each model.
        steps: The number of steps of a training, of all workers together.
        *models: The names of the models, or none for all of them.
    """
    for each in run_clusters(int(rounds), int(steps), models):
        print(
            f"{each.model}, {each.mode}: ours {median(each.ours):.1f} steps/s, {each.peer}"
            f" {median(each.theirs):.1f} steps/s, ratio {median(each.ratios):.2f}",
            flush=True,
        )
