"""Bytes of look-ups in pieces for a given batch, against NumPy and what TensorFlow has sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.inspect.placement_map import map_placement, sizes_for
from compiler.graph.session_options import session_config
from compiler.step.read.transfers import list_transfers
from tests.graphs import graph_of
from tests.support import Training, spec_of

WORDS = """
tfdeploy = 1
model "words" {
  word = input(int32, [5])
  label = input(int32, [])
  logits = word -> Embedding(100, 8, name = "table") -> Flatten() -> Dense(3, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}
devices { cpu = 3 }
clones { count = 2, batch = 4 }
place {
  variables -> cpu[0]
  variables("table/*") -> sharded(cpu[*])
}
update { optimizer = Adam(0.1, lazy = true) }
train { seed = 7 }
"""
EDGES = [0, 34, 67, 100]
ROW = 8 * 4


@pytest.fixture(scope="module")
def training() -> Iterator[tuple[Training, dict[str, np.ndarray]]]:
    """A model with a table in three pieces, and a batch in which ids occur several times."""
    generator = np.random.default_rng(3)
    data = {
        "word": generator.integers(0, 100, (8, 5)).astype(np.int32) // 7 * 7,
        "label": generator.integers(0, 3, 8).astype(np.int32),
    }
    with Training(spec_of(WORDS), data) as made:
        yield made, data


def _sent_by_tensorflow(session: Any, fetches: list[Any]) -> dict[str, int]:
    """Return the bytes of the tensors that a run has sent, by the names of ops with one output."""
    metadata = tf.compat.v1.RunMetadata()
    options = tf.compat.v1.RunOptions(
        trace_level=tf.compat.v1.RunOptions.FULL_TRACE, output_partition_graphs=True
    )
    session.run(fetches, options=options, run_metadata=metadata)
    made = {
        stats.node_name: stats.output
        for device in metadata.step_stats.dev_stats
        for stats in device.node_stats
    }
    found = {}
    for node in (node for graph in metadata.partition_graphs for node in graph.node if node.op == "_Recv"):
        name = re.sub(r"^edge_\d+_", "", node.attr["tensor_name"].s.decode())
        if len(made.get(name, ())) == 1:
            tensor = made[name][0].tensor_description
            found[name] = prod(each.size for each in tensor.shape.dim) * tf.as_dtype(tensor.dtype).size
    return found


def test_bytes_of_look_ups_are_those_of_the_distinct_rows_of_a_batch(training: Any) -> None:
    """For each tower and each piece, from NumPy; the same are sent in a real step."""
    made, data = training
    sent = list_transfers(made.compiled.step, named=None, sizes=sizes_for(made.compiled, data)[0])
    assert all(each.bytes_unknown == 0 for each in sent)
    found = {tensor.name.removesuffix(":0"): tensor.bytes for each in sent for tensor in each.largest}
    wanted = {}
    for clone, home in enumerate((0, 1)):
        ids = np.unique(data["word"][4 * clone : 4 * clone + 4])
        assert len(ids) < 20
        for piece in range(3):
            rows = int(((EDGES[piece] <= ids) & (ids < EDGES[piece + 1])).sum())
            if piece != home:  # what is on the device of the tower is not sent
                wanted[f"clone_{clone}/table/GatherV2/rows/shard_{piece}"] = rows * ROW
    rows = {name: size for name, size in found.items() if "/rows/shard_" in name}
    assert rows == wanted
    received = _sent_by_tensorflow(made.session, [made.compiled.total_loss, made.compiled.train_op])
    assert {name: received[name] for name in wanted} == wanted
    shared = found.keys() & received.keys()
    assert any("radient" in name for name in shared)
    assert {name: found[name] for name in shared} == {name: received[name] for name in shared}


def test_a_map_of_a_batch_has_the_same_ops_and_no_unknown_sizes(training: Any) -> None:
    """Without a batch, sizes that depend on it are counted as unknown."""
    made, data = training
    plain, given = map_placement(made.compiled), map_placement(made.compiled, batch=data)
    assert sum(each.bytes_unknown for each in plain.transfers) > 0
    assert sum(each.bytes_unknown for each in given.transfers) == 0
    assert [each.tensors for each in plain.transfers] == [each.tensors for each in given.transfers]
    assert (plain.ops, plain.variables) == (given.ops, given.variables)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"word": None}, "the batch has no array for the input 'word'"),
        ({"label": 7}, "a step takes 8 examples or more, and 'label' has 7"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(training: Any, change: dict[str, Any], words: str) -> None:
    """The input is named."""
    made, data = training
    ((name, count),) = change.items()
    batch = {each: array for each, array in data.items() if each != name or count is not None}
    if count is not None:
        batch[name] = batch[name][:count]
    with pytest.raises(ValueError, match=re.escape(words)):
        map_placement(made.compiled, batch=batch)


BETWEEN = WORDS.replace("cpu = 3", 'job "ps" { tasks = 2 }\n job "worker" { tasks = 2 }').replace(
    'variables -> cpu[0]\n  variables("table/*") -> sharded(cpu[*])',
    'variables -> ps[0].cpu[0]\n  variables("table/*") -> sharded(ps[*])\n  updates -> ps[1].cpu[0]',
)


def of_worker(number: int, **more: str) -> Any:
    """Return the graph of a worker on devices of this process; gradients are summed on the second server."""
    spec = spec_of(BETWEEN, update__replication="between_graph", **more)
    return graph_of(spec, emulate=True, worker=number)


def _open(compiled: Any, data: dict[str, np.ndarray]) -> Any:
    """Return a session of the graph of a worker, in which it is about to make a step of some examples."""
    session = tf.compat.v1.Session(graph=compiled.graph, config=session_config(compiled.plan))
    start = compiled.train_input.attach(lambda: tf.data.Dataset.from_tensors(dict(data)).repeat())
    session.run(compiled.init_op)
    session.run(compiled.exchange.coordination.open)
    session.run(start)
    return session


def _boxes(graph: Any) -> dict[str, Any]:
    """Return the handles of the mailboxes of the second worker by name."""
    ops = [op for op in graph.get_operations() if op.type == "VarHandleOp"]
    return {op.name: op.outputs[0] for op in ops if op.name.startswith("mail/") and "/worker_1/" in op.name}


def _require_map_of_both(chief: Any, data: dict[str, np.ndarray]) -> None:
    """Assert that the map has what both workers are sent; without a batch, rows are unknown."""
    plain, given = map_placement(chief), map_placement(chief, batch=data)
    assert sum(each.bytes_unknown for each in plain.transfers) > 0
    assert sum(each.bytes_unknown for each in given.transfers) == 0
    assert [each.tensors for each in plain.transfers] == [each.tensors for each in given.transfers]
    sent = {(each.from_device, each.to_device): each.bytes for each in given.transfers}
    for worker in range(2):
        ids = np.unique(data["word"][4 * worker : 4 * worker + 4])
        assert sent["ps[1].cpu[0]", f"worker[{worker}].cpu[0]"] == int((ids >= 50).sum()) * ROW


@pytest.mark.full
def test_each_worker_with_a_graph_of_its_own_sends_what_its_examples_need(training: Any) -> None:
    """That is what a step of its own graph sends; the chief sends the sums of what both have put there."""
    data, chief, other = training[1], of_worker(0), of_worker(1)
    _require_map_of_both(chief, data)
    sizes = sizes_for(chief, data)
    with (
        _open(chief, {name: array[:4] for name, array in data.items()}) as session,
        _open(other, {name: array[4:] for name, array in data.items()}) as of_other,
    ):
        session.run(chief.exchange.clear)
        wanted = [
            _sent_by_tensorflow(session, [chief.exchange.post]),
            _sent_by_tensorflow(of_other, [other.exchange.post]),
        ]
        mine = _boxes(chief.graph)
        with other.graph.as_default():
            rows = {
                name: of_other.run(tf.raw_ops.ReadVariableOp(resource=box, dtype=box.op.get_attr("dtype")))
                for name, box in _boxes(other.graph).items()
            }
        with chief.graph.as_default():
            session.run([tf.raw_ops.AssignVariableOp(resource=mine[name], value=rows[name]) for name in rows])
        wanted[0] |= _sent_by_tensorflow(session, [chief.exchange.apply])
    for found, received in zip(sizes, wanted, strict=True):
        own = {name.removesuffix(":0"): size for name, size in found.items()}
        shared = own.keys() & received.keys()
        assert {name: own[name] for name in shared} == {name: received[name] for name in shared}
        assert any("/rows/shard_" in name for name in shared)
    ids = np.unique(data["word"])
    total = "mail/table/embeddings/shard_0/UnsortedSegmentSum"
    assert wanted[0][total] == sizes[0][f"{total}:0"] == int((ids < 50).sum()) * ROW


def test_a_worker_that_takes_another_number_of_examples_is_not_counted_by_guessing(training: Any) -> None:
    """Its graph differs from that of the chief."""
    uneven = of_worker(0, clones__batch="[4, 2]")
    with pytest.raises(ValueError, match=r"worker:0 takes batches of \[4\], and worker:1 .* of \[2\]"):
        sizes_for(uneven, training[1])
