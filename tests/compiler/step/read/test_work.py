"""The work of a step as records: the same ops, devices and bytes as in the graph and in the placement map."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.inspect.placement_map import map_placement
from compiler.process import cores, threads_on_one_machine
from compiler.step.read.transfers import list_transfers
from compiler.step.read.work import forecast_time, read_part, step_parts, timed_step
from compiler.step.read.workers import AGAIN, ENDED, WAITING, GraphPart, of_worker
from compiler.time.work import StepWork, crossings
from tests.graphs import graph_of
from tests.support import CLASSIFIER, CONVOLUTION, classifier, spec_of


@pytest.fixture(scope="module")
def compiled() -> Any:
    """Return the graph of a classifier with two clones on two CPU devices."""
    return graph_of(classifier(devices__intra_op_threads="1", devices__inter_op_threads="3"))


@pytest.fixture(scope="module")
def work(compiled: Any) -> StepWork:
    """Return the work of its step."""
    return timed_step(compiled.step)


def test_threads_are_those_that_the_spec_has(work: StepWork) -> None:
    """So many run ops, and so many work on one; one process has no others beside it."""
    assert (work.op_threads, work.inner_threads, work.task_threads) == (3, 1, {})
    assert (work.one_process, work.emulated, work.looking, work.pipelines) == (True, False, True, ())
    emulated = timed_step(graph_of(classifier(), emulate=True).step)
    assert (emulated.op_threads, emulated.one_process, emulated.emulated) == (0, True, True)


def test_every_op_of_a_step_is_there(compiled: Any, work: StepWork) -> None:
    """Each has its device, its clone and the rule that placed it."""
    assert {each.name for each in work.ops} == {each.name for each in compiled.step.run}
    for each in work.ops:
        entry = compiled.ledger.entries[each.name]
        assert (each.device, each.clone) == (entry.device, entry.clone)
        assert each.rule == entry.placed.reason.root.text
    assert work.inner_threads == 1
    assert not work.loops


def test_every_input_is_waited_for(compiled: Any, work: StepWork) -> None:
    """The arrows into an op are its inputs and control inputs."""
    into: dict[str, int] = defaultdict(int)
    for each in work.arrows:
        into[work.ops[each.target].name] += 1
    for op in compiled.step.run:
        assert into[op.name] == len(op.inputs) + len(op.waits)


def test_what_crosses_is_what_the_map_says(compiled: Any, work: StepWork) -> None:
    """The tensors that cross from device to device are those of the placement map, byte for byte."""
    expected = {(each.from_device, each.to_device): each.bytes for each in list_transfers(compiled.step)}
    assert crossing(work) == expected


def test_operations_are_those_that_tensorflow_counts(compiled: Any, work: StepWork) -> None:
    """Products and convolutions have as many operations as TensorFlow's own profiler says."""
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    counted = {}

    def note(node: Any) -> None:
        counted[node.name] = node.total_float_ops - sum(each.total_float_ops for each in node.children)
        for child in node.children:
            note(child)

    note(tf.compat.v1.profiler.profile(compiled.graph, options=options))
    heavy = [each for each in work.ops if each.signature.type in {"Conv2D", "MatMul"}]
    assert {each.signature.type for each in heavy} == {"Conv2D", "MatMul"}
    for each in heavy:
        assert each.flops == counted[each.name], each.name


def test_clones_have_equal_signatures(work: StepWork) -> None:
    """The same op of two clones is measured as one; a fused bias tells the convolution before it."""
    by_name = {each.name: each for each in work.ops}
    for each in work.ops:
        twin = by_name.get(each.name.replace("clone_0/", "clone_1/"))
        if twin is not None:
            assert twin.signature == each.signature
    bias = by_name["clone_0/conv1/BiasAdd"].signature
    assert "after Conv2D(float32[8,8,8,1], float32[3,3,1,8]" in bias.detail
    assert "padding=VALID" in bias.detail


