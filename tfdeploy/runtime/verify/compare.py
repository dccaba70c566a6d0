"""The references with which combinations are compared, and how far two trainings differ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import define, evolve, field, frozen

from compiler.graph.compiled import CompiledGraph
from compiler.graph.workers.power_sgd import NAME, first_columns, is_worth_it, rank_of
from compiler.step.sums.compress import CASTS
from dsl import ir
from tfdeploy.runtime.verify.cases import AVERAGE_EVERY, GLOBAL_BATCH, Case
from tfdeploy.runtime.verify.trial import Arrays, FedGraph, Trial, TrialSetup, make_trial

PLAIN = ir.Call("add_n")


@frozen
class Trajectory:
    """The course of a training."""

    losses: tuple[float, ...]  # the loss of each step, or of each update in async
    # The values of all variables at the end, by their names in a checkpoint.
    values: Mapping[str, Any] = field(repr=False)


def run_steps(setup: TrialSetup, spec: ir.Spec, steps: int) -> Trajectory:
    """Train a combination whose clones take their steps together."""
    with make_trial(setup, spec) as trial:
        return _course(trial, [trial.step] * steps)


def train_case(trial: Trial, case: Case, steps: int, disturb: Callable[[], None]) -> Trajectory:
    """Train the trial of a case; `disturb` is called after the first step.

    Clones that update alone take turns, each as often as there are steps. Others make their steps together.
    """
    if case.mode != "async":
        return _course(trial, [trial.step] * steps, disturb)
    updates = [partial(trial.update, each) for each in range(len(case.updaters))]
    return _course(trial, updates * steps, disturb)


def _course(
    trial: Trial, steps: Sequence[Callable[[], float]], disturb: Callable[[], None] = lambda: None
) -> Trajectory:
    first = steps[0]()
    disturb()
    return Trajectory((first, *(step() for step in steps[1:])), trial.values())


def plain_of(spec: ir.Spec, batches: tuple[int, ...]) -> ir.Spec:
    """Return the spec that others are compared with: shared variables, `add_n`, nothing computed again."""
    spec = evolve(spec, update=evolve(spec.update, schedule=None))
    shared = Case("sync", PLAIN, "shared", batches).apply(spec)
    return evolve(shared, update=evolve(shared.update, recompute=None))


def evaluation_tower(setup: TrialSetup, spec: ir.Spec) -> Trial:
    """Return one tower without averaged weights, which evaluates given weights as an exported model does."""
    alone = plain_of(spec, (GLOBAL_BATCH,))
    return Trial(evolve(setup, start={}), evolve(alone, update=evolve(alone.update, ema=None)))


def one_tower(setup: TrialSetup, spec: ir.Spec, steps: int) -> Trajectory:
    """Train one tower on the whole batch, micro-batches and all."""
    whole = plain_of(spec, (GLOBAL_BATCH * spec.update.accumulate,))
    return run_steps(setup, evolve(whole, update=evolve(whole.update, accumulate=1)), steps)


def compressed_sums(setup: TrialSetup, spec: ir.Spec, case: Case, steps: int) -> Trajectory:
    """Train the same clones with the sums that workers make of compressed gradients.

    Each step is run twice on its examples, first for the gradients alone.
    """
    size = GLOBAL_BATCH * spec.update.accumulate
    rows = [step * size + row for step in range(steps) for _ in range(2) for row in range(size)]
    twice = {name: array[rows] for name, array in setup.arrays.items()}
    assert spec.update.compress is not None
    with Trial(setup, plain_of(spec, case.batches), twice) as trial:
        sums = CompressedSums.of(trial.compiled, spec.update.compress, case.workers, case.leaves_gradients)
        step, run = [trial.compiled.data_loss, trial.compiled.train_op], trial.session.run
        losses = tuple(float(run(step, sums.totals(run))[0]) for _ in range(steps))
        return Trajectory(losses, {**trial.values(), **sums.compression.state()})


def alternating_towers(setup: TrialSetup, spec: ir.Spec, batches: Sequence[int], steps: int) -> Trajectory:
    """Let single towers update one after the other, each from the values that the previous one has left.

    Statistics move with the updates of the first alone, unless they are declared to be sums.
    """
    losses = []
    with ExitStack() as stack:
        towers = _towers(stack, setup, spec, batches, steps)
        weights = towers[0].compiled.weights
        statistics = [name for name, each in weights.items() if not each.trainable and each.declared != "sum"]
        state = towers[0].values()
        for _ in range(steps):
            for clone, tower in enumerate(towers):
                tower.assign(state)
                losses.append(tower.step())
                kept = {name: state[name] for name in statistics} if clone else {}
                state = {**tower.values(), **kept}
    return Trajectory(tuple(losses), state)


def averaged_towers(
    setup: TrialSetup, spec: ir.Spec, batches: Sequence[int], steps: int, *, slots: bool
) -> Trajectory:
    """Train single towers independently, and average them regularly, weighted by their examples."""
    shares = [size / sum(batches) for size in batches]
    losses = []
    with ExitStack() as stack:
        towers = _towers(stack, setup, spec, batches, steps)
        joined = _joined_names(towers[0], spec)
        everything = joined | _slot_names(towers[0]) if slots else joined
        sums = [name for name, each in towers[0].compiled.weights.items() if each.declared == "sum"]
        for step in range(1, steps + 1):
            before = {name: towers[0].values()[name] for name in sums}
            losses.append(_loss([tower.step_parts() for tower in towers], shares))
            after = [tower.values() for tower in towers] if sums else []
            total = {name: sum((each[name] - old for each in after), old) for name, old in before.items()}
            for tower in towers if sums else ():
                tower.assign(total)
            if step % AVERAGE_EVERY == 0:
                mean = _mean([tower.values() for tower in towers], shares, everything)
                followed = {name: towers[0].values()[name] for name in towers[0].compiled.weights}
                for tower in towers:
                    tower.assign({**followed, **mean})
        values = [tower.values() for tower in towers]
    return Trajectory(tuple(losses), {**values[0], **_mean(values, shares, joined)})


def _loss(towers: Sequence[Sequence[tuple[float, float]]], shares: Sequence[float]) -> float:
    """Return the loss over the batches of all towers from the parts of it in each."""
    sums = np.tensordot(np.asarray(shares), np.asarray(towers), 1)
    return float(sum(value / weight if weight else 0.0 for value, weight in sums))


def _mean(values: Sequence[Arrays], shares: Sequence[float], names: Iterable[str]) -> dict[str, Any]:
    return {
        name: np.sum([each[name] * share for each, share in zip(values, shares, strict=True)], axis=0)
        for name in names
    }


def _joined_names(tower: Trial, spec: ir.Spec) -> set[str]:
    """Return the names of what is averaged; statistics of the first clone hold for all unless asked for."""
    return {
        name
        for name, each in tower.compiled.weights.items()
        if each.trainable or each.joined(spec.update.batch_norm) == "mean"
    }


def _slot_names(tower: Trial) -> set[str]:
    return {f"{each.weight}/{suffix}" for each in tower.compiled.variables.values() for suffix in each.slots}


def _towers(
    stack: ExitStack, setup: TrialSetup, spec: ir.Spec, batches: Sequence[int], steps: int
) -> list[Trial]:
    """Return a single tower for each clone, which reads what that clone would read.

    Towers of one size share a graph, also those of other references of the setup.
    """
    sizes = [size * spec.update.accumulate for size in batches]
    starts = np.cumsum([0, *sizes])
    towers = []
    for clone, size in enumerate(batches):
        rows = [
            step * sum(sizes) + starts[clone] + row for step in range(steps) for row in range(sizes[clone])
        ]
        own = {name: array[rows] for name, array in setup.arrays.items()}
        alone = plain_of(spec, (size,))
        if size not in setup.towers:
            setup.towers[size] = FedGraph(setup.compile(alone))
        towers.append(stack.enter_context(Trial(setup, alone, own, setup.towers[size])))
    return towers


SMALL = 1e-3
"""Below this part of the largest element of its kind, a variable counts as if it were as large.

