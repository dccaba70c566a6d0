"""Backup workers: a step, and what summaries show of it, are those of one tower over what counted."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.build import compile_graph
from compiler.graph.compiled import CompiledGraph
from compiler.graph.session_options import session_config
from compiler.graph.tower.traces import Traces
from compiler.pipeline import make_plan
from tests.compiler.graph.scores.test_scores import shown
from tests.support import Training, cloned, largest_difference, spec_of
from tfdeploy.runtime.cluster.server import loopback_server

WORKERS, BATCH = 3, 4
ROUNDING = 2e-5
TAGGER = """
tfdeploy = 1
model "tagger" {{
  words = input(int32, [6])
  tags = input(int32, [6])
  length = input(float32, [1])
  table = words -> Embedding(20, 4, name = "table")
  y = table -> Dense(5, name = "tag")
  size = table -> GlobalAveragePooling1D() -> Dense(1, name = "size")
  output = y
  loss = ([tags, y] -> {masked}) + ([length, size] -> MeanSquaredError())
  metrics {{ accuracy = [tags, y] -> SparseCategoricalAccuracy() }}
}}
{parts}
train {{ seed = 7, summaries = all }}
"""
MASKED = "SparseCategoricalCrossentropy(from_logits = true, ignore_class = 0)"
LENGTHS = (6, 1, 2, 1, 5, 3, 1, 6, 4, 1, 1, 2)  # each worker has another number of words
UPDATE = "optimizer = Adam(0.01), clip = global_norm(0.1)"


def sentences() -> dict[str, Any]:
    """Return two batches for each worker: sentences of uneven lengths, zeros behind them."""
    generator = np.random.default_rng(5)
    lengths = np.resize(LENGTHS, 2 * WORKERS * BATCH)
    there = np.arange(6) < lengths[:, None]
    return {
        "words": (generator.integers(1, 20, there.shape) * there).astype(np.int32),
        "tags": (generator.integers(1, 5, there.shape) * there).astype(np.int32),
        "length": lengths[:, None].astype(np.float32) / 6,
    }


def batches_of(worker: int, arrays: dict[str, Any], spoiled: int) -> dict[str, Any]:
    """Return a worker's two batches; the targets of batch number `spoiled` are not numbers, if it has one."""
    rows = np.arange(len(arrays["words"])).reshape(2, WORKERS, BATCH)[:, worker]
    own = {name: array[rows].copy() for name, array in arrays.items()}
    if spoiled >= 0:
        own["length"][spoiled] = np.nan
    return own


def started(graph: CompiledGraph, target: str, own: dict[str, Any], stack: ExitStack) -> Any:
    """Return a session of a worker on the server that all share, with the worker's data."""
    session = tf.compat.v1.Session(target, graph=graph.graph, config=session_config(graph.plan, served=True))
    stack.enter_context(session)
    return session, graph.train_input.attach(lambda: tf.data.Dataset.from_tensor_slices(own))


def steps_of(
    text: str,
    examples: Sequence[dict[str, Any]],
    counted: Sequence[Sequence[float]],
    shown_of: Callable[[CompiledGraph], Sequence[Any]],
) -> tuple[list[Any], dict[str, Any]]:
    """Make a step for each list of those that count; return what each shows, and the variables at the end."""
    spec = spec_of(text)
    plans = [make_plan(spec, emulate=True, worker=worker) for worker in range(WORKERS)]
    server = loopback_server(session_config(plans[0], served=True))
    with ExitStack() as stack:
        traces = Traces(".")
        graphs = [compile_graph(plan, traces=traces) for plan in plans]
        workers = [
            started(graph, server.target, own, stack) for graph, own in zip(graphs, examples, strict=True)
        ]
        chief, (session, _) = graphs[0], workers[0]
        exchange = chief.exchange
        for op in (chief.init_op, exchange.clear, exchange.coordination.open):
            session.run(op)
        for own, start in workers:
            own.run(start)
        found = []
        for present in counted:
            for graph, (own, _) in zip(graphs, workers, strict=True):
                own.run(graph.exchange.post)
            found.append(session.run([*shown_of(chief), exchange.apply], {exchange.present: present}))
        return found, session.run(dict(chief.saved))


