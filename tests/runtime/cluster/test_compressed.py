"""What each worker has for itself, on real processes: what a run goes on with after a break."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

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
place { variables -> replicated }
update {
  optimizer = Momentum(0.01, momentum = 0.9)
  replication = between_graph
  compress = power_sgd(rank = 2)
}
train { steps = 12, seed = 3, deterministic = true, checkpoint_every = 3, log_every = 1 }
"""


PARTS = SPEC.replace("replicated }", "replicated\n  slots -> sharded(clones)\n}")
PARTS = PARTS.replace("compress = power_sgd(rank = 2)", "ema = 0.9")
PARTS = PARTS.replace("Momentum(0.01, momentum = 0.9)", "Nadam(0.01)").replace(
    "-> Dense(4", '-> Dense(1, name = "one") -> Dense(4'
)
"""Each worker has a part of the slots and of the averages.

The bias of a single unit has one part, and each part has a count of steps.
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


def damage_slots(prefix: str) -> None:
    """Alter a byte of the files of a checkpoint of which slots alone consist."""

    def damaged() -> set[str]:
        found = set()
        for name in tf.train.load_checkpoint(prefix).get_variable_to_shape_map():
            try:
                tf.train.load_checkpoint(prefix).get_tensor(name)
            except tf.errors.OpError:
                found.add(name)
        return found

    for path in sorted(Path(prefix).parent.glob(f"{Path(prefix).name}.data-*")):
        whole = path.read_bytes()
        for at in range(0, len(whole), max(1, len(whole) // 16)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
            if (names := damaged()) and all("/Nadam" in name for name in names):
                return
        path.write_bytes(whole)
    raise AssertionError("no byte is of slots alone")


def test_damaged_slots_of_workers_are_found_while_an_older_checkpoint_may_do(tmp_path: Path) -> None:
    """They are read when the others are there, and their damage is found before."""
    (tmp_path / "spec.tfdeploy").write_text(PARTS)
    train(tmp_path, "parts", "--set", "train.steps=6")
    damage_slots(tf.train.latest_checkpoint(str(tmp_path / "parts" / "checkpoints")))
    found = train(tmp_path, "parts", "--set", "train.steps=9")
    assert (found["status"], found["steps"], found["resumed_from"]) == ("finished", 9, 3)


LOCAL = SPEC.replace("compress = power_sgd(rank = 2)", "mode = local\n  average_every = 4")
"""Each worker trains weights of its own."""
LACKING = {f"hidden/kernel/power_sgd_lacking/replica_{at}" for at in range(2)}


@pytest.mark.parametrize(
    ("spec", "apart"),
    [
        (SPEC, LACKING),
        (PARTS, {"hidden/kernel/Nadam_2", "logits/bias/ExponentialMovingAverage"}),
        (LOCAL, {"hidden/kernel/replica_0", "hidden/kernel/replica_1", "logits/bias/Momentum/replica_1"}),
    ],
)
def test_a_run_that_goes_on_computes_what_it_would_have(tmp_path: Path, spec: str, apart: set[str]) -> None:
    """To the bit, because the checkpoint also has what each worker alone has: slots, or what it has not sent.

    A checkpoint with slots of parts is one with whole slots, with which every worker can go on, too. One with
    weights of each worker is that of one graph, and one graph goes on with it as the workers do.
    """
    (tmp_path / "spec.tfdeploy").write_text(spec)
    assert train(tmp_path, "whole")["steps"] == 12
    train(tmp_path, "parts", "--set", "train.steps=5")
    assert train(tmp_path, "parts")["steps"] == 12
    whole, parts = (
        tf.train.load_checkpoint(tf.train.latest_checkpoint(str(tmp_path / run / "checkpoints")))
        for run in ("whole", "parts")
    )
    names = set(whole.get_variable_to_shape_map())
    assert names == set(parts.get_variable_to_shape_map())
    assert apart <= names
    for name in names:
        np.testing.assert_array_equal(whole.get_tensor(name), parts.get_tensor(name), name)
    assert all(np.any(whole.get_tensor(name)) for name in apart)
    if spec is LOCAL:
        in_graph = ("--set", "update.replication=in_graph", "--set", "train.steps=15")
        train(tmp_path, "graph", *in_graph[:2])
        train(tmp_path, "parts", *in_graph)
        train(tmp_path, "whole", "--set", "train.steps=15")
        last = {
            run: tf.train.load_checkpoint(tf.train.latest_checkpoint(str(tmp_path / run / "checkpoints")))
            for run in ("whole", "parts", "graph")
        }
        for one, other in ((whole, last["graph"]), (last["whole"], last["parts"])):
            assert set(other.get_variable_to_shape_map()) == names
            for name in names:
                found, wanted = other.get_tensor(name), one.get_tensor(name)
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=name)
    if spec is PARTS:
        (tmp_path / "spec.tfdeploy").write_text(PARTS.replace("  slots -> sharded(clones)\n", ""))
        train(tmp_path, "other", "--set", "train.steps=12")
        train(tmp_path, "parts", "--set", "train.steps=15")
        other, last = (
            tf.train.load_checkpoint(tf.train.latest_checkpoint(str(tmp_path / run / "checkpoints")))
            for run in ("other", "parts")
        )
        assert last.get_tensor("global_step") == 15
        for name in names:
            np.testing.assert_allclose(other.get_tensor(name), whole.get_tensor(name), rtol=1e-5, atol=1e-6)
