"""A run that is stopped and gone on with ends with the bits of a run that never was, in every mode."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsl.diagnostics import Diagnostic
from tests.runtime.conftest import Project
from tests.runtime.train import kills
from tfdeploy.runtime.show.reporting import Quiet

EVERY = 7
STOPS = (EVERY, 2 * EVERY + 2)
"""Right after the copies have been averaged, and between two averagings."""

LOCAL = {"update__mode": "local", "update__average_every": EVERY}
BEST = {
    "train__best": 'lowest("loss")',
    "train__patience": 6,
    "train__evaluate_every": 1,  # a run that ends is evaluated, and each evaluation counts
    "update__optimizer": "Adam(0.5)",
}
NORMALIZED = '-> BatchNormalization(name = "norm")\n    -> Dropout(0.1)'
SLOTS_IN_PARTS = "place {\n  variables -> replicated\n  slots -> sharded(clones)\n}\n"
PIECES = 'place { variables("*/kernel") -> sharded(cpu[*]) }\n'
CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "local": (LOCAL, "", ""),
    "local, three unequal clones, micro-batches": (
        {**LOCAL, "clones__count": 3, "clones__batch": "[5, 8, 3]", "update__accumulate": 2},
        NORMALIZED,
        "",
    ),
    "local, slots averaged": ({**LOCAL, "update__average_slots": True}, "", ""),
    "local, mean of statistics": ({**LOCAL, "update__batch_norm": "mean"}, NORMALIZED, ""),
    "local, in pieces": ({**LOCAL, "update__optimizer": "Nadam(0.01)"}, "", PIECES),
    "local, best": ({**LOCAL, **BEST}, "", ""),
    "sync, micro-batches": ({"update__accumulate": 2}, NORMALIZED, ""),
    "sync, slots over clones": ({"update__batch_norm": "mean"}, NORMALIZED, SLOTS_IN_PARTS),
    "sync, float16": ({"update__precision": "mixed_float16"}, "", ""),
    "sync, averages": (
        {"update__ema": "EMA(0.9, warm_up = true)", "update__optimizer": "SGD(CosineDecay(0.1, 20))"},
        "",
        "",
    ),
    "sync, best": (BEST, "", ""),
}
QUICK = {"local"}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in QUICK else pytest.mark.full) for each in CASES]
)
def test_a_resumed_run_has_the_same_bits(name: str, make_project: Callable[[str], Project]) -> None:
    """Weights, copies of clones, slots, history and result are those of a run that was never stopped."""
    settings, layers, place = CASES[name]
    settings = {"train__evaluate_every": 5, "train__log_every": 1, **settings}
    calm, stopped = make_project("calm"), make_project("stopped")
    for each in (calm, stopped):
        each.write(each.spec.read_text().replace("-> Dropout(0.1)", layers or "-> Dropout(0.1)") + place)
    last = 3 * EVERY
    expected = calm.run(train__steps=last, **settings)
    for steps in (*STOPS, last):
        found = stopped.run(train__steps=steps, **settings)
    ours, theirs = stopped.variables(found.steps), calm.variables(expected.steps)
    assert found.steps == expected.steps
    assert ours.keys() == theirs.keys()
    assert [key for key in ours if ours[key].tobytes() != theirs[key].tobytes()] == []
    assert (found.best, found.test) == (expected.best, expected.test)
    scores = [
        {(line["step"], line["split"]): (line["loss"], line["metrics"]) for line in each.history()}
        for each in (calm, stopped)
    ]
    assert scores[0].items() <= scores[1].items()


@pytest.mark.full
def test_a_local_run_that_is_killed_goes_on_with_its_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed, interrupted, terminated, with a full disk, between averagings, it ends as if undisturbed."""
    more = ("--set", "update.mode=local", "--set", "update.average_every=5")
    monkeypatch.setattr(kills, "SETTINGS", (*kills.SETTINGS, *more))
    ordeal = kills.run(tmp_path, times=4, seed=5)
    assert {each.blow.way for each in ordeal.outcomes} == set(kills.WAYS)


@pytest.mark.full
def test_a_checkpoint_without_the_copies_of_the_clones(project: Project) -> None:
    """A run of another mode or number of clones is gone on with from the mean, and a warning says so."""
    warnings: list[Diagnostic] = []
    listening = Quiet(warnings.append)
    project.run(train__steps=3, **LOCAL, clones__count=3)
    mean = project.variables(3)
    project.run(train__steps=4, **LOCAL, reporter=listening)
    project.run(train__steps=5, **LOCAL, reporter=listening)
    project.run(train__steps=6, reporter=listening)
    project.run(train__steps=7, **LOCAL, reporter=listening)
    assert [(each.code, each.message.rpartition(" lacks ")[2]) for each in warnings] == [
        ("TFD737", "the copies of 2 clones"),
        ("TFD737", "the copies of 2 clones"),
    ]
    assert sorted(key for key in mean if key.startswith("logits/bias")) == [
        "logits/bias",
        "logits/bias/Adam",
        "logits/bias/Adam/replica_1",
        "logits/bias/Adam/replica_2",
        "logits/bias/Adam_1",
        "logits/bias/Adam_1/replica_1",
        "logits/bias/Adam_1/replica_2",
        "logits/bias/ExponentialMovingAverage",
        "logits/bias/replica_0",
        "logits/bias/replica_1",
        "logits/bias/replica_2",
    ]
    copies = [mean[f"logits/bias/replica_{clone}"] for clone in range(3)]
    np.testing.assert_allclose(mean["logits/bias"], np.mean(copies, axis=0), rtol=1e-5)
    assert not np.array_equal(copies[0], copies[1])
