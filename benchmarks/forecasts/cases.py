"""The layouts whose steps are forecast and measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from attrs import frozen

from benchmarks.models import PROBLEMS
from compiler.time.profile import Profile
from tfdeploy.runtime.calibrate.processes import joined, measure_in_processes

MODELS = ("lenet", "mlp", "transformer", "embedding", "resnet50")

BLOCKS = """
devices {{ {devices} }}
clones {{ {count}batch = {batch} }}
place {{
  {place}
}}
update {{ {update} }}
train {{ seed = 1, summaries = none }}
"""
ONE_THREAD = ", intra_op_threads = 1, inter_op_threads = 1"
OPTIMIZER = "optimizer = Momentum(0.01, momentum = 0.9)"
TOGETHER = "variables -> cpu[0]"
SPREAD = "variables -> balanced(cpu[*])"
COPIED = "variables -> replicated"
TASKS = 'job "worker" {{ tasks = 2, cpu = {} }}'
NEAR, FAR = "variables -> worker[0].cpu[0]", "variables -> balanced(worker[*].cpu[*])"
BETWEEN = "replication = between_graph"

LATER_HALF = {
    "lenet": ("flatten", "dense", "dense_1"),
    "mlp": ("dense_1", "dense_2"),
    "transformer": ("encoder_1", "global_average_pooling1d", "dense"),
    "embedding": ("global_average_pooling1d", "dense"),
}
"""The layers of each model that are on the second device of a group."""


@frozen
class Case:
    """A layout.

    Attributes:
        model: The name of the model.
        family: `clones`, `groups`, `cluster` for one graph of two processes, or `between` for two processes
            with a graph each.
        clones: The number of clones, each on a CPU device, or a group of two, of its own.
        threads: 1 for one thread in all, 2 for TensorFlow's default.
        variables: The rule for variables.
        update: The attributes of `update`, without the optimizer.
    """

    model: str
    family: str
    clones: int
    threads: int = 2
    variables: str = TOGETHER
    update: str = ""

    @property
    def name(self) -> str:
        """The name that distinguishes the layout from others of its model."""
        words = [f"{self.clones} clones" if self.clones > 1 else "1 clone"]
        if self.family == "groups":
            words.append("groups of 2")
        if self.tasks > 1:
            words.append("2 processes")
        words.append("1 thread" if self.threads == 1 else "default threads")
        if self.variables != TOGETHER:
            words.append(self.variables)
        return ", ".join([*words, *([self.update] if self.update else [])])

    @property
    def tasks(self) -> int:
        """The number of its processes."""
        return 2 if self.family in {"cluster", "between"} else 1

    @property
    def pool(self) -> int:
        """The threads that may work on one op, or 0 for TensorFlow's default."""
        alone = self.clones == self.tasks or self._of_tables
        return 0 if alone and self.threads > 1 else 1

    @property
    def _of_tables(self) -> bool:
        """Whether most of a step goes through a whole table, on which all cores may then work."""
        return self.model == "embedding"

    def when_calibrated(self, profile: Profile) -> float | None:
        """Return what a step of the layout took in the calibration; None if another one was calibrated.

        Args:
            profile: The profile of the model.
        """
        calibrated = Case(self.model, "clones", 2, self.threads)
        if self != calibrated or self.pool != 1:
            return None
        return profile.serial if self.threads == 1 else profile.parallel

    @property
    def text(self) -> str:
        """The text of its spec."""
        problem = PROBLEMS[self.model]
        place, devices = ["clones -> cpu[*]", self.variables], f"cpu = {self.clones}"
        if self.family == "groups":
            place[0] = "clones -> groups(cpu[*], size = 2)"
            place += [f'ops("{layer}/*") -> group[1]' for layer in LATER_HALF[self.model]]
            devices = f"cpu = {2 * self.clones}"
        elif self.tasks > 1:
            place, devices = [self.variables], TASKS.format(self.clones // self.tasks)
        return problem.spec + BLOCKS.format(
            devices=devices + (ONE_THREAD if self.threads == 1 else ""),
            count="" if self.tasks > 1 else f"count = {self.clones}, ",
            batch=problem.batch,
            place="\n  ".join(place),
            update=", ".join([OPTIMIZER, *([self.update] if self.update else [])]),
        )


def calibrated(model: str) -> Case:
    """Return the layout that is calibrated: two clones, whose tasks also show the link between processes."""
    return Case(model, "cluster", 2, variables=NEAR)


def profile_between(
    spec: Path, threads: Sequence[int], seconds: float, turns: int, between: Callable[[], None]
) -> Profile:
    """Return the profile of a spec, which is calibrated between other measurements.

    Args:
        spec: The file of the spec.
        threads: How many threads work on an op, for each process that measures.
        seconds: The most seconds of each measurement.
        turns: In how many turns it is made.
        between: Is called between these turns.
    """
    arguments = ["calibrate", str(spec), f"--seconds={seconds}", f"--turns={turns}"]
    found = measure_in_processes(arguments, threads, between)
    if found is None:
        raise SystemExit(f"{spec.stem} cannot be calibrated")
    return joined(found, str(spec))


def cases(model: str) -> Iterator[Case]:
    """Yield the layouts of a model."""
    for clones in (1, 2, 3, 4):
        for threads in (1, 2):
            yield Case(model, "clones", clones, threads)
    yield Case(model, "clones", 2, variables=SPREAD)
    yield Case(model, "clones", 4, update="aggregate = tree")
    yield Case(model, "clones", 3, variables=COPIED, update="aggregate = ring")
    yield Case(model, "cluster", 2, variables=NEAR)
    if model == "resnet50":
        return  # its steps are long
    for clones, threads in ((4, 1), (4, 2)):
        yield Case(model, "clones", clones, threads, SPREAD)
    for clones, threads in ((2, 2), (4, 1)):
        yield Case(model, "clones", clones, threads, update="aggregate = tree")
    yield Case(model, "clones", 4, update="pack = 64MiB")
    yield Case(model, "clones", 2, update="accumulate = 2")
    for clones, threads in ((1, 1), (1, 2), (2, 2)):
        yield Case(model, "groups", clones, threads)
    yield Case(model, "cluster", 2, variables=FAR)
    yield Case(model, "cluster", 2, variables=COPIED, update="aggregate = ring")
    yield Case(model, "cluster", 2, variables=NEAR, update="pack = 1MiB")
    yield Case(model, "cluster", 2, variables=NEAR, update="accumulate = 2")
    yield Case(model, "cluster", 4, variables=NEAR)
    yield Case(model, "cluster", 4, variables=NEAR, update="aggregate = hierarchical")
    for mode in ("sync", "async"):
        between = f"{BETWEEN}, mode = {mode}"
        yield Case(model, "between", 2, variables=NEAR, update=between)
        yield Case(model, "between", 2, variables=FAR, update=between)
        yield Case(model, "between", 4, variables=NEAR, update=between)
    yield Case(model, "between", 2, variables=NEAR, update=f"{BETWEEN}, mode = sync, accumulate = 2")
    for aggregation in ("add_n", "ring"):
        yield Case(model, "between", 2, variables=COPIED, update=f"{BETWEEN}, aggregate = {aggregation}")
    yield Case(model, "between", 4, variables=COPIED, update=BETWEEN)
