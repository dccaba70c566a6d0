"""Bytes of look-ups in pieces for a given batch, against NumPy and what TensorFlow has sent."""

import re
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.inspect.placement_map import map_placement, sizes_for
from compiler.step.read.transfers import list_transfers
from tests.graphs import graph_of
from tests.support import Training, cloned, spec_of

WORDS = """
  word = input(int32, [5])
  label = input(int32, [])
  logits = word -> Embedding(100, 8, name = "table") -> Flatten() -> Dense(3, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
"""
PIECES = 'variables -> cpu[0], variables("table/*") -> sharded(cpu[*])'
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
    text = cloned(WORDS, devices=3, place=PIECES, update="optimizer = Adam(0.1, lazy = true)", seed=7)
    with Training(spec_of(text), data) as made:
        yield made, data


def _sent_by_tensorflow(training: Training, fetches: list[Any]) -> dict[str, int]:
    """Return the bytes of the tensors that a run has sent, by the names of ops with one output."""
    metadata = training.traced(fetches)
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
    received = _sent_by_tensorflow(made, [made.compiled.total_loss, made.compiled.train_op])
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


SERVERS = 'job "ps" { tasks = 2 }\n job "worker" { tasks = 2 }'
ON_SERVERS = 'variables -> ps[0].cpu[0], variables("table/*") -> sharded(ps[*]), updates -> ps[1].cpu[0]'


def of_worker(number: int, **more: str) -> Any:
    """Return the graph of a worker on devices of this process; gradients are summed on the second server."""
    update = "optimizer = Adam(0.1, lazy = true), replication = between_graph"
    text = cloned(WORDS, devices=SERVERS, place=ON_SERVERS, update=update, seed=7)
    spec = spec_of(text, **more)
    return graph_of(spec, emulate=True, worker=number)


def test_each_worker_with_a_graph_of_its_own_is_sent_the_rows_of_its_examples(training: Any) -> None:
    """The chief sends the sums of what both have put there; without a batch, rows are unknown."""
    chief, data = of_worker(0), training[1]
    plain, given = map_placement(chief), map_placement(chief, batch=data)
    assert sum(each.bytes_unknown for each in plain.transfers) > 0
    assert sum(each.bytes_unknown for each in given.transfers) == 0
    assert [each.tensors for each in plain.transfers] == [each.tensors for each in given.transfers]
    sent = {(each.from_device, each.to_device): each.bytes for each in given.transfers}
    for worker in range(2):
        ids = np.unique(data["word"][4 * worker : 4 * worker + 4])
        assert sent["ps[1].cpu[0]", f"worker[{worker}].cpu[0]"] == int((ids >= 50).sum()) * ROW
    ids = np.unique(data["word"])
    total = "mail/table/embeddings/shard_0/UnsortedSegmentSum:0"
    assert sizes_for(chief, data)[0][total] == int((ids < 50).sum()) * ROW


def test_a_worker_that_takes_another_number_of_examples_is_not_counted_by_guessing(training: Any) -> None:
    """Its graph differs from that of the chief."""
    uneven = of_worker(0, clones__batch="[4, 2]")
    with pytest.raises(ValueError, match=r"worker:0 takes batches of \[4\], and worker:1 .* of \[2\]"):
        sizes_for(uneven, training[1])
