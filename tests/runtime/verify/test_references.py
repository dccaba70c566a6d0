"""What graphs are compared with, on towers that only hold numbers, without random numbers."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from compiler.graph.tower.template import WeightInfo
from compiler.model.graph import LayerNode, ModelGraph
from dsl import ir
from tfdeploy.runtime.verify import compare
from tfdeploy.runtime.verify.examples import without_randomness
from tfdeploy.runtime.verify.trial import Trial, TrialSetup

WEIGHTS = {
    "kernel": WeightInfo("kernel", (), "float32", 4, True),
    "mean": WeightInfo("mean", (), "float32", 4, False),
    "count": WeightInfo("count", (), "int32", 4, False),
}
VARIABLES = {"kernel": SimpleNamespace(weight="kernel", slots={"momentum": None})}


class Tower:
    """A tower that trains nothing."""

    compiled = SimpleNamespace(weights=WEIGHTS, variables=VARIABLES)

    def __init__(self, kernel: float, mean: float, *, adds: float = 0.0) -> None:
        self.held = {"kernel": kernel, "mean": mean, "count": 3, "kernel/momentum": kernel / 10}
        self.adds = adds
        self.steps = 0

    def step(self) -> float:
        """Train, and return a loss that tells which step of which tower it is of."""
        self.steps += 1
        self.held = {name: each + self.adds for name, each in self.held.items()}
        return self.steps + self.adds / 1000

    def step_parts(self) -> list[tuple[float, float]]:
        """Return the parts of a loss: values with weights, of which the second part has none."""
        return [(self.held["kernel"], 2.0), (self.held["mean"], 0.0)]

    def values(self) -> dict[str, float]:
        """Return all weights."""
        return dict(self.held)

    def assign(self, values: dict[str, float]) -> None:
        """Take other weights."""
        self.held = dict(values)


SETUP: Any = None


@pytest.mark.parametrize(
    ("statistics", "slots", "mean", "momenta"),
    [
        ("first", False, 10.0, [None, None]),
        ("mean", False, 17.5, [None, None]),
        ("mean", True, 17.5, [0.4, 0.4]),
    ],
)
def test_averages_are_weighted_by_examples(
    monkeypatch: pytest.MonkeyPatch, statistics: Any, *, slots: bool, mean: float, momenta: list[float | None]
) -> None:
    """Clones of 2 and of 6 examples; statistics are those of the first clone, unless means are asked for.

    Whole numbers are never averaged, and slots only if that is asked for; otherwise each clone keeps its own,
    and those of the first are what is left in the end.
    """
    towers = [Tower(1.0, 10.0), Tower(5.0, 20.0)]
    towers[1].held["count"] = 7
    monkeypatch.setattr(compare, "_towers", lambda *_: towers)
    spec = ir.Spec(ir.Model("m"), update=ir.Update(batch_norm=statistics))
    found = compare.averaged_towers(SETUP, spec, (2, 6), compare.AVERAGE_EVERY, slots=slots)
    assert found.losses == (4.0 / 2.0,) * compare.AVERAGE_EVERY  # what has no weight counts nothing
    for tower, momentum in zip(towers, momenta, strict=True):
        expected = {"kernel": 4.0, "mean": mean, "count": 3}
        assert tower.held == pytest.approx(
            expected if momentum is None else {**expected, "kernel/momentum": momentum}
        )


def test_towers_are_averaged_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """After as many steps as the spec says, and what is left in the end is averaged once more."""
    towers = [Tower(1.0, 10.0), Tower(5.0, 20.0)]
    monkeypatch.setattr(compare, "_towers", lambda *_: towers)
    spec = ir.Spec(ir.Model("m"), update=ir.Update(batch_norm="first"))
    found = compare.averaged_towers(SETUP, spec, (2, 6), compare.AVERAGE_EVERY - 1, slots=False)
    assert [tower.held["kernel"] for tower in towers] == [1.0, 5.0]
    assert dict(found.values) == pytest.approx(
        {"kernel": 4.0, "mean": 10.0, "count": 3, "kernel/momentum": 0.1}
    )


def test_towers_update_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each goes on from what the one before has left, and statistics are those of the first alone."""
    towers = [Tower(0.0, 0.0, adds=1.0), Tower(0.0, 0.0, adds=100.0)]
    monkeypatch.setattr(compare, "_towers", lambda *_: towers)
    spec = ir.Spec(ir.Model("m"))
    found = compare.alternating_towers(SETUP, spec, (2, 6), 2)
    assert found.losses == (1.001, 1.1, 2.001, 2.1)
    assert dict(found.values) == {"kernel": 202.0, "mean": 2.0, "count": 5.0, "kernel/momentum": 202.0}
    towers[:] = [Tower(0.0, 0.0, adds=1.0)]  # a single one takes all turns
    assert compare.alternating_towers(SETUP, spec, (8,), 2).losses == (1.001, 2.001)


