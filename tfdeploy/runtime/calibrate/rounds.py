"""What rounds of steps say: the times of ops in traced steps, and what makes a simulated step take as long.

The machine is not always equally fast, so several rounds are compared.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from attrs import define, evolve, field, frozen

from compiler.time.costs import profiled_costs
from compiler.time.profile import OpCost, Profile
from compiler.time.simulation.simulate import simulate
from compiler.time.work import Signature, StepWork


@frozen
class Round:
    """Some steps without a pause."""

    seconds: float  # the median seconds of one
    processors: float  # the cores that they used, as a mean


def timed(step: Callable[[], Any]) -> float:
    """Return the seconds of a step."""
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def timed_in_turns(
    steps: Sequence[Callable[[], Any]], warm: int, number: int, between: Callable[[], Any] = lambda: None
) -> list[list[float]]:
    """Return the seconds of steps that take turns, so that all meet the machine in the same states."""
    found: list[list[float]] = [[] for _ in steps]
    for _ in range(warm + number):
        for step, seconds in zip(steps, found, strict=True):
            between()
            seconds.append(timed(step))
    return [seconds[warm:] for seconds in found]


def plain_config(inner_threads: int) -> Any:
    """Return the options of a session that runs one op at a time, and the ops as they are written."""
    from compiler.graph.session_options import helper_config

    return helper_config(inter_op_parallelism_threads=1, intra_op_parallelism_threads=inner_threads)


def quartile(values: Iterable[float]) -> float:
    """Return the lower quartile of times: what others do meanwhile only makes them longer."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 4]


def typical(rounds: Iterable[Round]) -> float:
    """Return the seconds of a step."""
    return quartile(each.seconds for each in rounds)


def cores_used(rounds: Iterable[Round]) -> float:
    """Return the upper quartile of the cores that steps used: while others have a core, steps do not."""
    return -quartile(-each.processors for each in rounds)


@define
class TracedSteps:
    """The times of the ops of a graph over several steps."""

    known: frozenset[str] = field(repr=False)
    # The seconds and the number of kernels of each op, one entry for each step.
    steps: list[dict[str, tuple[float, int]]] = field(factory=list, repr=False)

    @classmethod
    def together(cls, parts: Iterable[TracedSteps]) -> TracedSteps:
        """Return the times of the steps of all parts, which are of the same graph."""
        found = list(parts)
        return cls(found[0].known, [step for each in found for step in each.steps])

    def add(self, metadata: Any) -> None:
        """Take the times of a step from its RunMetadata."""
        seconds: dict[str, float] = defaultdict(float)
        kernels: Counter[str] = Counter()
        for device in metadata.step_stats.dev_stats:
            for each in device.node_stats:
                owner = self._owner(each.node_name)
                if owner is None:  # it brings a tensor to another device
                    continue
                seconds[owner] += max(0, each.op_end_rel_nanos - each.op_start_rel_nanos) * 1e-9
                kernels[owner] += 1
        self.steps.append({name: (seconds[name], kernels[name]) for name in seconds})

    def _owner(self, name: str) -> str | None:
        """Return the op of the graph that a kernel belongs to: itself, or the loop that it is a part of."""
        inner = name.removeprefix("Func/")
        if inner in self.known:
            return inner
        at = inner.rfind("/")
        if inner[at + 1 :].startswith("_") and inner[at + 2 :].isdigit():  # sends and receives
            return None
        while at > 0:
            if inner[:at] in self.known:
                return inner[:at]
            at = inner.rfind("/", 0, at)
        return None

    def medians(self) -> Mapping[str, tuple[float, float]]:
        """Return the median seconds and the mean number of kernels of each op that ran."""
        names = {name for step in self.steps for name in step}
        found = {}
        for name in names:
            entries = [step.get(name, (0.0, 0)) for step in self.steps]
            seconds = median(each[0] for each in entries)
            found[name] = seconds, sum(each[1] for each in entries) / len(entries)
        return found


# Makes a simulated step take as long as the real one, while a thread for each core works on it.
#
# The time until a thread that has nothing to do takes an op is the one with which the simulation is right.
# If that takes longer than the step even without this time, ops beside others were measured as too long:
# threads write their traces in turn, and the machine may have been slower just then. If it takes less time
# than the step even with the longest such time, they were measured as too short, when the machine was
# faster. Of steps without a trace there are many, so ops are then slowed by others as far as these say.

SLOWEST_HAND_OVER = 5e-5
"""The longest time until a thread is awake, in seconds. What a step takes beyond that has other causes."""

_HALVINGS = 10


