"""The evaluation tower, its weights and penalties, and summaries of what a step applies."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.compiled import CompiledGraph
from tests.graphs import graph_of
from tests.models import data, model
from tests.support import Training


def compiled(place: str = "", **overrides: Any) -> CompiledGraph:
    """Return the graph of two clones on three devices."""
    return graph_of(model("dense", clones=2, devices=3, batch=4, place=place, **overrides))


@pytest.mark.parametrize(
    ("overrides", "own"),
    [
        ({"model__regularize": "L2(0.1)"}, False),
        ({"model__regularize": "L2(0.1)", "update__ema": "0.9"}, True),
        ({"update__ema": "0.9"}, False),  # there is no penalty
    ],
)
def test_the_penalty_is_that_of_the_weights_that_are_evaluated(
    overrides: dict[str, str], *, own: bool
) -> None:
    """It is not computed again if training reports that of the same weights."""
    graph = compiled(**overrides)
    found = graph.evaluation.regularization
    assert (found is not graph.regularization) == own
    if own:
        assert (found.op.name, found.op.type, len(found.op.inputs)) == (
            "evaluation/regularization",
            "AddN",
            2,
        )


@pytest.mark.parametrize(("place", "device"), [("", "cpu[0]"), ("evaluation -> cpu[2]", "cpu[2]")])
def test_it_is_where_the_rule_says(place: str, device: str) -> None:
    """By default with clone 0. All that it computes has its role, and no clone."""
    graph = compiled(place)
    entries = {
        name: each for name, each in graph.ledger.entries.items() if name.startswith("evaluation/logits/")
    }
    assert len(entries) > 3
    assert {each.device.ref for name, each in entries.items() if not name.endswith("/read")} == {device}
    assert {(each.role, each.clone) for each in entries.values()} == {("evaluation", None)}
    count = graph.evaluation.count
    assert (count.dtype.name, count.shape.rank) == ("int64", 0)
    assert graph.ledger.entries[count.op.name].device.ref == device


RATE = 0.5
SETTINGS = {
    "train__summaries": "gradients",
    "model__regularize": "L2(0.1)",
    "update__clip": "global_norm(0.2)",
    "optimizer": f"SGD({RATE})",
}
WEIGHTS = ("hidden/kernel", "hidden/bias", "logits/kernel", "logits/bias")


def shown(summary: bytes) -> dict[str, Any]:
    """Return the values of a summary by their tags: numbers, and of histograms the sum of squares."""
    found = tf.compat.v1.Summary.FromString(summary)
    return {
        each.tag.removeprefix("summary/"): each.histo.sum_squares
        if each.HasField("histo")
        else each.simple_value
        for each in found.value
    }


@pytest.mark.family(every=2)
@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"clones": 3, "batch": (12, 5, 7), "update__precision": "mixed_float16"},
        {"clones": 2, "batch": 12, "place": "variables -> replicated"},
        {"clones": 2, "batch": 6, "update__accumulate": "2"},
        {"clones": 2, "batch": 24, "update__mode": "local", "update__average_every": "9"},
    ],
    ids=["one", "float16", "replicated", "rounds", "local"],
)
def test_gradients_are_those_that_are_applied(layout: dict[str, Any]) -> None:
    """Every weight moves by the learning rate times the gradient that is shown; its norm is shown as well."""
    spec = model("dense", **{**SETTINGS, **layout})
    local = "update__mode" in layout
    with Training(spec, data("dense", 48)) as training:
        first = {name: training.compiled.variables[name].copies[0] for name in WEIGHTS}
        with training.compiled.graph.as_default():
            reads = {
                name: tf.raw_ops.ReadVariableOp(resource=each.handle, dtype=each.dtype)
                for name, each in first.items()
            }
        before = training.session.run(reads)
        summary, _ = training.session.run([training.compiled.summary_op, training.compiled.train_op])
        after = training.session.run(reads)
    values = shown(summary)
    for name in WEIGHTS:
        norm = float(np.linalg.norm(before[name] - after[name])) / RATE
        assert norm > 1e-3
        assert values[f"{name}/gradient_norm"] == pytest.approx(norm, rel=1e-4), name
        assert values[f"gradients/{name}"] == pytest.approx(norm**2, rel=1e-3), name
    clones = [values[f"clone_{number}/clone_loss"] for number in range(layout.get("clones", 1))]
    assert min(clones) > 0
    assert local or values["loss"] == pytest.approx(
        np.average(
            clones, weights=layout.get("batch", 24) if isinstance(layout.get("batch"), tuple) else None
        )
        + values["regularization_loss"],
        rel=1e-3,
    )


def test_a_step_that_is_skipped_shows_that_nothing_is_applied() -> None:
    """Gradients that overflow in 16 bits are no fault of the summary: zeros are shown."""
    spec = model("dense", train__summaries="gradients", update__precision="mixed_float16")
    arrays = data("dense")
    arrays["x"][:] = 1e30
    with Training(spec, arrays) as training:
        summary, applied, _ = training.session.run(
            [training.compiled.summary_op, training.compiled.applied, training.compiled.train_op]
        )
    assert not applied
    assert [shown(summary)[f"{name}/gradient_norm"] for name in WEIGHTS] == [0.0] * 4


SCOPED = """
import keras
import tensorflow as tf

class Twice(keras.metrics.Sum):
    def update_state(self, y_true, y_pred, sample_weight=None):
        with tf.name_scope("part"):
            self.total.assign_add(tf.reduce_sum(y_pred) + 1.5)

    def result(self):
        with tf.name_scope("part"):
            return tf.reduce_sum(tf.stack([2.0 * self.total.value, 1.5]))
"""


def test_a_metric_may_use_a_scope_twice(tmp_path: Path) -> None:
    """The ops of a lone tower have no scope of their own, and those of the result are beside them."""
    (tmp_path / "scoped.py").write_text(SCOPED)
    spec = model("dense", model__metrics__accuracy='[class, logits] -> python("scoped:Twice")')
    with Training(spec, data("dense"), base=str(tmp_path)) as training:
        twice, logits = training.session.run(
            [training.compiled.metrics["accuracy"].result, training.compiled.clones[0].outputs]
        )
    assert twice == pytest.approx(2 * (logits.sum() + 1.5) + 1.5, rel=1e-4)


def test_metrics_of_micro_batches_in_stages_have_names_of_their_own() -> None:
    """Their constants, which all micro-batches share, are beside the result."""
    spec = model(
        "dense",
        devices=2,
        place="clones -> groups(cpu[*], size = 2)",
        update__accumulate="2",
        update__schedule="gpipe",
        model__metrics__accuracy="[class, logits] -> MeanIoU(num_classes = 5, sparse_y_pred = false)",
    )
    with Training(spec, data("dense", 48)) as training:
        assert 0 <= training.session.run(training.compiled.metrics["accuracy"].result) <= 1