def test_each_tower_reads_what_its_clone_would_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the examples of every step its part, for all micro-batches; towers of one size share a graph."""
    made: list[tuple[tuple[int, ...], list[int], Any]] = []

    class Made:
        """A tower that notes what it gets."""

        def __init__(self, _: Any, spec: Any, arrays: Any, graph: Any) -> None:
            made.append((spec.clones.batch, arrays["x"].tolist(), graph))

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            made.append(((), [], None))

    monkeypatch.setattr(compare, "Trial", Made)
    monkeypatch.setattr(compare, "FedGraph", lambda compiled: compiled)
    setup: Any = SimpleNamespace(
        arrays={"x": np.arange(20)}, towers={}, compile=lambda spec: ("graph", spec.clones.batch)
    )
    spec = ir.Spec(ir.Model("m"), update=ir.Update(accumulate=2))
    with ExitStack() as stack:
        compare._towers(stack, setup, spec, (1, 3, 1), 2)
    assert made[:3] == [
        ((1,), [0, 1, 10, 11], ("graph", (1,))),
        ((3,), [2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 16, 17], ("graph", (3,))),
        ((1,), [8, 9, 18, 19], ("graph", (1,))),
    ]
    assert made[3:] == [((), [], None)] * 3
    assert list(setup.towers) == [1, 3]


def test_references_are_single_towers_of_the_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Micro-batches become one batch; an evaluation has no averages; clones are those of the case."""
    asked: list[Any] = []
    monkeypatch.setattr(compare, "run_steps", lambda _, spec, steps: asked.append((spec, steps)))
    spec = ir.Spec(ir.Model("m"), update=ir.Update(accumulate=2, ema=0.9))
    compare.one_tower(SETUP, spec, 5)
    compare.same_clones(SETUP, spec, (20, 4), 6)
    whole, clones = (each for each, _ in asked)
    assert [steps for _, steps in asked] == [5, 6]
    assert (whole.clones.batch, whole.update.accumulate) == ((2 * compare.GLOBAL_BATCH,), 1)
    assert (clones.clones.batch, clones.update.accumulate) == ((20, 4), 2)
    monkeypatch.setattr(compare, "Trial", lambda setup, spec: (setup, spec))
    setup = TrialSetup(SETUP, 1, {}, start={"kernel": 1.0})
    exported: Any = compare.evaluation_tower(setup, spec)
    assert (exported[0].start, exported[1].update.ema) == ({}, None)
    assert (exported[1].clones.batch, exported[1].update.mode) == ((compare.GLOBAL_BATCH,), "sync")


def test_the_parts_of_a_loss_are_told_with_what_they_are_divided_by() -> None:
    """One if a part has no weight that depends on the data."""
    known = {"value": 3.0, "masked": 6.0, "counted": 2.0, "train": None}
    losses = [SimpleNamespace(tensors=("value",)), SimpleNamespace(tensors=("masked", "counted"))]

    def run(fetches: Any) -> Any:
        parts, op = fetches
        return [[known[each] for each in part] for part in parts], known[op]

    trial: Any = SimpleNamespace(
        compiled=SimpleNamespace(losses=losses, train_op="train"), session=SimpleNamespace(run=run)
    )
    assert Trial.step_parts(trial) == [(3.0, 1.0), (6.0, 2.0)]


DROPOUT = ir.Call("Dropout", (0.5,))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (ir.Call("Dense", (3,), {"activation": "relu"}), ir.Call("Dense", (3,), {"activation": "relu"})),
        (ir.Call("Dropout", (0.5,), {"seed": 3}), ir.Call("Dropout", (0.0,))),
        (ir.Call("GaussianNoise", (), {"stddev": 0.5}), ir.Call("GaussianNoise", (0.0,))),
        (
            ir.Call("RandomCrop", (8, 9), {"seed": 3, "data_format": "channels_last"}),
            ir.Call("CenterCrop", (8, 9), {"data_format": "channels_last"}),
        ),
        (ir.Call("RandomFlip", ("horizontal",)), ir.Call("Identity")),
        (ir.Call("RandAugment", ((0, 1),)), ir.Call("Identity")),
        (
            ir.Call("LSTM", (4,), {"dropout": 0.5, "recurrent_dropout": 0.25, "unroll": True}),
            ir.Call("LSTM", (4,), {"dropout": 0.0, "recurrent_dropout": 0.0, "unroll": True}),
        ),
        (
            ir.Call("Wrapped", (DROPOUT,), {"by": DROPOUT}),
            ir.Call("Wrapped", (ir.Call("Dropout", (0.0,)),), {"by": ir.Call("Dropout", (0.0,))}),
        ),
    ],
    ids=lambda call: call.name,
)
def test_layers_draw_no_numbers(call: ir.Call, expected: ir.Call) -> None:
    """Rates are zero, random images stay as they are, crops are in the middle, and all else is as it was."""
    nodes = LayerNode("one", "layer", call), LayerNode("two", "operation", call)
    model = ModelGraph("small", (), nodes, (), (), (), ())
    layer, operation = without_randomness(model).layers
    assert layer.call == expected
    assert operation.call == call
