"""Masked losses: the mean is over what is left of the whole batch, whichever clones have it."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from dsl import ir
from tests.support import Training, cloned, largest_difference, spec_of

LENGTHS = (6, 1, 2, 1, 5, 3, 1, 6, 4, 1, 1, 2)
ROUNDING = 2e-5
IGNORED = "SparseCategoricalCrossentropy(from_logits = true, ignore_class = 0)"
PLAIN = "SparseCategoricalCrossentropy(from_logits = true)"
BOTH = f"([tags, y] -> {IGNORED}) + 0.3 * ([length, size] -> MeanSquaredError())"
CLIPPED = {"update__clip": "global_norm(0.1)", "optimizer": "Adam(0.01)"}
CASES: dict[str, Any] = {
    "two-masks": {"mask": True, "losses": f"([tags, y] -> {IGNORED}) + 2 * ([tags, y] -> {PLAIN})"},
    "both-masks": {"mask": True, "layers": '-> LSTM(3, return_sequences = true, name = "lstm")'},
    "ignored": {},
    "penalties": {"layers": "-> Dense(4, activity_regularizer = L2(0.1), kernel_regularizer = L2(0.01))"},
    "masked": {"mask": True, "losses": f"([tags, y] -> {PLAIN})"},
    "replicated": {"losses": BOTH, "place": "variables -> replicated", "update__aggregate": "ring"},
    "two-losses": {"losses": BOTH, **CLIPPED},
    "synchronized": {
        "losses": BOTH,
        "layers": '-> BatchNormalization(synchronized = true, name = "norm")',
    },
    "rows-and-all": {
        "table": "free = weight([20, 4])\n  table = free[words]",
        "losses": f"([tags, y] -> {IGNORED}) + 0.1 * ops.sum(ops.square(free))",
    },
}
TAGGER = """
  words = input(int32, [6])
  tags = input(int32, [6])
  length = input(float32, [1])
  {table}
  y = table {layers} -> Dense(5, name = "tag")
  size = table -> GlobalAveragePooling1D() -> Dense(1, name = "size")
  output = y
  loss = {losses}
"""


def tagger(
    *,
    clones: int = 1,
    batch: Any = 12,
    losses: str = f"([tags, y] -> {IGNORED})",
    mask: bool = False,
    table: str = 'table = words -> Embedding(20, 4, mask_zero = MASK, name = "table")',
    layers: str = "",
    optimizer: str = "SGD(1.0)",
    place: str = "",
    **overrides: str,
) -> ir.Spec:
    """Return the spec of a model that gives every word of six a tag, with losses of its own."""
    table = table.replace("MASK", str(mask).lower())
    text = TAGGER.format(table=table, layers=layers, losses=losses)
    update, place = f"optimizer = {optimizer}", f"clones -> cpu[*]\n{place}"
    return spec_of(cloned(text, clones, batch=batch, place=place, update=update, seed=7), **overrides)


def sentences(count: int = 12) -> dict[str, Any]:
    """Return sentences of uneven lengths, zeros behind them."""
    generator = np.random.default_rng(5)
    lengths = np.resize(LENGTHS, count)
    there = np.arange(6) < lengths[:, None]
    return {
        "words": (generator.integers(1, 20, (count, 6)) * there).astype(np.int32),
        "tags": (generator.integers(1, 5, (count, 6)) * there).astype(np.int32),
        "length": lengths[:, None].astype(np.float32) / 6,
    }


def trained(spec: ir.Spec, steps: int = 2) -> tuple[dict[str, Any], list[float]]:
    """Return what training on the sentences ends with, and the losses before each step."""
    with Training(spec, sentences(24)) as training:
        losses = training.steps(steps)
        return training.values(), losses


@cache
def one_tower(name: str) -> tuple[dict[str, Any], list[float]]:
    """Return what training a case on one tower ends with, and the losses before each step."""
    return trained(tagger(**CASES[name]))


@pytest.mark.family(every=8)
@pytest.mark.parametrize("name", CASES)
def test_clones_are_one_tower(name: str) -> None:
    """Weights, slots and losses are those of one tower, for unequal batches and every kind of mask."""
    expected, losses = one_tower(name)
    found, several = trained(tagger(clones=3, batch=(5, 4, 3), **CASES[name]))
    assert largest_difference(found, expected) < ROUNDING
    assert several == pytest.approx(losses, rel=1e-5)


def test_micro_batches_are_one_batch() -> None:
    """So are those of clones with micro-batches, each of which has another number of words."""
    expected, losses = one_tower("two-losses")
    found, several = trained(tagger(clones=2, batch=(4, 2), update__accumulate="2", **CASES["two-losses"]))
    assert largest_difference(found, expected) < ROUNDING
    assert several == pytest.approx(losses, rel=1e-5)


@pytest.mark.full
def test_gradients_of_16_bits_are_scaled_like_those_of_one_tower() -> None:
    """Under float16 no step is skipped that one tower would make, and the weights agree to 16 bits."""
    settings = {**CASES["two-losses"], "optimizer": "SGD(0.5)", "update__precision": "mixed_float16"}
    expected, losses = trained(tagger(**settings))
    found, several = trained(tagger(clones=3, batch=(5, 4, 3), **settings))
    assert found["global_step"] == expected["global_step"] == 2
    assert largest_difference(found, expected) < 5e-3
    assert several == pytest.approx(losses, rel=5e-3)


def test_a_sum_of_gradients_is_one_of_the_means_of_the_clones() -> None:
    """With `reduce = sum` each clone's own mean counts: the step is as long as those of both together."""
    arrays = sentences(12)
    moves = []
    for rows, clones in ((slice(0, 7), 1), (slice(7, 12), 1), (slice(0, 12), 2)):
        own = {name: array[rows] for name, array in arrays.items()}
        size = (7, 5) if clones == 2 else rows.stop - rows.start
        with Training(tagger(clones=clones, batch=size, update__reduce="sum"), own) as training:
            before = training.values()
            training.steps(1)
            after = training.values()
        moves.append({name: after[name] - before[name] for name in after if name != "global_step"})
    expected = {name: moves[0][name] + moves[1][name] for name in moves[0]}
    assert largest_difference(moves[2], expected) < 1e-4


def test_without_a_word_there_is_no_loss_and_no_step() -> None:
    """Where the masks leave nothing of a whole batch the loss is zero, and weights stay as they are."""
    empty = {name: np.zeros_like(array) for name, array in sentences().items()}
    with Training(tagger(clones=2, batch=6), empty) as training:
        before = training.values()
        assert training.steps(1) == [0.0]
        after = training.values()
    del before["global_step"], after["global_step"]
    assert largest_difference(after, before) == 0.0