What is zero in exact arithmetic (the gradient of a bias before a normalisation, say) is rounding alone, which
no two orders of adding have in common. An optimizer that divides by the size of gradients makes it as large
as any other; `spread` tells of which variables this is so.
"""


@frozen
class Differences:
    """The largest relative differences between two trainings."""

    weights: float
    slots: float
    losses: float
    worst: str = ""
    evaluated: float = 0.0  # the difference of the loss of an evaluation from that of the exported model
    # The variables that differ by no more than rounding moves them, and do not count.
    rounded: tuple[str, ...] = ()

    @property
    def largest(self) -> float:
        """The largest of all."""
        return max(self.weights, self.slots, self.losses, self.evaluated)

    def with_evaluated(self, found: float, expected: float) -> Differences:
        """Return the same with an evaluation's loss and that of the exported model compared."""
        evaluated = _losses((found,), (expected,))
        return evolve(
            self, evaluated=evaluated, worst="loss evaluated" if evaluated > self.largest else self.worst
        )


WITHIN = 2.0
"""How much further than between some references rounding may move a variable."""


def compare(
    found: Trajectory,
    expected: Trajectory,
    weights: Collection[str],
    moved: Mapping[str, float] | None = None,
    tolerance: float = 0.0,
) -> Differences:
    """Return the differences; `weights` names those of the values that are weights and statistics.

    Args:
        weights: The names of those values that are weights and statistics; all others are slots.
        moved: By the name of a value how far rounding moves it, as `spread` finds it; None if that is not
            known. A difference beyond the tolerance that is no larger does not count.
        tolerance: The largest relative difference that passes.

    Raises:
        ValueError: The two have different variables.
    """
    if found.values.keys() != expected.values.keys():
        raise ValueError("two trainings of one spec have different variables")
    if found.values["global_step"] != expected.values["global_step"]:
        step = f"global_step is {found.values['global_step']}, not {expected.values['global_step']}"
        return Differences(float("inf"), 0.0, 0.0, step)
    kinds: dict[str, list[str]] = {}
    for name in expected.values:
        if name != "global_step":
            kinds.setdefault("" if name in weights else name.rpartition("/")[2], []).append(name)
    by_name = {
        name: difference
        for names in kinds.values()
        for name, difference in _by_name(found.values, expected.values, names).items()
    }
    rounded = [
        name
        for name, far in (moved or {}).items()
        if by_name.get(name, 0.0) > tolerance
        and _relative(found.values[name], expected.values[name], 1.0) <= WITHIN * far
    ]
    by_name |= dict.fromkeys(rounded, 0.0)
    own = max((each for name, each in by_name.items() if name in weights), default=0.0)
    slots = max((each for name, each in by_name.items() if name not in weights), default=0.0)
    losses = _losses(found.losses, expected.losses)
    worst = max(by_name, key=lambda name: by_name[name], default="")
    worst = "loss" if losses > max(own, slots) else worst
    return Differences(own, slots, losses, worst, rounded=tuple(rounded))


