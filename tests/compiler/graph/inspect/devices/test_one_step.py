"""One step of a copy of the graph shows where every op really runs, with examples that are made up."""

from typing import Any

import pytest
import tensorflow as tf

from compiler.graph.inspect.one_step import run_one_step
from compiler.graph.inspect.placement_map import map_placement
from compiler.mapping.records import PlacementMap
from tests.graphs import graph_of
from tests.support import CLASSIFIER, CONVOLUTION, Training, examples, spec_of

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
    """A step restores no checkpoint: nothing is made up. Only clone 0 makes new statistics."""
    placement = stepped('-> BatchNormalization(name = "norm")')
    unseen = {each.name for each in placement.ops if each.assigned is None}
    assert "norm/gamma/Read/ReadVariableOp" in unseen
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
