"""Runs with variables in pieces: on a cluster of processes, gone on with elsewhere, and exported."""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.runtime.tasks import Process
from tfdeploy import api

SPEC = """
tfdeploy = 1

model "words" {
  word = input(int32, [5])
  label = input(int32, [])
  rows = word -> Embedding(50, 6, name = "table") -> Flatten()
  logits = rows -> Dense(3, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
  metrics { accuracy = [label, logits] -> SparseCategoricalAccuracy() }
}

data {
  train = synthetic(256, word = feature(int32, [5], classes = 50), label = feature(int32, classes = 3))
  test = synthetic(64, word = feature(int32, [5], classes = 50), label = feature(int32, classes = 3))
}

devices {
  DEVICES
}
clones { batch = 8 }

place {
  clones -> CLONES
  variables("table/*") -> sharded(SERVERS)
}

update {
  optimizer = Adam(0.01)
  ema = 0.9
  MODE
}

train {
  steps = 12
  seed = 7
}
"""


def spec_text(devices: str, clones: str, servers: str, mode: str = "") -> str:
    """Return a spec on some devices."""
    text = SPEC.replace("DEVICES", devices).replace("CLONES", clones)
    return text.replace("SERVERS", servers).replace("MODE", mode)


CLUSTER = spec_text(
    'job "ps" { tasks = 2 }\n  job "worker" { tasks = 2 }', "worker[*].cpu[0]", "ps[*]", "mode = async"
)
ONE = spec_text("cpu = 3", "cpu[0]", "cpu[*]")


@pytest.mark.full
def test_a_cluster_trains_a_table_in_pieces_and_one_machine_goes_on(tmp_path: Path) -> None:
    """Two servers hold half of the table each; the run goes on with three pieces, and exports one table.

    The tasks of the cluster are in this process; servers that are processes hold pieces in
    tests/cli/test_verify.py.
    """
    spec, run = tmp_path / "words.tfdeploy", tmp_path / "run"
    spec.write_text(CLUSTER)
    api.run(api.load(spec, {"train.directory": str(run)}), emulate=True)
    placed = json.loads((run / "placement.json").read_text())
    pieces = {each["name"]: each for each in placed["variables"] if each["shard"] is not None}
    assert {name: each["device"] for name, each in pieces.items()} == {
        "table/embeddings/shard_0": "ps[0].cpu[0]",
        "table/embeddings/shard_1": "ps[1].cpu[0]",
    }
    first = tf.train.load_checkpoint(str(run / "checkpoints"))
    shapes: dict[str, Any] = first.get_variable_to_shape_map()
    tables = {name for name in shapes if name.startswith("table/")}
    assert tables == {
        f"table/embeddings{each}" for each in ("", "/Adam", "/Adam_1", "/ExponentialMovingAverage")
    }
    assert all(shapes[name] == [50, 6] for name in tables)
    assert np.abs(first.get_tensor("table/embeddings/Adam")).max() > 0

    spec.write_text(ONE)
    loaded = api.load(spec, {"train.directory": str(run), "train.steps": 20})
    result = api.run(loaded, resume="must")
    assert (result.status, result.steps) == ("finished", 20)
    last = tf.train.load_checkpoint(str(run / "checkpoints"))
    exported = keras.saving.load_model(run / "model.keras", compile=False)
    table = next(each for each in exported.weights if each.shape == (50, 6))
    average = last.get_tensor("table/embeddings/ExponentialMovingAverage")
    assert np.array_equal(table.numpy(), average)
    assert not np.array_equal(average, first.get_tensor("table/embeddings/ExponentialMovingAverage"))
    here = api.evaluate(loaded).splits["test"]
    elsewhere = spec_text("cpu = 1", "cpu[0]", "cpu[*]")
    spec.write_text(elsewhere)
    whole = api.evaluate(api.load(spec, {"train.directory": str(run)})).splits["test"]
    assert whole.loss == pytest.approx(here.loss, rel=1e-6)
    assert whole.metrics == pytest.approx(here.metrics)


@pytest.mark.full
@pytest.mark.usefixtures("forked_tasks")
@pytest.mark.parametrize(
    ("update", "rule"),
    [
        ("mode = sync, replication = between_graph", "variables -> sharded(ps[*])"),
        ("mode = sync, replication = in_graph", 'variables("*/embeddings") -> sharded(ps[*], axis = 1)'),
        ("mode = local, replication = in_graph, average_every = 3", "variables -> sharded(ps[*])"),
        ("mode = async", "variables -> sharded(ps[*])"),
        ("mode = async, replication = in_graph", "variables -> sharded(ps[*])"),
    ],
)
def test_other_numbers_of_servers_go_on_with_all_that_was_there(
    tmp_path: Path, update: str, rule: str
) -> None:
    """Weights, slots and averages in pieces, and the place in the examples: as in a run without a break.

    Asynchronous updates come in the same order in each run if they are all of one worker.
    """
    workers = 1 if "async" in update else 2
    text = CLUSTER.replace("mode = async", update)
    spec = tmp_path / "words.tfdeploy"
    spec.write_text(text.replace('variables("table/*") -> sharded(ps[*])', rule))

    def train(run: Path, steps: int, servers: int, resume: str = "must") -> None:
        settings = {"train.directory": run, "train.steps": steps, "devices.ps.tasks": servers}
        settings |= {"devices.worker.tasks": workers}
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        process = Process(
            ["-m", "tfdeploy", "compile-and-run", str(spec), *sets, "--resume", resume], {}, tmp_path
        )
        try:
            assert process.end(240) == 0, process.text
        finally:
            process.close()

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(whole, 12, servers=2, resume="never")
    for steps, servers, resume in ((5, 3, "never"), (12, 1, "must")):
        train(broken, steps, servers, resume)
    expected, found = tf_checkpoint(whole), tf_checkpoint(broken)
    shapes: dict[str, Any] = expected.get_variable_to_shape_map()
    assert found.get_variable_to_shape_map() == shapes
    assert {"logits/kernel/Adam", "table/embeddings/ExponentialMovingAverage"} <= shapes.keys()
    for name in shapes:
        np.testing.assert_allclose(
            found.get_tensor(name), expected.get_tensor(name), rtol=1e-5, atol=1e-7, err_msg=name
        )
    manifests = [
        json.loads((run / "checkpoints" / "model.ckpt-12.json").read_text()) for run in (whole, broken)
    ]
    assert [(each["step"], each["examples"]) for each in manifests] == [(12, 12 * workers * 8)] * 2


def tf_checkpoint(run: Path) -> Any:
    """Return a reader of the newest checkpoint of a run."""
    return tf.train.load_checkpoint(str(run / "checkpoints"))