def shifted(value: Any, generator: np.random.Generator, most: float) -> Any:
    """Return a weight each of whose numbers is moved by at most this part of it, if they are floats."""
    if not np.issubdtype(value.dtype, np.floating):
        return value
    return (value * (1.0 + most * generator.uniform(-1.0, 1.0, value.shape))).astype(value.dtype)


def spread(runs: Sequence[Trajectory]) -> dict[str, float]:
    """Return by the name of a value how far apart it is in several trainings that differ by rounding."""
    return {
        name: _largest(np.ptp(np.asarray([each.values[name] for each in runs], np.float64), axis=0))
        for name in runs[0].values
    }


def _by_name(found: Arrays, expected: Arrays, names: list[str]) -> dict[str, float]:
    """Return the difference of each of some variables of one kind."""
    sizes = {name: _largest(expected[name]) for name in names}
    floor = SMALL * max(sizes.values())
    return {name: _relative(found[name], expected[name], max(sizes[name], floor)) for name in names}


def _largest(array: object) -> float:
    return float(np.max(np.abs(np.asarray(array, np.float64)), initial=0.0))


def _relative(found: object, expected: object, size: float) -> float:
    difference = _largest(np.asarray(found, np.float64) - np.asarray(expected, np.float64))
    if not np.isfinite(difference):
        return float("inf")
    return difference / size if size > 0 else (0.0 if difference == 0 else float("inf"))


def _losses(found: tuple[float, ...], expected: tuple[float, ...]) -> float:
    if len(found) != len(expected):
        return float("inf")
    return max(
        (_relative(ours, theirs, abs(theirs)) for ours, theirs in zip(found, expected, strict=True)),
        default=0.0,
    )


# --- sums that are compressed -----------------------------------------------------------------------------

# Clones with shared variables compute their gradients in a first run of each step. What workers would send of
# these is compressed here, in NumPy, and the sums are given to a second run in place of its own.

Array = np.ndarray[Any, Any]