@pytest.mark.full
def test_ops_of_micro_batches_run_several_times() -> None:
    """Ops in the loop run once for each micro-batch, those around it once; nothing waits in a circle."""
    graph = graph_of(classifier(update__accumulate="2"))
    work = timed_step(graph.step)
    times = {each.name: each.times for each in work.ops}
    assert times["clone_0/conv1/BiasAdd"] == 2
    whole = {each.name: each for each in timed_step(graph_of(classifier()).step).ops}
    inside = [each for each in work.ops if each.times > 1 and each.name in whole]
    assert len(inside) > 20
    for each in inside:  # the shapes in the loop are those of a step without one
        assert each.signature == whole[each.name].signature, each.name
        assert each.flops == whole[each.name].flops, each.name
    assert times["update/conv1/kernel/ResourceApplyGradientDescent"] == 1
    spec = classifier(update__accumulate="3", devices__kind="cpu")
    once = classifier(devices__kind="cpu")
    assert seconds(spec) > 1.5 * seconds(once)


TABLE = """
tfdeploy = 1
model "words" {
  x = input(int32, [5])
  y = input(int32, [])
  logits = x -> Embedding(40, 8) -> GlobalAveragePooling1D() -> Dense(3)
  loss = [y, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}
devices { cpu = 1 }
clones { batch = 4 }
place { variables -> cpu[0] }
"""


@pytest.mark.parametrize("rounds", [1, 3])
def test_rows_of_a_table_are_those_of_all_micro_batches(rounds: int) -> None:
    """The gradient of a table has a row for each look-up of a step, and its sum is as large as the table."""
    update = f"update {{ optimizer = Momentum(0.1, momentum = 0.9), accumulate = {rounds} }}"
    work = timed_step(graph_of(spec_of(TABLE + update)).step)
    [summed] = [each for each in work.ops if each.signature.type == "UnsortedSegmentSum"]
    assert summed.signature.inputs[0] == f"float32[{rounds * 4 * 5},8]"
    assert summed.signature.detail == "to [40,8]"  # which is a value among its inputs
    assert summed.bytes == 4 * 8 * (rounds * 4 * 5 + 40) + rounds * 4 * 5 * 4 + 8
    applied = [each for each in work.ops if each.signature.type.startswith("ResourceApply")]
    assert any("float32[40,8]" in each.signature.inputs for each in applied)


def crossing(work: StepWork) -> dict[tuple[str, str], int]:
    """Return the bytes of the tensors that cross, by the devices from which and to which they do."""
    sizes = {(each.source, each.tensor): each.bytes for each in work.arrows}
    found: dict[tuple[str, str], int] = defaultdict(int)
    for source, tensor, target in crossings(work):
        found[work.ops[source].device.ref, target.ref] += sizes[source, tensor]
    return {pair: size for pair, size in found.items() if size}


def sent_by_map(graph: Any) -> dict[tuple[str, str], int]:
    """Return the same as the placement map of a graph has it."""
    links = map_placement(graph).transfers
    return {(each.from_device, each.to_device): each.bytes for each in links if each.bytes}


def seconds(spec: Any) -> float:
    """Return the forecast time of a step by the table of hardware."""
    found = forecast_time(graph_of(spec).step, None)
    assert found.estimate
    assert sum(each.seconds for each in found.path) in (0, pytest.approx(found.seconds))
    return found.seconds


def test_faster_links_make_faster_steps() -> None:
    """On two GPUs of a known kind, `link` decides how long the gradients take."""
    text = CLASSIFIER.format(clones=2, batch=4, optimizer="SGD(0.1)", layers=CONVOLUTION)
    text = text.replace("cpu = 2", "cpu = 1\n gpu = 2\n kind = v100")
    slow, fast = (seconds(spec_of(text, devices__link=speed)) for speed in ("1MB", "10GB"))
    assert slow > 10 * fast


def test_without_figures_there_is_no_forecast(compiled: Any) -> None:
    """Nothing is guessed for a machine that is neither measured nor named."""
    assert forecast_time(compiled.step, None) is None


CLUSTER = CLASSIFIER.format(clones=2, batch=4, optimizer="SGD(0.1)", layers=CONVOLUTION).replace(
    "cpu = 2", 'job "ps" {}\n job "worker" { tasks = 2 }\n kind = cpu'
)