def assert_same_summary(summary: bytes, expected: bytes) -> None:
    """The loss, the gradients that are applied, and the weights before the step are those of one tower."""
    found, wanted = shown(summary), shown(expected)
    names = {name for name in wanted if not name.startswith("clone_")}
    assert {"loss", "gradients/tag/kernel", "tag/kernel/gradient_norm", "weights/tag/kernel"} <= names
    assert names <= found.keys()
    for name in names:
        np.testing.assert_allclose(found[name], wanted[name], rtol=10 * ROUNDING, atol=1e-7, err_msg=name)


@pytest.mark.full
def test_what_a_spared_worker_leaves_counts_for_nothing() -> None:
    """Each step spares another worker, whose part is not a number: all that is shown agrees."""
    arrays, counted = sentences(), ([1.0, 0.0, 1.0], [1.0, 1.0, 0.0])
    rows = np.arange(len(arrays["words"])).reshape(2, WORKERS, BATCH)
    kept = np.concatenate([rows[step][np.array(present) > 0].ravel() for step, present in enumerate(counted)])
    single = f"devices {{ cpu = 1 }}\nclones {{ batch = {2 * BATCH} }}\nupdate {{ {UPDATE} }}"
    examples = {name: array[kept] for name, array in arrays.items()}
    with Training(spec_of(TAGGER.format(masked=MASKED, parts=single)), examples) as tower:
        train, accuracy = tower.compiled, tower.compiled.metrics["accuracy"].result
        fetches = [train.total_loss, train.data_loss, accuracy, train.summary_op, train.train_op]
        expected = [tower.session.run(fetches) for _ in counted]
        values = tower.values()

    several = (
        f'devices {{ job "ps" {{ tasks = 1 }}\n job "worker" {{ tasks = {WORKERS} }} }}\n'
        f"clones {{ batch = {BATCH} }}\n"
        f"update {{ {UPDATE}, replication = between_graph, backup = 1 }}"
    )
    spoiled = [-1, 0, 1]  # the batch of each worker that does not count
    own = [batches_of(worker, arrays, spoiled[worker]) for worker in range(WORKERS)]

    def shown_of(chief: CompiledGraph) -> list[Any]:
        return [chief.total_loss, chief.data_loss, chief.metrics["accuracy"].result, chief.summary_op]

    found, trained = steps_of(TAGGER.format(masked=MASKED, parts=several), own, counted, shown_of)
    for here, there in zip(found, expected, strict=True):
        np.testing.assert_allclose(here[:3], there[:3], rtol=ROUNDING)
        assert_same_summary(here[3], there[3])
    assert largest_difference(trained, values) < ROUNDING


@pytest.mark.family(every=2)
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_statistics_are_means_over_those_that_are_there(reduce: str) -> None:
    """Whether gradients are added or averaged: half of the mean of 1 and 3, and of that of no variance."""
    model = """
  x = input(float32, [2])
  y = x -> BatchNormalization(momentum = 0.5, name = "norm") -> Dense(2)
  loss = [x, y] -> MeanSquaredError()
"""
    devices = f'job "ps" {{ tasks = 1 }}\njob "worker" {{ tasks = {WORKERS} }}'
    update = "optimizer = SGD(0.1), replication = between_graph, backup = 1, batch_norm = mean"
    text = cloned(model, None, batch=BATCH, devices=devices, update=f"{update}, reduce = {reduce}")
    examples = [{"x": np.full((1, BATCH, 2), worker + 1, np.float32)} for worker in range(WORKERS)]
    _, trained = steps_of(text, examples, [[1.0, 0.0, 1.0]], lambda _: [])
    np.testing.assert_allclose(trained["norm/moving_mean"], [1.0, 1.0], rtol=ROUNDING)
    np.testing.assert_allclose(trained["norm/moving_variance"], [0.5, 0.5], rtol=ROUNDING)
