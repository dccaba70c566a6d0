"""Gradients that are sent with fewer bits, on real processes: what a run goes on with after a break."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.tasks import Process

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("forked_tasks")]

SPEC = """
tfdeploy = 1

model "small" {
  image = input(float32, [64])
  digit = input(int32, [])
  logits = image -> Dense(32, activation = relu, name = "hidden") -> Dense(4, name = "logits")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}

data { train = synthetic(4096, image = feature(float32, [64]), digit = feature(int32, classes = 4)) }
devices { job "worker" { tasks = 2 } }
clones { batch = 16 }
update { optimizer = Momentum(0.01, momentum = 0.9), compress = power_sgd(rank = 2) }
train { steps = 12, seed = 3, deterministic = true, checkpoint_every = 3, log_every = 1 }
"""


def train(folder: Path, run: str, *more: str) -> dict[str, object]:
    """Train both workers as processes; return the result of the run."""
    arguments = ["compile-and-run", "spec.tfdeploy", "--json", "--set", f"train.directory={run}", *more]
    process = Process(["-m", "tfdeploy", *arguments], {}, folder)
    try:
        assert process.process.wait(240) == 0, process.read() or process.text
        process.read()
        found: dict[str, object] = json.loads(process.lines[-1])
    finally:
        process.close()
    return found


def test_a_run_that_goes_on_computes_what_it_would_have(tmp_path: Path) -> None:
    """To the bit, because the checkpoint also has what each worker has not sent of its gradients."""
    import tensorflow as tf

    (tmp_path / "spec.tfdeploy").write_text(SPEC)
    assert train(tmp_path, "whole")["steps"] == 12
    train(tmp_path, "parts", "--set", "train.steps=5")
    assert train(tmp_path, "parts")["steps"] == 12
    whole, parts = (
        tf.train.load_checkpoint(tf.train.latest_checkpoint(str(tmp_path / run / "checkpoints")))
        for run in ("whole", "parts")
    )
    names = set(whole.get_variable_to_shape_map())
    assert names == set(parts.get_variable_to_shape_map())
    assert {f"hidden/kernel/power_sgd_lacking/replica_{at}" for at in range(2)} <= names
    for name in names:
        np.testing.assert_array_equal(whole.get_tensor(name), parts.get_tensor(name), name)
    assert np.any(whole.get_tensor("hidden/kernel/power_sgd_lacking/replica_1"))