@frozen
class Cast:
    """Every value has fewer bits while it is sent, also the sum, unless it is made where it is used."""

    dtype: Any
    stays: bool = False  # whether the sum is made where it is used

    def total(self, name: str, values: Sequence[Array]) -> Array:
        """Return the sum of the gradients of workers."""
        del name
        total = np.asarray(np.sum([self.sent(each) for each in values], axis=0))
        return total if self.stays else self.sent(total)

    def sent(self, value: Array) -> Array:
        """Return a value as those have it that receive it."""
        return value.astype(self.dtype).astype(value.dtype)

    def state(self) -> dict[str, Array]:
        """Return what is kept from step to step, by its name in checkpoints."""
        return {}


@define
class PowerSGD:
    """Algorithm 1 of Vogels et al., 2019 (arXiv 1905.13727), for gradients whose columns are the last axis.

    Attributes:
        rank: The columns of the two matrices that are sent.
        columns: The matrix with which the next step begins, by the name of the gradient.
        lacking: What each worker has not sent yet of the gradient.
    """

    rank: int
    columns: dict[str, Array] = field(factory=dict)
    lacking: dict[str, list[Array]] = field(factory=dict)

    def total(self, name: str, values: Sequence[Array]) -> Array:
        """Return what workers make of the sum of their gradients."""
        shape = values[0].shape
        if values[0].dtype != np.float32 or not is_worth_it(shape, self.rank):
            return np.asarray(np.sum(values, axis=0))
        whole = [each.reshape(-1, shape[-1]) for each in values]
        if name not in self.columns:
            self.columns[name] = first_columns(name, shape, self.rank)
            self.lacking[name] = [np.zeros_like(each) for each in whole]
        whole = [each + lacking for each, lacking in zip(whole, self.lacking[name], strict=True)]
        left, upper = np.linalg.qr(np.sum([each @ self.columns[name] for each in whole], axis=0))
        left = left * np.where(np.diag(upper) < 0, -1.0, 1.0).astype(np.float32)
        right = [each.T @ left for each in whole]
        self.lacking[name] = [each - left @ own.T for each, own in zip(whole, right, strict=True)]
        self.columns[name] = np.sum(right, axis=0)
        return np.asarray((left @ self.columns[name].T).reshape(shape))

    def sent(self, value: Array) -> Array:
        """Return the rows of a table, which are sent as they are."""
        return value

    def state(self) -> dict[str, Array]:
        """Return what is kept from step to step, by its name in checkpoints."""
        return {slot_of(name): columns for name, columns in self.columns.items()}


def slot_of(name: str) -> str:
    """Return the name of the slot with the matrix of a sum, such as `logits/kernel/part_0`."""
    variable, _, part = name.rpartition("/part_")
    return f"{variable}/{NAME}" + (f"_{part}" if int(part) else "")


@frozen
class CompressedSums:
    """The sums of a graph with shared variables, as workers make them."""

    compression: Cast | PowerSGD
    workers: int
    # The name of the tensor of each sum, and those of the gradients of all clones.
    dense: Mapping[str, tuple[str, Sequence[str]]]
    rows: Sequence[str]  # the names of the tensors with sums of rows

    @classmethod
    def of(cls, compiled: CompiledGraph, call: ir.Call, workers: int, stays: bool) -> CompressedSums:
        """Return the sums of a graph, for a compression; `stays` is that of `Cast`."""
        ops, dense, rows = compiled.ledger.ops, {}, []
        for name in compiled.variables:
            for part in range(len(compiled.losses)):
                scope = f"aggregate/{name}/part_{part}" if part else f"aggregate/{name}"
                total, merged = ops.get(f"{scope}/add_n"), f"{scope}/add_n/UnsortedSegmentSum"
                if total is not None and total.type == "AddN":
                    taken = [each.name for each in total.inputs]
                    dense[f"{name}/part_{part}"] = (total.outputs[0].name, taken)
                rows += [f"{merged}:0"] if merged in ops else []
        compression = (
            Cast(tf.as_dtype(call.name).as_numpy_dtype, stays)
            if call.name in CASTS
            else PowerSGD(rank_of(call))
        )
        return cls(compression, workers, dense, rows)

    def totals(self, run: Callable[[Any], Any]) -> dict[str, Array]:
        """Compute the gradients of a step, and return the sums that are to be given to its second run."""
        clones, rows = run([{name: list(each) for name, (_, each) in self.dense.items()}, list(self.rows)])
        found = dict(zip(self.rows, map(self.compression.sent, rows), strict=True))
        for name, (total, _) in self.dense.items():
            own = len(clones[name]) // self.workers
            parts = [
                np.sum(clones[name][first : first + own], axis=0)
                for first in range(0, len(clones[name]), own)
            ]
            found[total] = self.compression.total(name, parts)
        return found
