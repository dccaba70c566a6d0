"""Rows of a table are looked up where the table is: only indices and rows travel."""

from typing import Any

import numpy as np
import pytest

from compiler.graph.inspect.placement_map import map_placement
from compiler.step.read.why import explain_placement
from tests.graphs import graph_of
from tests.support import Training, cloned, spec_of

WORDS = """
  word = input(int32, [5])
  label = input(int32, [])
  rows = word -> Embedding(100, 8, name = "table"{table})
  logits = rows -> Flatten() -> Dense(3, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
"""


def words(rules: str = "", *, optimizer: str = "SGD(0.1)", table: str = "") -> str:
    """Return the text of a model that looks words up in a table on a device of its own."""
    place = f'clones -> cpu[0..1]\nvariables("table/*") -> cpu[2]\n{rules}'
    return cloned(WORDS.format(table=table), devices=3, place=place, update=f"optimizer = {optimizer}")


def examples(count: int) -> dict[str, Any]:
    """Return examples with words that come several times."""
    generator = np.random.default_rng(3)
    return {
        "word": generator.integers(0, 20, (count, 5)).astype(np.int32),
        "label": generator.integers(0, 3, count).astype(np.int32),
    }


def table_traffic(compiled: Any, *, to_table: bool) -> dict[str, tuple[int, int]]:
    """Return tensors and bytes between the towers' devices and the table's."""
    return {
        (each.from_device if to_table else each.to_device): (each.tensors, each.bytes)
        for each in map_placement(compiled).transfers
        if (each.to_device if to_table else each.from_device) == "cpu[2]"
    }


def test_a_lookup_runs_at_its_table_and_the_table_is_not_read() -> None:
    """The gather is a `ResourceGather` on the table's device; the only reads are of other weights."""
    compiled = graph_of(spec_of(words()))
    ops = {each.name: each for each in map_placement(compiled).ops}
    for clone in (0, 1):
        gather = ops[f"clone_{clone}/table/GatherV2"]
        assert (gather.type, gather.requested, gather.role) == ("ResourceGather", "cpu[2]", "forward")
        assert (gather.rule.reason, gather.rule.text) == ("follows", "table/embeddings")
        assert gather.rule.decided_by == 'variables("table/*") -> cpu[2]'
        assert f"clone_{clone}/table/embeddings/read" not in ops
        assert f"clone_{clone}/logits/kernel/read" in ops


@pytest.mark.family(every=4)
@pytest.mark.parametrize(
    ("optimizer", "more", "by_rows"),
    [
        ("SGD(0.1)", {}, True),
        ("Adagrad(0.1)", {}, True),
        ("Adam(0.1, lazy = true)", {}, True),
        ("SGD(0.1, momentum = 0.9)", {}, False),
        ("Adam(0.1)", {}, False),
        ("SGD(0.1)", {"rules": "slots -> cpu[1]"}, True),  # it has no slots
        ("Adagrad(0.1)", {"rules": "slots -> cpu[1]"}, False),  # the table is sent there and back
        (
            "SGD(0.1)",
            {"table": ", embeddings_regularizer = L2(0.1)"},
            False,
        ),  # which makes its gradient dense
    ],
)
def test_a_table_that_is_updated_as_a_whole_is_never_put_into_the_mode_for_rows(
    optimizer: str, more: dict[str, str], by_rows: bool
) -> None:
    """In that mode TensorFlow copies the table in every dense update: its rows are gathered from a read."""
    graph = graph_of(spec_of(words(optimizer=optimizer, **more))).graph
    touching = {
        each.type
        for each in graph.get_operations()
        if any(given.op.name == "table/embeddings" for given in each.inputs)
    }
    rows = {each for each in touching if each == "ResourceGather" or "Scatter" in each}
    assert bool(rows) == by_rows
    gather = graph.get_operation_by_name("clone_0/table/GatherV2")
    assert gather.type == ("ResourceGather" if by_rows else "GatherV2")
    assert gather.inputs[0].op.type == ("VarHandleOp" if by_rows else "ReadVariableOp")


def test_a_constant_of_a_lookup_may_be_used_elsewhere() -> None:
    """Equal constants of a tower are one, here the axis of the look-up, which the metric has a use for."""
    text = (
        words(optimizer="Adam(0.1)")
        .replace("input(int32, [5])", "input(int64, [5])")
        .replace("Dense(3", "Dense(1")
    )
    text = text.replace("label = input(int32, [])", "label = input(float32, [1])")
    metric = "loss = [label, logits] -> BinaryCrossentropy(from_logits = true)\n"
    metric += "  metrics { auc = [label, logits] -> AUC(from_logits = true) }"
    text = text.replace("loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)", metric)
    arrays = {"word": examples(8)["word"].astype(np.int64), "label": np.array([[0], [1]] * 4, np.float32)}
    with Training(spec_of(text), arrays) as training:
        find = training.compiled.graph.get_operation_by_name
        users = find("clone_0/table/GatherV2/axis").outputs[0].consumers()
        assert {each.type for each in users} == {"Range", "Cumsum"}
        assert all(np.isfinite(training.steps(1)))


def test_only_indices_and_rows_travel() -> None:
    """4 examples of 5 words: 80 bytes of indices go there, 640 of rows come back, and 640 of gradients go."""
    compiled = graph_of(spec_of(words()))
    rows, indices = 4 * 5 * 8 * 4, 4 * 5 * 4
    back = table_traffic(compiled, to_table=False)
    assert back == {"cpu[0]": (1, rows), "cpu[1]": (1, rows)}
    there = table_traffic(compiled, to_table=True)
    rate = 4
    assert there == {"cpu[0]": (3, indices + rows + rate), "cpu[1]": (2, indices + rows)}


def test_a_lookup_beats_the_rule_for_its_name() -> None:
    """A rule for ops that matches the gather cannot take it from its table, and `why` says so."""
    compiled = graph_of(spec_of(words('ops("table/*") -> cpu[0]')))
    (gather,) = explain_placement(compiled.step, "clone_1/table/GatherV2")
    assert (gather.requested, gather.decider.text) == ("cpu[2]", 'variables("table/*") -> cpu[2]')
    assert [each.span.text for each in gather.beaten if each.span] == ['ops("table/*") -> cpu[0]']
    (indices,) = explain_placement(compiled.step, "clone_1/table/SelectV2")
    assert (indices.requested, indices.decider.text) == ("cpu[0]", 'ops("table/*") -> cpu[0]')
