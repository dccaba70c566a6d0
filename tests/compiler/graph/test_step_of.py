"""The records of a step say of each op what its graph says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.graph.test_structure import ADAM, BETWEEN, MODEL, SERVERS, TABLE
from tests.graphs import graph_of
from tests.support import spec_of


def compiled(
    rules: str = "", update: str = ADAM, devices: str = "cpu = 3", model: str = MODEL, worker: int = 0
) -> Any:
    """Return the graph of the model with rules and an update."""
    text = model.format(found=TABLE, devices=devices, batch=4, place=rules, update=update, train="")
    return graph_of(spec_of(text), worker=worker, seed=0)


@pytest.fixture(scope="module")
def graph() -> Any:
    """Return a graph in which each clone has copies of the variables."""
    return compiled("variables -> replicated", f"{ADAM}, ema = 0.9")


def test_attributes_are_plain_values(graph: Any) -> None:
    """Numbers, texts, names of types and elements of constants; what an op lacks is missing."""
    ops = graph.step.ops
    (handle,) = (op for op in ops.values() if op.name == "last/kernel")
    assert (handle.attributes["dtype"], handle.attributes["shared_name"]) == ("float32", "last/kernel")
    assert handle.outputs[0].holds == ("float32", (8, 5))
    product = next(op for op in ops.values() if op.type == "MatMul")
    assert product.attributes["transpose_a"] is False
    assert {"T", "transpose_b"} <= {*product.attributes}
    assert len(product.attributes) == len([*product.attributes])
    assert product.attributes.get("DstT") is None
    axis = next(op for op in ops.values() if op.type == "Const" and op.outputs[0].shape == ())
    assert isinstance(axis.attributes["value"], int | float)
    values = next(op for op in ops.values() if op.type == "Const" and op.outputs[0].elements == 2)
    assert np.asarray(values.attributes["value"]).shape == (2,)


def test_variables_have_their_copies_and_slots(graph: Any) -> None:
    """Each with its handle, bytes and device; the average belongs to the first copy."""
    variable = graph.step.variables["last/kernel"]
    assert len(variable.copies) == 3
    assert {each.device.ref for each in variable.slots} == {"cpu[0]", "cpu[1]", "cpu[2]"}
    assert [each.bytes for each in variable.slots if each.name.endswith("Average")] == [8 * 5 * 4]
    handles = [*variable.copies, *(each.handle for each in variable.slots)]
    assert {graph.step.ops[each].type for each in handles} == {"VarHandleOp"}
    assert len({*handles}) == len(handles)


def test_shapes_in_a_loop_are_known() -> None:
    """Those of a tower are traced; those of rows that a loop collects are there when it has ended."""
    step = compiled(update=f"{ADAM}, accumulate = 2").step
    looped = {op.type for op in step.ops.values() if all(each.known_shape is not None for each in op.outputs)}
    assert {"MatMul", "BiasAdd", "GatherV2", "Exit"} <= looped
    ended = [op for op in step.ops.values() if op.type == "Exit"]
    assert {each.inputs[0].known_shape is None for each in ended} == {False, True}
    assert all(op.outputs[0].known_shape is not None for op in ended)


def test_assumed_sizes_are_in_the_shapes() -> None:
    """Of inputs without fixed sizes, and of what is made of them."""
    model = MODEL.replace("word = input(int32, [2])", "word = input(int32, [none])").replace(
        "seen = x", "long = word -> Embedding(7, 2) -> GlobalAveragePooling1D()\n  seen = x"
    )
    model = model.replace("[found, seen]", "[long, seen]").replace("found = {found}", "")
    found = compiled(model=model)
    gathered = next(op for op in found.sized_step.ops.values() if op.type == "GatherV2" and op.clone == 1)
    assert gathered.outputs[0].known_shape is not None
    assert not found.graph.get_tensor_by_name(gathered.outputs[0].name).shape.is_fully_defined()


@pytest.mark.parametrize(
    "rules", ["variables -> balanced(ps[*])", "variables -> balanced(worker[*])\n updates -> worker[0]"]
)
def test_what_is_of_a_worker_is_where_its_own_graph_has_it(rules: str) -> None:
    """An op that is its own is on the devices of the worker, and any other where the chief has it, too."""
    chief, other = (compiled(rules, BETWEEN, SERVERS, worker=each).step for each in (0, 1))
    assert chief.homes == other.homes
    assert chief.homes >= {op.device.host for op in chief.ops.values() if op.type == "ResourceApplyAdam"}
    own = {("worker", 0): ("worker", 1)}
    common = [name for name in chief.ops if name in other.ops and "cluster/" not in name]
    for name in common:
        op, twin = chief.ops[name], other.ops[name]
        wanted = own.get(op.device.host, op.device.host) if op.own else op.device.host
        assert (name, twin.device.host) == (name, wanted)
    assert chief.ends.only_chief
    assert not other.ends.of_chief
