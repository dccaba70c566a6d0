"""Workers with all weights and no parameter servers, against `MultiWorkerMirroredStrategy`.

`python -m benchmarks.clusters.replicas [ROUNDS] [STEPS] [AGGREGATION] [MODEL ...]`: two workers of one
process each on loopback, the same model, batch and optimizer, in turns. Prints the steps per second of both,
where a step is the batches of both workers, and their ratio. AGGREGATION may have a compression after it,
such as "add_n, compress = bfloat16".
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from statistics import median

from benchmarks.clusters.rates import WORKERS, mirrored, rate_of, trained
from benchmarks.figures import ClusterRates
from benchmarks.models import PROBLEMS

MODELS = ("mlp", "lenet")
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


def run_replicas(
    rounds: int = 3, steps: int = 200, aggregate: str = "add_n", models: Sequence[str] = MODELS
) -> Iterator[ClusterRates]:
    """Yield the rates of both for each model, in as many rounds, each of which trains both.

    Args:
        rounds: How often both train each model.
        steps: The number of steps that are timed, after as many for warming up.
        aggregate: How tfdeploy sums between the workers.
        models: The names of the models.
    """
    for model in models:
        peer = mirrored(model)
        pairs = [(ours(model, steps, aggregate), rate_of(peer, steps)) for _ in range(rounds)]
        mine, theirs = map(list, zip(*pairs, strict=True))
        yield ClusterRates(model, mine, theirs, datetime.now(UTC).date().isoformat(), aggregate, peer.name)


def main(rounds: str = "3", steps: str = "200", aggregate: str = "add_n", *models: str) -> None:
    """Print the rates and their ratio for each model."""
    for each in run_replicas(int(rounds), int(steps), aggregate, models or MODELS):
        print(
            f"{each.model}, {aggregate}: ours {median(each.ours):.1f} steps/s,"
            f" {each.peer} {median(each.theirs):.1f} steps/s, ratio {median(each.ratios):.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