def fitted(found: Profile, work: StepWork, measured: float) -> Profile:
    """Return what was measured, with hand-over and slowing by others for which the simulation is right."""
    parallel = evolve(work, inner_threads=1, op_threads=found.machine.cores)

    def is_enough(other: Profile) -> bool:
        return simulate(parallel, profiled_costs(other)).seconds + found.step_start >= measured

    def handing_over(seconds: float) -> Profile:
        return evolve(found, hand_over=seconds)

    def slowed(part: float) -> Profile:
        return evolve(found, ops=tuple(_slowed(each, part) for each in found.ops))

    def slower(more: float) -> Profile:
        slowest = handing_over(SLOWEST_HAND_OVER)
        return evolve(slowest, ops=tuple(_slower(each, more) for each in found.ops))

    if is_enough(found):
        return slowed(_least(lambda part: is_enough(slowed(part)), 1.0))
    if is_enough(handing_over(SLOWEST_HAND_OVER)):
        return handing_over(_least(lambda seconds: is_enough(handing_over(seconds)), SLOWEST_HAND_OVER))
    return slower(_least(lambda more: is_enough(slower(more)), found.machine.cores - 1.0))


def _slowed(cost: OpCost, part: float) -> OpCost:
    """Return the cost of an op that others slow by a part of what was measured."""
    return evolve(cost, crowded=cost.alone + part * (cost.crowded - cost.alone))


def _slower(cost: OpCost, more: float) -> OpCost:
    """Return the cost of an op that others slow more than was measured."""
    return evolve(cost, crowded=max(cost.alone, cost.crowded) * (1 + more))


def _least(holds: Callable[[float], bool], most: float) -> float:
    """Return the number from 0 to `most` from which on something holds; `most` if it holds for none."""
    if holds(0.0):
        return 0.0
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


# --- ops that work on the rows of a table -----------------------------------------------------------------

# Rows that are all different are put into a table by `ScatterNd`, others are added up in it. Which of the two
# a step has depends on the layout, so both are measured if a step has the second.
#
# Some of the time of such an op is that of the rows, and some that of the table: the sum of the gradients of
# rows first fills a whole table with zeros. The bytes of both do not tell how long each takes. With other
# numbers of clones or of examples, there are other numbers of rows.
#
# Between two runs of the op, a step goes through the table and its slots when it updates them, so the op
# finds little of its memory in the caches. Here too, other memory of that size is read between two runs.

ON_ROWS: Mapping[str, tuple[int, ...]] = {"GatherV2": (1,), "UnsortedSegmentSum": (0, 1)}
"""The types of these ops, each with the inputs that have a row, or the number of one, in each place."""

FACTORS = (0.5, 1.0, 2.0, 4.0)
"""How many rows are measured, as multiples of those of the step."""

OF_DISTINCT = (1.0, 4.0)
"""How many rows are put into a table that are all different, as such multiples."""

WARM, STEPS = 10, 60
UPDATED, MOST_SWEPT = 3, 1 << 28
"""The tensors of the size of a table that an update goes through, and the most bytes that are read for them:
no cache is larger."""


@frozen
class RowRatio:
    """How long an op takes with another number of rows, or one that does the same with distinct rows."""

    like: Signature  # what the time of the op of the step depends on
    signature: Signature
    flops: int  # the floating point operations with these
    bytes: int  # the bytes that are moved with these
    ratio: float  # the time, as a multiple of that of the op of the step


def ratios_by_rows(ops: Iterable[Any], inner_threads: int) -> tuple[RowRatio, ...]:
    """Measure ops on rows of a table, if their shapes are known, with other numbers of rows."""
    return tuple(each for op in ops if _is_known(op) for each in _measured(op, inner_threads))


def with_other_rows(costs: Iterable[OpCost], ratios: Iterable[RowRatio]) -> tuple[OpCost, ...]:
    """Return the costs of ops, and those of the same ops with other numbers of rows that none of them has."""
    found = {Signature(each.type, each.inputs, each.detail): each for each in costs}
    for each in ratios:
        like = found.get(each.like)
        if like is not None and each.signature not in found:
            found[each.signature] = evolve(
                like,
                type=each.signature.type,
                detail=each.signature.detail,
                inputs=each.signature.inputs,
                flops=each.flops,
                bytes=each.bytes,
                ops=0,
                alone=like.alone * each.ratio,
                crowded=like.crowded * each.ratio,
            )
    return tuple(found.values())


def _is_known(op: Any) -> bool:
    rows = [op.inputs[each] for each in ON_ROWS[op.type]]
    return (
        all(each.shape.is_fully_defined() for each in (*op.inputs, *op.outputs))
        and all(each.shape.rank and each.shape[0] > 1 for each in rows)
        and all(each.dtype.is_floating or each.dtype.is_integer for each in op.inputs)
    )


