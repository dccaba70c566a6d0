"""Workers with all weights and no parameter servers, against `MultiWorkerMirroredStrategy`.

`python -m benchmarks.clusters.replicas [ROUNDS] [STEPS] [AGGREGATION] [MODEL ...]`: two workers of one
process each on loopback, the same model, batch and optimizer, in turns. Prints the steps per second of both,
where a step is the batches of both workers, and their ratio. AGGREGATION may have a compression after it,
such as "add_n, compress = bfloat16".
"""

from __future__ import annotations

import sys
from statistics import median

from benchmarks.clusters.rates import WORKERS, mirrored, rate_of, trained
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


def main(rounds: str = "3", steps: str = "200", aggregate: str = "add_n", *models: str) -> None:
    """Print the rates and their ratio for each model."""
    for model in models or ("mlp", "lenet"):
        pairs = [
            (ours(model, int(steps), aggregate), rate_of(mirrored(model), int(steps)))
            for _ in range(int(rounds))
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
