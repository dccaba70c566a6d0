"""Memory forecasts, and the sizes of tensors whose rows are counted only while a step runs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

import grammar
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.step_records import record_of
from compiler.mapping.records import MapTensor
from compiler.reasons import Placed, Reason
from compiler.step.read.memory import StepMemory, forecast_memory
from compiler.step.read.rows import RowCounts
from compiler.step.record import Op, Shape, Tensor
from compiler.step.step import Ends, Step
from compiler.step.writer import StepWriter
from compiler.topology import Device
from tests.compiler.step.read.test_transfers import (
    CIFAR,
    DIGITS,
    SEVERAL_DATA,
    WAITING,
    made_up,
    several,
)
from tests.folders import EXAMPLES
from tests.graphs import graph_of
from tests.support import Training, spec_of
from tfdeploy.runtime.session.engine import peak_of_tensors


def measured_peaks(training: Training) -> dict[str, int]:
    """Return, by device of the session, the most bytes of tensors that a step had at once."""
    found = training.traced([training.compiled.data_loss, training.compiled.train_op])
    return {device.device: peak_of_tensors(device.node_stats) for device in found.step_stats.dev_stats}


@pytest.mark.parametrize(
    ("name", "inputs", "towers"),
    [
        ("digits", DIGITS, ["cpu[1]"]),
        pytest.param("cifar10", CIFAR, ["gpu[0]", "gpu[1]", "gpu[2]"], marks=pytest.mark.full),
    ],
)
def test_peak_of_a_step_is_near_what_the_allocator_counts(name: str, inputs: Any, towers: list[str]) -> None:
    """At most a seventh less; for the devices of towers at most two fifths more.

    In which order ops run differs from step to step and from tower to tower, and so does the peak: three
    steps are measured, of towers that are alike.
    """
    spec = grammar.load(EXAMPLES / f"{name}.tfdeploy")
    with Training(spec, made_up(spec, inputs), emulate=True) as training:
        training.steps(2)
        peaks = [measured_peaks(training) for _ in range(3)]
        memory = forecast_memory(training.compiled.step)
        devices = map_placement(training.compiled, memory=memory).devices
        most = max(each[device.device] for each in peaks for device in devices if device.ref in towers)
        for device in devices:
            assert device.step_bytes >= 0.85 * min(each[device.device] for each in peaks)
            if device.ref in towers:  # one process shares what real devices would each have a copy of
                assert device.step_bytes <= 1.4 * most


@pytest.mark.full
@pytest.mark.parametrize(
    "rules", ["variables -> replicated", "variables -> balanced(cpu[*])\n slots -> cpu[5]"]
)
def test_bytes_of_variables_and_slots_are_exact(rules: str) -> None:
    """What the map says of each device is what the values of its variables take, copies and averages too."""
    spec = spec_of(several(rules), update__ema="0.9")
    with Training(spec, made_up(spec, SEVERAL_DATA)) as training:
        training.steps(1)
        compiled = training.compiled
        devices = map_placement(compiled).devices
        reads = []
        for op in compiled.graph.get_operations():
            if op.type == "VarHandleOp":
                with compiled.graph.as_default(), tf.device(op.device):
                    value = tf.raw_ops.ReadVariableOp(resource=op.outputs[0], dtype=op.get_attr("dtype"))
                reads.append(value)
        held: Counter[str] = Counter()
        for read, value in zip(reads, training.session.run(reads), strict=True):
            held[read.op.device] += value.nbytes
    assert {each.device: each.variable_bytes + each.slot_bytes + each.other_bytes for each in devices} == {
        each.device: held[each.device] for each in devices
    }
    assert sum(each.slot_bytes for each in devices) > 0


@pytest.mark.full
def test_memory_is_forecast_for_devices_that_are_not_there() -> None:
    """Three GPUs, emulated or only declared, need the same; nothing is forecast unless asked for."""
    spec = grammar.load(EXAMPLES / "cifar10.tfdeploy")
    forecasts = []
    for emulate in (False, True):
        compiled = graph_of(spec, emulate=emulate)
        assert {(each.step_bytes, each.memory_bytes) for each in map_placement(compiled).devices} == {
            (None, None)
        }
        memory = forecast_memory(compiled.step)
        forecasts.append(
            [
                (each.ref, each.step_bytes, each.largest)
                for each in map_placement(compiled, memory=memory).devices
            ]
        )
        for each in map_placement(compiled, memory=memory).devices:
            held = each.variable_bytes + each.slot_bytes + each.other_bytes
            assert each.memory_bytes == held + (each.step_bytes or 0)
    assert forecasts[0] == forecasts[1]


@pytest.mark.full
def test_memory_grows_with_the_batch_where_the_towers_are() -> None:
    """Every further 1,024 examples need as much again on the GPUs, beside the variables only themselves."""
    peaks: dict[str, list[int]] = {"gpu[2]": [], "cpu[0]": []}
    for batch in ("1024", "2048", "3072"):
        compiled = graph_of(grammar.load(EXAMPLES / "cifar10.tfdeploy", [("clones.batch", batch)]))
        memory = forecast_memory(compiled.step)
        for each in map_placement(compiled, memory=memory).devices:
            if each.ref in peaks:
                peaks[each.ref].append(each.step_bytes or 0)
    first, second, third = peaks["gpu[2]"]
    assert third - second == pytest.approx(second - first, rel=0.02)
    assert second - first > 200_000_000
    examples = 3 * 1024 * 32 * 32 * 3 * 4
    assert peaks["cpu[0]"][1] - peaks["cpu[0]"][0] < 3 * examples


def test_a_device_on_which_nothing_runs_needs_nothing() -> None:
    """Its step is forecast at zero bytes, not at some other number of the simulation."""
    spec = spec_of(several(), devices__cpu="9")
    compiled = graph_of(spec, emulate=True)
    memory = forecast_memory(compiled.step)
    idle = map_placement(compiled, memory=memory).devices[8]
    assert (idle.ref, idle.ops, idle.step_bytes, idle.memory_bytes) == ("cpu[8]", 0, 0, 0)


def test_only_reads_that_wait_for_an_update_are_tensors_of_their_own() -> None:
    """What towers read copies nothing; what an average reads after the update counts, old and new."""
    text = WAITING.replace("input(float32, [3])", "input(float32, [500])")
    spec = spec_of(text.replace("Dense(1", 'Dense(400, name = "wide") -> Dense(1'), update__ema="0.9")
    compiled = graph_of(spec)
    memory = forecast_memory(compiled.step)
    (cpu, *_) = map_placement(compiled, memory=memory).devices
    kernel = 500 * 400 * 4
    large = {each.name for each in cpu.largest if each.bytes == kernel}
    reads = {f"update/wide/kernel/ReadVariableOp{suffix}:0" for suffix in ("", "_1")}
    assert reads <= large
    assert "wide/kernel/read:0" not in large
    assert 2 * kernel <= cpu.step_bytes < 4 * kernel


# --- steps that can be followed in the head ---------------------------------------------------------------

CPU, GPU = Device("cpu", 0, ordinal=0), Device("gpu", 0, ordinal=1)


class Small:
    """A small step, each of whose ops makes a vector of bytes."""

    def __init__(self) -> None:
        self.writer = StepWriter("forward")

    def op(
        self,
        name: str,
        size: int,
        *inputs: Tensor,
        kind: str = "MatMul",
        device: Device = CPU,
        waits: Iterable[str] = (),
    ) -> Tensor:
        """Write an op that makes so many bytes."""
        place = Placed(device, Reason("", "default"))
        return self.writer.write(kind, name, inputs, place, waits=waits, made=[("int8", (size,))])[0]

    def forecast(self) -> dict[str, StepMemory]:
        """Return the forecast of what has been written."""
        ops = {op.name: op for op in self.writer.ops if isinstance(op, Op)}
        plan: Any = SimpleNamespace(topology=SimpleNamespace(devices=(CPU, GPU)))
        return forecast_memory(Step(plan, ops, {}, Ends(tuple(ops)), frozenset()))

    def peaks(self) -> tuple[int, int]:
        """Return the bytes of the CPU and of the GPU."""
        return tuple(each.bytes for each in self.forecast().values())  # type: ignore[return-value]


def chain(*sizes: int, kind: str = "MatMul") -> Small:
    """Return a step of ops of which each takes what the one before has made."""
    small, last = Small(), ()
    for number, size in enumerate(sizes):
        last = (small.op("abcdef"[number], size, *last, kind=kind),)  # type: ignore[assignment]
    return small


def test_two_ops_of_a_device_run_at_a_time() -> None:
    """What an op took is there until the next one has its result; then it is given back."""
    assert chain(100, 30).peaks() == (130, 0)
    assert chain(100, 30, 7).peaks() == (137, 0)
    assert chain(100, 30, 7, 20).peaks() == (137, 0)
    assert chain(1, 30, 7, 200).peaks() == (237, 0)
    (cpu, _) = chain(1, 30, 7, 200, 5).forecast().values()
    assert cpu.largest == (MapTensor("d:0", 200), MapTensor("b:0", 30), MapTensor("c:0", 7))


def test_a_tensor_is_there_once_on_each_device_that_uses_it() -> None:
    """Until its last user has run, however many they are; what nothing takes is there for a moment."""
    small = Small()
    first = small.op("a", 100)
    for name in "bc":
        small.op(name, 1, first)
    for name in "de":
        small.op(name, 1, first, first, device=GPU)
    assert small.peaks() == (101, 101)
    (_, gpu) = small.forecast().values()
    assert gpu.largest[0] == MapTensor("a:0", 100)


def test_ops_run_in_the_order_in_which_they_become_ready() -> None:
    """The results of two chains are there at once, unless one of them waits for the other."""
    for waits, most in (((), 290), (("d",), 200)):
        small = Small()
        first = small.op("a", 100)
        small.op("c", 0, first)
        other = small.op("b", 190, waits=waits)
        small.op("d", 0, small.op("e", 0, small.op("f", 100)))
        small.op("g", 0, other)
        assert small.peaks()[0] == most + (0 if waits else 100)


@pytest.mark.parametrize(("kind", "most"), [("Relu", 100), ("AddN", 100), ("Reshape", 100), ("Cast", 200)])
def test_elementwise_ops_write_over_what_nothing_else_uses(kind: str, most: int) -> None:
    """A view needs nothing even if others use what it shows; other ops have a result of their own."""
    small = Small()
    small.op("b", 100, small.op("a", 100), kind=kind)
    assert small.peaks() == (most, 0)
    small = Small()
    first = small.op("a", 100)
    small.op("b", 100, first, kind=kind)
    small.op("c", 1, first)
    assert small.peaks() == (101 if kind == "Reshape" else 200, 0)
    small = Small()
    small.op("b", 90, small.op("a", 100), kind=kind)
    assert small.peaks() == (190, 0)


@pytest.mark.parametrize("kind", ["Const", "ReadVariableOp"])
def test_what_is_there_before_takes_memory_only_where_it_is_sent(kind: str) -> None:
    """So does what it is passed on as; a read that waits for an update is a tensor of its own."""
    small = Small()
    read = small.op("a", 100, kind=kind)
    small.op("b", 1, small.op("c", 100, read, kind="Identity"), device=GPU)
    small.op("d", 1, read)
    assert small.peaks() == (1, 101)
    small = Small()
    small.op("b", 0, small.op("a", 100, kind="ReadVariableOp", waits=[small.op("update", 0).op]))
    assert small.peaks() == (100, 0)


ROWS, WIDTH, PARTS = 10, 4, 3
PART = 4
"""A third of the rows, rounded up."""


@pytest.fixture(scope="module")
def ops() -> Mapping[str, Op]:
    """Return a graph that divides rows in three, joins two parts, and adds up rows of equal number."""
    with tf.Graph().as_default() as graph:
        rows = tf.compat.v1.placeholder(tf.float32, [ROWS, WIDTH], name="rows")
        numbers = tf.compat.v1.placeholder(tf.int32, [ROWS], name="numbers")
        where = tf.compat.v1.placeholder(tf.int32, [ROWS], name="where")
        parts = tf.dynamic_partition(rows, where, PARTS, name="parts")
        places = tf.dynamic_partition(numbers, where, PARTS, name="places")
        joined = tf.concat(parts[:2], 0, name="joined")
        found, at = tf.unique(tf.concat(places[:2], 0), name="unique")
        total = tf.math.unsorted_segment_sum(joined, at, tf.shape(found)[0], name="total")
        index = tf.cast(found, tf.int64, name="cast")[:, tf.newaxis]
        tf.scatter_nd(
            index, tf.identity(total, name="same"), tf.constant([99, WIDTH], tf.int64), name="table"
        )
        tf.concat([parts[0], parts[0]], 1, name="wide")
        tf.split(total, [tf.size(places[0]), tf.size(places[1])], name="cut")
        tf.split(total, [1, WIDTH - 1], 1, name="columns")
        some = tf.compat.v1.placeholder(tf.int32, [None], name="some")
        tf.unique(some, name="unknown")
        tf.identity(found[1:], name="fewer")
        tf.raw_ops.SparseSegmentSumGrad(
            grad=rows, indices=at, segment_ids=at, output_dim0=tf.shape(found)[0], name="copied"
        )
    return {each.name: record_of(each) for each in graph.get_operations()}


def shapes(ops: Mapping[str, Op], name: str) -> tuple[list[Shape | None], list[Shape | None]]:
    """Return the shapes of the inputs and of the outputs of an op as the forecast takes them."""
    op = RowCounts(ops).sized(ops[name])
    return [each.shape for each in op.inputs], [each.shape for each in op.outputs]


@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("parts", [(PART, WIDTH)] * PARTS),
        ("places", [(PART,)] * PARTS),
        ("joined", [(2 * PART, WIDTH)]),
        ("unique", [(2 * PART,), (2 * PART,)]),
        ("total", [(2 * PART, WIDTH)]),
        ("copied", [(2 * PART, WIDTH)]),
        ("cast", [(2 * PART,)]),
        ("strided_slice_1", [(2 * PART, 1)]),
        ("same", [(2 * PART, WIDTH)]),
        ("wide", [(None, 2 * WIDTH)]),
        ("cut", [(PART, WIDTH)] * 2),
        ("columns", [(2 * PART, 1), (2 * PART, WIDTH - 1)]),
        ("unknown", [(None,), (None,)]),
        ("fewer", [(None,)]),
    ],
)
def test_rows_are_at_most_as_many_as_before(
    ops: Mapping[str, Op], name: str, outputs: list[Shape | None]
) -> None:
    """Parts are equally large, sums of rows as many as the rows; what is not known of the input stays so."""
    assert shapes(ops, name)[1] == outputs


def test_an_op_has_the_sizes_of_what_it_reads(ops: Mapping[str, Op]) -> None:
    """Also one whose own result is known; its inputs still tell their ops and types."""
    assert shapes(ops, "table") == ([(2 * PART, 1), (2 * PART, WIDTH), (2,)], [(99, WIDTH)])
    sized = RowCounts(ops).sized(ops["table"])
    assert [(each.name, each.dtype) for each in sized.inputs] == [
        (each.name, each.dtype) for each in ops["table"].inputs
    ]


def test_an_op_without_counted_rows_is_as_it_is(ops: Mapping[str, Op]) -> None:
    """Most ops of a graph are."""
    assert RowCounts(ops).sized(ops["rows"]) is ops["rows"]