def _measured(op: Any, inner_threads: int) -> list[RowRatio]:
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default(), tf.device("/cpu:0"):
        nothing = tf.no_op()
        made = with_numbers_of_rows(op)
        swept = sweep(_table(op))
        start = tf.compat.v1.global_variables_initializer()
    with tf.compat.v1.Session(graph=graph, config=plain_config(inner_threads)) as session:
        session.run(start)
        empty, *seconds = _times(
            [session.make_callable([each]) for each in (nothing, *made)],
            session.make_callable([swept]),
        )
    return ratios_of(op, made, empty, seconds)


def with_numbers_of_rows(op: Any) -> list[Any]:
    """Make an op with each number of rows that is measured, in the current graph; then what is distinct."""
    import tensorflow as tf

    made = [_with_rows(tf, op, factor) for factor in FACTORS]
    return made + [_distinct(tf, op, factor) for factor in OF_DISTINCT if _fills_table(op)]


def ratios_of(op: Any, made: Sequence[Any], empty: float, seconds: Sequence[float]) -> list[RowRatio]:
    """Return how long other numbers of rows take, from the seconds of steps with them.

    Args:
        op: The op of the step.
        made: The ops that `with_numbers_of_rows` has made of it.
        empty: The seconds of a step that does nothing.
        seconds: Those of a step with each of the ops.
    """
    from compiler.graph.step_records import record_of
    from compiler.step.read.costs import cost_of

    same = seconds[FACTORS.index(1.0)] - empty
    like, found = cost_of(record_of(op))[0], []
    for other, taken in zip(made, seconds, strict=True):
        signature, flops, size = cost_of(record_of(other))
        if signature != like and same > 0 and taken > empty:
            found.append(RowRatio(like, signature, flops, size, (taken - empty) / same))
    return found


def _table(op: Any) -> Any:
    """Return the tensor of an op that is a whole table."""
    return op.inputs[0] if op.type == "GatherV2" else op.outputs[0]


def _fills_table(op: Any) -> bool:
    """Whether an op adds up rows of a table, each of them in the place of its number."""
    return bool(op.type == "UnsortedSegmentSum" and op.inputs[1].shape.rank == 1)


def _distinct(tf: Any, op: Any, factor: float) -> Any:
    """Make the op that puts rows which are all different into the table of a sum of rows; return it."""
    import numpy as np

    table = op.outputs[0].shape.as_list()
    rows = min(table[0], max(1, int(op.inputs[1].shape[0] * factor)))
    places = np.random.default_rng(0).permutation(table[0])[:rows, np.newaxis]
    zeros = tf.zeros([rows, *table[1:]], op.inputs[0].dtype)
    value = tf.compat.v1.Variable(zeros, use_resource=True, trainable=False)
    return tf.raw_ops.ScatterNd(
        indices=tf.constant(places, tf.int64), updates=value.read_value(), shape=tf.constant(table, tf.int64)
    ).op


def sweep(table: Any, most: int = MOST_SWEPT) -> Any:
    """Make an op that reads as much memory as the update of a table: the table, a slot, and the gradient."""
    import tensorflow as tf

    size = min(most, UPDATED * table.shape.num_elements() * table.dtype.size) // tf.float32.size
    memory = tf.compat.v1.Variable(tf.zeros([size]), use_resource=True, trainable=False)
    return tf.reduce_max(memory.read_value()).op


def _with_rows(tf: Any, op: Any, factor: float) -> Any:
    """Make the same op with another number of rows, in the current graph; return it."""
    import numpy as np

    generator = np.random.default_rng(0)
    shapes = [each.shape.as_list() for each in op.inputs]
    for each in ON_ROWS[op.type]:
        shapes[each][0] = max(1, int(shapes[each][0] * factor))
    table = shapes[0][0] if op.type == "GatherV2" else op.outputs[0].shape[0]

    def tensor(at: int) -> Any:
        dtype, shape = op.inputs[at].dtype, shapes[at]
        if dtype.is_floating:
            value = tf.compat.v1.Variable(tf.zeros(shape, dtype), use_resource=True, trainable=False)
            return value.read_value()
        if at == 1:
            return tf.constant(generator.integers(0, table, shape), dtype)
        return tf.constant(0 if op.type == "GatherV2" else table, dtype, shape)

    inputs = [tensor(at) for at in range(len(shapes))]
    if op.type == "GatherV2":
        return tf.raw_ops.GatherV2(params=inputs[0], indices=inputs[1], axis=inputs[2]).op
    return tf.raw_ops.UnsortedSegmentSum(data=inputs[0], segment_ids=inputs[1], num_segments=inputs[2]).op


def _times(steps: Sequence[Any], between: Any) -> list[float]:
    """Return the seconds of steps that take turns: the lower quartile, in which others do least."""
    return [quartile(each) for each in timed_in_turns(steps, WARM, STEPS, between)]