def between(mode: str) -> Any:
    """Return the graph of the chief of two workers, each of which has a graph of its own."""
    return graph_of(spec_of(CLUSTER, update__replication="between_graph", update__mode=f'"{mode}"'))


def test_workers_that_wait_for_each_other_make_one_step() -> None:
    """All towers run before the chief applies anything, each on its own worker, then all others go on."""
    graph = between("sync")
    work = timed_step(graph.step)
    towers = [each.device.ref for each in work.ops if each.name.endswith("conv1/BiasAdd")]
    assert towers == ["worker[0].cpu[0]", "worker[1].cpu[0]"]
    waiting = [each.device.ref for each in work.ops if each.name == WAITING]
    assert waiting == ["ps[0].cpu[0]", "worker[1].cpu[0]"]
    assert not [each for each in work.ops if each.begins]
    updates = [each for each in work.ops if each.signature.type.startswith("ResourceApply")]
    assert {each.device.ref for each in updates} == {"ps[0].cpu[0]"}
    found = forecast_time(graph.step, None)
    ends = {each.op: each.end for each in found.simulated.bars}
    starts = {each.op: each.start for each in found.simulated.bars}
    number = {id(each): at for at, each in enumerate(work.ops)}
    posted = max(ends[number[id(each)]] for each in work.ops if each.name.endswith("conv1/BiasAdd"))
    assert posted < min(starts[number[id(each)]] for each in updates)
    assert found.path
    assert sum(each.seconds for each in found.path) == pytest.approx(found.seconds)
    assert work.task_threads == threads_on_one_machine(graph.plan.spec.devices)
    assert {work.threads_of(("worker", each)) for each in (0, 1)} == {max(1, cores() // 2)}
    assert not work.looking


@pytest.mark.full
def test_the_ops_of_another_worker_are_where_its_own_graph_has_them() -> None:
    """Sums of its gradients and joined pieces are its own; pieces stay where the chief says."""
    text = CLASSIFIER.format(clones=4, batch=4, optimizer="SGD(0.1)", layers=CONVOLUTION)
    text = text.replace("cpu = 4", 'job "ps" {}\n job "worker" { tasks = 2, cpu = 2 }\n kind = cpu')
    text += "place { variables -> sharded(worker[*].cpu[0]) }"
    spec = spec_of(text, update__replication="between_graph", update__mode='"sync"')
    chief, other = (graph_of(spec, worker=each) for each in (0, 1))
    real = {name: (each.role, each.device.ref) for name, each in other.ledger.entries.items()}
    needed = chief.step.runs_by_all & np.array([op.name in real for op in chief.step.edges.ops])
    posted = {op.name for op in chief.step.edges.chosen(needed)}
    found = of_worker(chief.plan, read_part(chief.step, needed), 1).ops
    assert {each.name: each.device.ref for each in found} == {name: real[name][1] for name in posted}
    places = {real[name] for name in posted}
    own = {(role, f"worker[1].cpu[{each}]") for role in ("aggregate", "read") for each in (0, 1)}
    assert places >= own | {("read", "worker[0].cpu[0]")}


@pytest.mark.full
def test_another_worker_sends_what_its_own_graph_sends_to_variables_of_the_chief() -> None:
    """Rows and gradients cross as in its own graph, tensor by tensor, though those of the chief do not."""
    text = TABLE.replace("{ cpu = 1 }", '{ job "worker" { tasks = 2 } }').replace(
        "cpu[0]", "worker[0].cpu[0]"
    )
    spec = spec_of(
        text + "update { optimizer = Momentum(0.1, 0.9), replication = between_graph, mode = async }"
    )
    chief, other = (graph_of(spec, worker=each) for each in (0, 1))
    found, real = of_worker(chief.plan, step_parts(chief.step).chief, 1), step_parts(other.step).chief

    def sent(part: GraphPart) -> list[tuple[str, str, int]]:
        found = crossings(StepWork(part.ops, part.arrows, ()))
        return sorted((part.ops[at].device.ref, target.ref, size) for (at, _, target), size in found.items())

    assert sent(found) == sent(real)
    assert len(sent(found)) > 2
    assert not sent(step_parts(chief.step).chief)
    names = {each.name for each in real.ops}
    assert {each.name for each in found.ops if each.signature.type == "GatherV2"} <= names


def test_tasks_on_machines_of_their_own_have_all_cores_of_these() -> None:
    """The session options of the spec hold there, and threads look for work before they sleep."""
    apart = CLUSTER.replace('job "ps" {}', 'job "ps" { hosts = ["a:1"] }').replace(
        "tasks = 2", 'hosts = ["b:1", "c:1"]'
    )
    work = timed_step(graph_of(spec_of(apart)).step)
    assert not work.task_threads
    assert work.threads_of(("worker", 1)) == work.inner_threads
    assert work.looking


def test_what_workers_send_is_what_the_map_says() -> None:
    """The tensors between tasks are those of the placement map, byte for byte."""
    graph = between("sync")
    assert crossing(timed_step(graph.step)) == sent_by_map(graph)


def test_workers_that_update_alone_queue_at_the_server() -> None:
    """Each worker repeats its own ops; the updates of a variable exclude each other by its mutex."""
    graph = between("async")
    work = timed_step(graph.step)
    assert len(work.loops) == 2
    assert {work.ops[at].device.ref for at in work.loops[1]} == {"ps[0].cpu[0]", "worker[1].cpu[0]"}
    entered = [each for each in work.ops if each.enters]
    assert {each.enters for each in entered} == {each.leaves for each in work.ops if each.leaves}
    assert all(each.enters.startswith("ps[0].cpu[0]:tfdeploy/") for each in entered)
    found = forecast_time(graph.step, None)
    assert found.seconds > 0


@pytest.mark.parametrize("aggregation", ["add_n", pytest.param("ring", marks=pytest.mark.full)])
def test_workers_that_send_each_other_sums_wait_inside_of_a_step(aggregation: str) -> None:
    """What one takes out of a queue another has put there; each then applies the sums in a run of its own."""
    text = CLUSTER.replace('job "ps" {}\n ', "").replace("tasks = 2", "tasks = 3")
    graph = graph_of(spec_of(text, clones__count="3", update__aggregate=aggregation))
    work, steps = timed_step(graph.step), graph.step.everyone
    assert [step.plan.worker.index for step in steps] == [0, 1, 2]
    marks = {ENDED, AGAIN}
    assert {each.name for each in work.ops} - marks == {op.name for step in steps for op in step.run}
    assert crossing(work) == sent_by_map(graph)
    forecast = forecast_time(graph.step, None)
    starts = {each.op: each.start for each in forecast.simulated.bars}
    ends = {each.op: each.end for each in forecast.simulated.bars}
    before = {(work.ops[each.target].name, work.ops[each.source].name) for each in work.arrows}
    takes = [at for at, each in enumerate(work.ops) if each.signature.type == "QueueDequeueV2"]
    assert len(takes) == len(graph.step.crossings)
    for at in takes:
        name = work.ops[at].name
        assert (name, name.replace("/take", "/put")) in before
    updates = [at for at, each in enumerate(work.ops) if each.signature.type.startswith("ResourceApply")]
    assert {work.ops[at].device.task for at in updates} == {0, 1, 2}
    for at in updates:
        own = [take for take in takes if work.ops[take].device == work.ops[at].device]
        assert starts[at] > max(ends[take] for take in own)


def test_a_worker_alone_sends_nothing() -> None:
    """It has all weights and no other to meet; its step is made and forecast all the same."""
    text = CLUSTER.replace('job "ps" {}\n ', "").replace("tasks = 2", "tasks = 1")
    spec = spec_of(
        text + "place { variables -> replicated }", update__replication="between_graph", clones__count="1"
    )
    graph = graph_of(spec)
    assert graph.step.crossings == ()
    assert graph.exchange.inbox.drops == ()
    assert forecast_time(graph.step, None) is not None
