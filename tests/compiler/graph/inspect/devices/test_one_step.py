"""One step of a copy of the graph shows where every op really runs, with examples that are made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from compiler.graph.inspect.one_step import made_up_batch, read_assigned, run_one_step
from compiler.graph.inspect.placement_map import map_placement
from compiler.mapping.records import PlacementMap
from tests.graphs import graph_of
from tests.support import CLASSIFIER, CONVOLUTION, Training, examples, spec_of

HERE, THERE = "/device:CPU:0", "/device:CPU:1"


def node(name: str, op: str, *inputs: str, device: str = HERE, connection: str = "") -> Any:
    """Return a node of a partition."""
    made = tf.compat.v1.NodeDef(name=name, op=op, input=inputs, device=device)
    if connection:
        made.attr["tensor_name"].s = connection.encode()
    return made


def assigned_by_hand(graph: tf.Graph, here: list[Any], there: list[Any] | None = None) -> dict[str, str]:
    """Return where the ops of a graph ran, by the partitions of two devices."""
    partitions = [SimpleNamespace(node=here), SimpleNamespace(node=there or [])]
    return read_assigned(graph, SimpleNamespace(partition_graphs=partitions))


def biased() -> tf.Graph:
    """Return a convolution with a bias and an activation."""
    with tf.Graph().as_default() as graph:
        x, w, b = (tf.compat.v1.placeholder(tf.float32, name=each) for each in "xwb")
        made = tf.raw_ops.Conv2D(input=x, filter=w, strides=[1] * 4, padding="SAME", name="conv")
        tf.nn.relu(tf.raw_ops.BiasAdd(value=made, bias=b, name="bias"), name="relu")
    return graph


def test_ops_are_where_nodes_of_their_names_are() -> None:
    """What is only in a partition is no op, and what is in none has no device."""
    found = assigned_by_hand(
        biased(), [node("x", "Placeholder"), node("new", "NoOp")], [node("w", "Placeholder", device=THERE)]
    )
    assert found == {"x": HERE, "w": THERE}


def test_fused_ops_are_where_the_op_is_that_does_their_work() -> None:
    """That has their inputs, also if these come from another device."""
    inputs = [node("x", "Placeholder"), node("b", "Placeholder")]
    fused = node("bias", "_FusedConv2D", "x", "w/received", "b")
    sent = [
        node("w", "Placeholder", device=THERE),
        node("w/sent", "_Send", "w", device=THERE, connection="edge"),
    ]
    received = node("w/received", "_Recv", connection="edge")
    found = assigned_by_hand(biased(), [*inputs, received, fused], sent)
    assert found == {"x": HERE, "b": HERE, "w": THERE, "bias": HERE, "conv": HERE}
    whole = node("relu", "_FusedConv2D", "x", "w/received", "b")
    assert assigned_by_hand(biased(), [*inputs, received, whole], sent)["conv"] == HERE
    assert assigned_by_hand(biased(), [*inputs, received, whole], sent)["bias"] == HERE


def test_an_op_is_not_fused_with_one_that_lacks_its_inputs() -> None:
    """Or that has become no other op than it was."""
    inputs = [node(each, "Placeholder") for each in "xwb"]
    assert "conv" not in assigned_by_hand(biased(), [*inputs, node("bias", "_FusedConv2D", "x", "b")])
    assert "conv" not in assigned_by_hand(biased(), [*inputs, node("bias", "BiasAdd", "x", "w", "b")])
    assert "conv" not in assigned_by_hand(biased(), [*inputs, node("bias", "_FusedConv2D", "x", "^w", "b")])


def test_copies_of_a_constant_are_where_it_is_used() -> None:
    """It is where it was asked to be if a copy is there, and else where one is."""
    with tf.Graph().as_default() as graph, tf.device(THERE):
        tf.constant([1.0], name="number")
    asked = graph.get_operation_by_name("number").device
    copies = [node("number/a", "Const"), node("number/b", "Const", device=asked)]
    assert assigned_by_hand(graph, copies) == {"number": asked}
    assert assigned_by_hand(graph, copies[:1]) == {"number": HERE}
    assert assigned_by_hand(graph, [node("number/a", "_Recv"), node("number/b", "_Send", "x")]) == {}


def test_a_loop_is_where_its_ops_are() -> None:
    """These have its name as the beginning of theirs, however deep, also as the arguments of a function."""
    with tf.Graph().as_default() as graph:
        tf.no_op(name="loop")
        tf.no_op(name="loop_1")
    deep = [node("loop/body/MatMul", "MatMul", device=THERE)]
    assert assigned_by_hand(graph, deep) == {"loop": THERE}
    assert assigned_by_hand(graph, [node("Func/loop/input/_3", "Identity", device=THERE)]) == {"loop": THERE}
    assert assigned_by_hand(graph, [node("loop", "NoOp"), *deep]) == {"loop": HERE}


FUSED = '-> Conv2D(4, 3, activation = relu, name = "conv1") -> Conv2D(4, 3, name = "conv2")'
LOOP = '-> Reshape([8, 8], name = "rows") -> LSTM(4, name = "rnn")'


def compiled(layers: str = CONVOLUTION, *, emulate: bool = True, rules: str = "", **overrides: str) -> Any:
    """Return the graph of a small classifier on two GPUs."""
    text = CLASSIFIER.format(clones=2, batch=4, optimizer="SGD(0.1)", layers=layers)
    text = text.replace("cpu = 2", "cpu = 1\n gpu = 2") + f"place {{\n {rules}\n }}\n"
    return graph_of(spec_of(text, **overrides), emulate=emulate)


def stepped(layers: str, **more: Any) -> PlacementMap:
    """Return the map of a classifier after one step."""
    graph = compiled(layers, **more)
    assigned = run_one_step(graph)
    found: PlacementMap = map_placement(graph, assigned)
    return found


def assigned(placement: PlacementMap, name: str) -> str | None:
    """Return the device that an op ran on."""
    (op,) = (each for each in placement.ops if each.name == name)
    return op.assigned


def test_the_graph_and_its_variables_stay_as_they_were() -> None:
    """The step is made on a copy: no op is added, and training begins from the same weights."""
    spec = spec_of(CLASSIFIER.format(clones=2, batch=4, optimizer="SGD(0.1)", layers=CONVOLUTION))
    losses = []
    for looked_at in (False, True):
        with Training(spec, examples(8)) as training:
            if looked_at:
                before = len(training.compiled.graph.get_operations())
                run_one_step(training.compiled)
                assert len(training.compiled.graph.get_operations()) == before
            losses.append(training.steps(3))
    assert losses[0] == losses[1]


def test_all_that_a_run_would_run_is_seen() -> None:
    """Input, towers, update, metrics, summaries, evaluation and initialisation have their devices."""
    placement = stepped(CONVOLUTION, train__summaries="all", update__ema="0.9")
    seen = {each.role for each in placement.ops if each.assigned is not None}
    roles = {"input", "variable", "read", "forward", "gradient", "aggregate", "update", "metric", "summary"}
    assert roles | {"evaluation", "init"} <= seen
    assert placement.misplaced == ()
    assert assigned(placement, "clone_1/conv1/BiasAdd") == "gpu[1]"


def test_ops_that_were_fused_into_others_are_found_by_what_took_their_place() -> None:
    """A convolution is one op with its bias, and so are their gradients: each still has its device."""
    placement = stepped(FUSED)
    for clone in (0, 1):
        for inner in ("conv1/convolution", "conv2/convolution", "gradients/conv1/BiasAdd_grad/BiasAddGrad"):
            assert assigned(placement, f"clone_{clone}/{inner}") == f"gpu[{clone}]"


@pytest.mark.full
def test_loops_are_where_all_their_ops_are() -> None:
    """A loop is replaced by the ops of its body, forward and backward; none is left behind with a weight."""
    placement = stepped(LOOP)
    for clone in (0, 1):
        for inner in ("rnn/while", "gradients/rnn/while_grad/rnn/while_grad"):
            assert assigned(placement, f"clone_{clone}/{inner}") == f"gpu[{clone}]"
    assert placement.misplaced == ()


def test_an_op_that_does_not_run_has_no_device() -> None:
    """Nobody asks whether a variable has a value: nothing is made up. Only clone 0 makes new statistics."""
    placement = stepped('-> BatchNormalization(name = "norm")')
    unseen = {each.name for each in placement.ops if each.assigned is None}
    assert "norm/gamma/IsInitialized/VarIsInitializedOp" in unseen
    assert assigned(placement, "clone_0/norm/add") == "gpu[0]"
    assert "clone_1/norm/add" not in {each.name for each in placement.ops}


def test_ops_that_soft_placement_moves_are_listed_with_both_devices() -> None:
    """Without GPUs and without emulation TensorFlow puts the towers on the CPU, and the map says so."""
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("this machine has GPUs")
    placement = stepped(CONVOLUTION, emulate=False, devices__soft_placement="true")
    moved = {each.name: (each.requested, each.assigned) for each in placement.misplaced}
    assert moved["clone_0/conv1/BiasAdd"] == ("gpu[0]", "cpu[0]")
    assert moved["clone_1/logits/MatMul"] == ("gpu[1]", "cpu[0]")
    assert moved["clone_0/conv1/convolution"] == ("gpu[0]", "cpu[0]")
    assert {each.requested for each in placement.misplaced} == {"gpu[0]", "gpu[1]"}


@pytest.mark.family(every=2)
@pytest.mark.parametrize("mode", ["async", "local"])
def test_other_modes_are_stepped_as_well(mode: str) -> None:
    """One round of every clone: all of them are seen."""
    more = {"update__average_every": "2"} if mode == "local" else {}
    placement = stepped(CONVOLUTION, update__mode=mode, **more)
    assert placement.misplaced == ()
    for clone in (0, 1):
        assert assigned(placement, f"clone_{clone}/logits/MatMul") == f"gpu[{clone}]"


def test_numbers_of_rows_are_those_of_the_smallest_table() -> None:
    """Other integers are zeros, also if something is looked up in them."""
    names = {"words": tf.int32, "label": tf.int32, "text": tf.string, "picture": tf.float32}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batch = {name: tf.compat.v1.placeholder(dtype, [64, 3], name=name) for name, dtype in names.items()}
        first, second = tf.split(batch["words"], 2)
        last = tf.where(first < 0, first + 9, first)
        for rows, numbers in ((50, second), (9, last), (5, tf.constant([0]))):
            tf.raw_ops.GatherV2(params=tf.zeros([rows, 2]), indices=numbers, axis=0)
        tf.raw_ops.GatherV2(params=batch["label"], indices=0, axis=0)
        pipe: Any = SimpleNamespace(
            wanted=[
                SimpleNamespace(name=name, dtype=dtype.name, assumed_shape=(3,))
                for name, dtype in names.items()
            ],
            batch=batch,
            size=64,
        )
        found = session.run(made_up_batch(pipe))
    assert set(found["words"].flatten()) == set(range(9))
    assert found["words"].shape == (64, 3)
    assert not found["label"].any()
    assert set(found["text"].flatten()) == {b""}
    assert 0 <= found["picture"].min() < found["picture"].max() <= 1
