"""Clusters, compiled: whose graph has what, where the data comes from, and what goes over which link."""

from functools import cache
from typing import Any

import pytest
import tensorflow as tf

from compiler.graph.build import compile_graph
from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.optimizers.table import OPTIMIZERS
from compiler.mapping.records import MapTransfer
from compiler.pipeline import make_plan
from dsl import ir
from tests.support import cloned, ops_before, spec_of

MODEL = """
  x = input(float32, [4])
  label = input(int32, [])
  y = x -> Dense(3, name = "hidden") -> BatchNormalization(name = "norm") -> Dense(2, name = "logits")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
"""
READING = {"VarHandleOp", "ReadVariableOp", "ResourceGather", "FIFOQueueV2", "QueueSizeV2", "Assert"}
KERNELS = (4 * 3 + 3 + 3 + 3 + 3 * 2 + 2) * 4  # bytes of the trainable weights of MODEL


def cluster(
    *,
    servers: int = 2,
    workers: int = 2,
    cpus: int = 1,
    batch: object = 8,
    place: str = "",
    update: str = "mode = async",
    more: str = "",
) -> ir.Spec:
    """Return the spec of a small model on a cluster."""
    if "optimizer" not in update:
        update += ", optimizer = Momentum(0.1, momentum = 0.9)"
    devices = f'job "ps" {{ tasks = {servers} }}\njob "worker" {{ tasks = {workers}, cpu = {cpus} }}'
    place = f"clones -> worker[*].cpu[*]\n{place}"
    text = cloned(MODEL, None, batch=batch, devices=devices, place=place, update=update, seed=7)
    return spec_of(text + more)


def graph_of(spec: ir.Spec, worker: int = 0) -> CompiledGraph:
    """Compile the graph of one worker, or of all where one graph has them."""
    return compile_graph(make_plan(spec, emulate=True, worker=worker))


@cache
def known(worker: int = 0, **options: Any) -> CompiledGraph:
    """Return the graph of a worker of a `cluster`, made once; nothing may be added to it."""
    return graph_of(cluster(**options), worker)


def refs(compiled: CompiledGraph) -> set[str]:
    """Return the devices that have ops of a graph."""
    return {entry.device.ref for entry in compiled.ledger.entries.values()}


def between(transfers: tuple[MapTransfer, ...], source: str, target: str) -> int:
    """Return the bytes that go from devices of one job to those of another, or of one task."""
    return sum(
        each.bytes
        for each in transfers
        if each.from_device.startswith(source) and each.to_device.startswith(target)
    )


@pytest.mark.family(every=2)
@pytest.mark.parametrize("update", ["mode = async", "replication = between_graph"])
def test_a_worker_has_ops_on_itself_and_on_the_parameter_servers(update: str) -> None:
    """No graph needs another worker, and all share variables by name and device."""
    graphs = [known(worker, workers=3, update=update) for worker in range(3)]
    for number, graph in enumerate(graphs):
        assert refs(graph) == {"ps[0].cpu[0]", "ps[1].cpu[0]", f"worker[{number}].cpu[0]"}
        assert [clone.device for clone in graph.clones] == [f"worker[{number}].cpu[0]"]
    homes = [{name: each.placed().device.ref for name, each in graph.variables.items()} for graph in graphs]
    assert homes[0] == homes[1] == homes[2]
    assert set(homes[0].values()) == {"ps[0].cpu[0]", "ps[1].cpu[0]"}


@pytest.mark.family(every=3)
@pytest.mark.parametrize("update", ["mode = sync", "mode = async", "replication = between_graph"])
def test_the_global_step_is_with_the_first_parameter_server(update: str) -> None:
    """One graph or several, with three servers: it is with the first, in the graph of every worker."""
    for worker in (0, 1):
        graph = known(worker, servers=3, update=update)
        entry = graph.ledger.entries[graph.global_step.handle.op.name]
        assert (entry.device.ref, entry.placed.reason.text) == ("ps[0].cpu[0]", "global_step -> ps[0].cpu[0]")
        assert tf.compat.v1.train.get_global_step(graph.graph) is graph.global_step


def test_only_the_chief_moves_statistics_if_each_updates_by_itself() -> None:
    """The others would undo what its batches have done to them."""
    for worker, moves in ((0, True), (1, False)):
        graph = known(worker, cpus=1, update="mode = async")
        for name in ("norm/moving_mean", "norm/moving_variance"):
            users = graph.variables[name].copies[0].handle.consumers()
            changes = [op for op in users if op.type.startswith("Assign")]
            roles = {graph.ledger.entries[op.name].role for op in changes}
            assert roles == ({"init", "update"} if moves else {"init"})


@pytest.mark.parametrize("worker", [0, 1])
def test_a_worker_gives_its_part_of_the_mean_of_statistics(worker: int) -> None:
    """Its new mean and variance are multiplied by its share of the examples before they are sent."""
    update = "replication = between_graph, batch_norm = mean"
    graph = known(worker, workers=3, update=update)
    shares = [
        value
        for op in graph.graph.get_operations()
        if op.type == "Mul"
        and (entry := graph.ledger.entries.get(op.name)) is not None
        and entry.role == "aggregate"
        and (value := tf.get_static_value(op.inputs[1])) is not None
    ]
    assert shares == pytest.approx([1 / 3] * 2)


@pytest.mark.full
def test_one_graph_reads_a_shard_of_the_data_on_every_worker() -> None:
    """In one graph each worker's clones are fed beside them; with unequal workers one reads for all."""
    even = known(cpus=2, update="mode = sync")
    assert [(pipe.placed.device.ref, pipe.shard, pipe.size) for pipe in even.train_inputs] == [
        ("worker[0].cpu[0]", (0, 2), 16),
        ("worker[1].cpu[0]", (1, 2), 16),
    ]
    uneven = graph_of(cluster(batch=[8, 4], update="mode = sync"))
    assert [(pipe.placed.device.ref, pipe.shard, pipe.size) for pipe in uneven.train_inputs] == [
        ("worker[0].cpu[0]", None, 12)
    ]


