"""The layouts whose steps are forecast and measured."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from benchmarks.models import PROBLEMS

MODELS = ("lenet", "mlp", "transformer", "embedding", "resnet50")
CALIBRATED = 2
"""The number of clones of the layout that is calibrated."""

BLOCKS = """
devices {{ cpu = {clones}{threads} }}
clones {{ count = {clones}, batch = {batch} }}
place {{
  clones -> cpu[*]
  {variables}
}}
update {{ {update} }}
train {{ seed = 1, summaries = none }}
"""
ONE_THREAD = ", intra_op_threads = 1, inter_op_threads = 1"
OPTIMIZER = "optimizer = Momentum(0.01, momentum = 0.9)"
TOGETHER = "variables -> cpu[0]"
SPREAD = "variables -> balanced(cpu[*])"
COPIED = "variables -> replicated"


@frozen
class Case:
    """A layout.

    Attributes:
        model: The name of the model.
        clones: The number of clones, each on a CPU device of its own.
        threads: 1 for one thread in all, 2 for TensorFlow's default.
        variables: The rule for variables.
        update: The attributes of `update`.
    """

    model: str
    clones: int
    threads: int = 2
    variables: str = TOGETHER
    update: str = OPTIMIZER

    @property
    def name(self) -> str:
        """What distinguishes it from other layouts of its model."""
        words = [f"{self.clones} clones" if self.clones > 1 else "1 clone"]
        words.append("1 thread" if self.threads == 1 else "default threads")
        if self.variables != TOGETHER:
            words.append(self.variables)
        if self.update != OPTIMIZER:
            words.append(self.update.removeprefix(f"{OPTIMIZER}, "))
        return ", ".join(words)

    @property
    def text(self) -> str:
        """The text of its spec."""
        problem = PROBLEMS[self.model]
        return problem.spec + BLOCKS.format(
            clones=self.clones,
            threads=ONE_THREAD if self.threads == 1 else "",
            batch=problem.batch,
            variables=self.variables,
            update=self.update,
        )


def cases(model: str) -> Iterator[Case]:
    """Yield the layouts of a model."""
    for clones in (1, 2, 3, 4):
        for threads in (1, 2):
            yield Case(model, clones, threads)
    for clones, threads in ((2, 2), (4, 1), (4, 2)):
        yield Case(model, clones, threads, SPREAD)
        yield Case(model, clones, threads, update=f"{OPTIMIZER}, aggregate = tree")
    yield Case(model, 3, 2, COPIED, f"{OPTIMIZER}, aggregate = ring")
    yield Case(model, 4, 2, update=f"{OPTIMIZER}, pack = 64MiB")
    yield Case(model, 2, 2, update=f"{OPTIMIZER}, accumulate = 2")
