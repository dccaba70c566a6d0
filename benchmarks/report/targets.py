"""The targets of the benchmarks, as ratios within one run."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from benchmarks.launches import BASELINE, SPEC
from benchmarks.report.results import Results, Spread


@frozen
class Target:
    """A ratio that should not be below, or not above, a bound.

    Attributes:
        what: What is compared, in words.
        bound: The bound.
        measured: Returns the ratio from the results, or None if it was not measured.
        at_most: Whether the ratio should be at most the bound; otherwise it should be at least the bound.
    """

    what: str
    bound: float
    measured: Callable[[Results], Spread | None]
    at_most: bool = False

    @property
    def wanted(self) -> str:
        """The bound in words."""
        return f"{'≤' if self.at_most else '≥'} {self.bound:.3g}"

    def is_met(self, found: Spread) -> bool:
        """Tell whether the median keeps to the bound."""
        return found.median <= self.bound if self.at_most else found.median >= self.bound


def _clones(count: int) -> Callable[[Results], Spread | None]:
    def measured(results: Results) -> Spread | None:
        ours, tutorial = (results.built(each, "resnet50", count) for each in ("ours", "tutorial"))
        return Spread.of([tutorial.build / ours.build] if ours and tutorial else [])

    return measured


def _marginal(results: Results) -> Spread | None:
    few, many = (results.built("ours", "resnet50", count) for count in (8, 64))
    if few is None or many is None:
        return None
    return Spread.of([(many.build - few.build) / 56 / each.trace for each in (few, many)])


def _recomputing(model: str, name: str) -> tuple[Target, Target]:
    """Return the targets of recomputation for a model."""
    return (
        Target(
            f"peak of the activations of a step, {name}, `recompute = memory(...)` against none",
            0.35,
            lambda results: results.recomputed(model, lambda each: [each.activations]),
            at_most=True,
        ),
        Target(
            "the same, time of a step",
            1.35,
            lambda results: results.recomputed(model, lambda each: [1 / rate for rate in each.rates]),
            at_most=True,
        ),
    )


ON_CLUSTERS = (
    ("a multilayer perceptron", "mlp", "ParameterServerStrategy", 1.3),
    ("LeNet", "lenet", "ParameterServerStrategy", 1.3),
    ("150 small variables", "deep", "ParameterServerStrategy", 1.5),
    ("a large table in pieces", "table", "ParameterServerStrategy", 1.5),
    ("a multilayer perceptron in sync", "mlp", "SyncReplicasOptimizer", 1.3),
    ("the same", "mlp", "MultiWorkerMirroredStrategy", 1.0),
)
"""What is trained through servers: a name, the model, the peer, and the ratio to it that is wanted."""

READ = (
    "JPEG images",
    "JPEG images, augmented",
    "images with masks",
    "TFRecord",
    "TFRecord of JPEG",
    "TFRecord of JPEG, augmented",
    "CSV",
)
"""The kinds of files that are read."""

TARGETS = (
    Target("building 8 clones of ResNet-50, against the tutorial's loop", 5, _clones(8)),
    Target("building 64 clones of ResNet-50, against the tutorial's loop", 10, _clones(64)),
    Target("building one more clone of ResNet-50, as part of tracing one", 1 / 15, _marginal, at_most=True),
    Target(
        "process start to end of first step, 8 clones of ResNet-50, against the tutorial's loop",
        5,
        lambda results: results.saving("resnet50", 8, "tutorial", lambda each: each.first_step),
    ),
    Target(
        "the same against `MirroredStrategy`",
        8,
        lambda results: results.saving("resnet50", 8, "mirrored", lambda each: each.first_step),
    ),
    Target(
        "steps per second, 8 clones of ResNet-50, against `MirroredStrategy`",
        2.5,
        lambda results: results.speed("resnet50", 8, "mirrored"),
    ),
    Target(
        "peak memory, 8 clones of ResNet-50: that of `MirroredStrategy` over ours",
        3,
        lambda results: results.saving("resnet50", 8, "mirrored", lambda each: each.peak_memory),
    ),
    Target(
        "steps per second, 4 towers of LeNet, against `MirroredStrategy`",
        1.8,
        lambda results: results.speed("lenet", 4, "mirrored"),
    ),
    Target(
        "the same against the hand-written graph",
        1.1,
        lambda results: results.speed("lenet", 4, "tutorial"),
    ),
    Target(
        "the same against one tower of the whole batch (the limit)",
        0.95,
        lambda results: results.speed("lenet", 4, "single"),
    ),
    Target(
        "the same for 4 towers with an embedding of 50,000 rows",
        0.85,
        lambda results: results.speed("embedding", 4, "single"),
    ),
    *(
        Target(
            f"steps per second on a cluster, {name}, against `{peer}`",
            bound,
            lambda results, model=model, peer=peer: results.on_cluster(model, peer),  # type: ignore[misc]
        )
        for name, model, peer, bound in ON_CLUSTERS
    ),
    Target(
        "peak memory of a server with half of a table of 2 GiB, against its part with slots",
        1.15,
        lambda results: results.held_by_servers(),
        at_most=True,
    ),
    *_recomputing("transformer", "a Transformer of 24 blocks"),
    *_recomputing("resnet50", "ResNet-50"),
    Target(
        "steps per second, 8 micro-batches on 2 devices, `one_f_one_b` against one after the other",
        1.6,
        lambda results: results.piped("one_f_one_b"),
    ),
    *(
        Target(
            f"examples per second, reading {files}, against the best pipeline written by hand",
            0.95,
            lambda results, files=files: results.read_by_hand(files),  # type: ignore[misc]  # mypy infers no default
        )
        for files in READ
    ),
    Target(
        f"`check` as a process, against `{BASELINE}`",
        2.5,
        lambda results: results.launched(f"check {SPEC}", BASELINE),
        at_most=True,
    ),
)