def test_a_clone_may_have_a_stream_of_its_own() -> None:
    """`per_clone = shard` gives every clone a part of the data, counted over all workers."""
    data = "train = synthetic(8, x = feature(float32, [4]), label = feature(int32, classes = 2))"
    spec = cluster(servers=1, cpus=2, more=f"data {{ per_clone = shard, {data} }}")
    assert [pipe.shard for pipe in graph_of(spec, 1).train_inputs] == [(2, 4), (3, 4)]


def test_a_worker_sends_the_sum_of_its_clones_once() -> None:
    """Weights go to every clone, those of a worker together: by hand, for all workers."""
    for update, statistics in (("mode = async", 2 * 3 * 4), ("replication = between_graph", 2 * 3 * 4)):
        transfers = map_placement(known(workers=3, cpus=2, update=update)).transfers
        weights = KERNELS + statistics
        to_workers = between(transfers, "ps", "worker")
        assert 3 * 2 * KERNELS <= to_workers <= 3 * 2 * (weights + 64)
        sent = between(transfers, "worker", "ps")
        assert 3 * KERNELS <= sent <= 3 * (KERNELS + statistics + 128)
        assert between(transfers, "worker[0]", "worker[1]") == 0
    update = "replication = between_graph, compress = bfloat16"
    sent = between(map_placement(known(workers=3, cpus=2, update=update)).transfers, "worker", "ps")
    assert 3 * KERNELS // 2 <= sent <= 3 * (KERNELS // 2 + 2 * 3 * 4 + 128)


@pytest.mark.parametrize("update", ["mode = async", "mode = sync"])
def test_a_task_tells_once_that_its_updates_are_done(update: str) -> None:
    """What the first server waits for on each other server is one op, which every update there precedes."""
    step = known(cpus=1, update=update).step
    (told,) = {
        before
        for op in step.run
        for before in op.waits
        if op.device.ref == "ps[0].cpu[0]" and step.ops[before].device.ref == "ps[1].cpu[0]"
    }
    assert step.ops[told].type == "NoOp"
    elsewhere = {
        op.name
        for op in step.run
        if op.type == "ResourceApplyKerasMomentum" and op.device.ref == "ps[1].cpu[0]"
    }
    assert len(elsewhere) > 1
    assert elsewhere <= {*step.ops[told].waits}


@pytest.mark.parametrize(("rate", "sent"), [("0.1", False), ("ExponentialDecay(0.1, 10, 0.5)", True)])
def test_a_rate_that_never_changes_is_not_sent(rate: str, sent: bool) -> None:
    """Servers have it as a constant; one that follows a schedule is sent to each of them."""
    spec = cluster(update=f"mode = async, optimizer = Momentum({rate}, momentum = 0.9)")
    step = graph_of(spec).step
    updates = [each for each in step.run if each.type == "ResourceApplyKerasMomentum"]
    made = {(op.device.ref, step.ops[op.inputs[2].op].device.host != op.device.host) for op in updates}
    assert made == {("ps[0].cpu[0]", sent), ("ps[1].cpu[0]", sent)}


def test_the_map_covers_all_tasks() -> None:
    """Clones, devices and workers of all tasks are there; the ops are those of the chief's graph."""
    found = map_placement(known(workers=3, cpus=2, update="mode = async"))
    assert [(each.index, each.devices) for each in found.clones] == [
        (number, (f"worker[{number // 2}].cpu[{number % 2}]",)) for number in range(6)
    ]
    assert [(each.task, each.clones, each.listed) for each in found.workers] == [
        ("worker:0", (0, 1), True),
        ("worker:1", (2, 3), False),
        ("worker:2", (4, 5), False),
    ]
    counts = {each.ref: each.ops for each in found.devices}
    assert counts["worker[0].cpu[1]"] == counts["worker[1].cpu[1]"] == counts["worker[2].cpu[1]"] > 0
    chief, other = (
        sum(
            each.device.ref == "ps[0].cpu[0]"
            for each in known(worker, workers=3, cpus=2, update="mode = async").ledger.entries.values()
        )
        for worker in (0, 1)
    )
    assert counts["ps[0].cpu[0]"] == chief + 2 * other
    assert other < chief  # the statistics of batch normalization are moved by the chief


@pytest.mark.family(every=4)
@pytest.mark.parametrize("elsewhere", ["", "slots -> ps[1]"])
@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_nothing_is_changed_before_all_gradients_are_there(optimizer: str, elsewhere: str) -> None:
    """The chief may post and apply in one run, in which its tower reads weights, and which may fail.

    Not even the decay of weights begins before the run has seen that it need not fail.
    """
    update = f"replication = between_graph, ema = 0.9, optimizer = {optimizer}(0.1, weight_decay = 0.1)"
    spec = cluster(place=f"variables -> ps[0]\n{elsewhere}", update=update)
    compiled = graph_of(spec)
    exchange = compiled.exchange
    graph = compiled.graph
    applied, posted = (
        {*ops_before(graph.get_operation_by_name(each.name))} for each in (exchange.apply, exchange.post)
    )
    changing = [
        each
        for each in map(graph.get_operation_by_name, sorted(applied - posted))
        if each.op_def.is_stateful and each.type not in READING
    ]
    assert len(changing) > 3
    assert [each.name for each in changing if exchange.required not in ops_before(each)] == []
