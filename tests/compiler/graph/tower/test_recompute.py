"""Layers that are computed again in the backward pass: the same weights, bit for bit, in less memory."""

from typing import Any

import pytest

from compiler.graph import session_options
from compiler.graph.build import compile_step
from compiler.graph.tower.recompute import SCOPE
from compiler.pipeline import make_plan
from dsl import ir
from tests.models import data, model, train
from tests.support import Training, cloned, refusal_of, spec_of
from tfdeploy.runtime.session.engine import peak_of_tensors

WANTED = 'scopes("block*")'
BLOCK = """
layer "block" {
  width = parameter(int)
  x = input()
  inner = x -> Dense(width, activation = gelu) -> Dropout(0.4) -> Dense(2)
  output = [x, inner] -> Add() -> BatchNormalization()
}
"""
CHAIN = """
  x = input(float32, [6, 6, 2])
  class = input(int32, [])
  logits = x -> repeat({blocks}, block({width})) -> Flatten() -> Dense(5)
  loss = [class, logits] -> SparseCategoricalCrossentropy(from_logits = true)
"""


def chain(
    recompute: str,
    *,
    blocks: int = 3,
    width: int = 24,
    clones: int = 1,
    batch: Any = 8,
    devices: int | None = None,
    homes: str = "cpu[*]",
    place: str = "",
    **settings: str,
) -> ir.Spec:
    """Return a spec of blocks with dropout and batch normalization, one after the other."""
    model, place = CHAIN.format(blocks=blocks, width=width), f"clones -> {homes}\n{place}"
    adam = "optimizer = Adam(0.1)"
    text = cloned(model, clones, batch=batch, devices=devices, place=place, update=adam, seed=7)
    return spec_of(text + BLOCK, update__recompute=recompute, **settings)


def trained(recompute: str, **settings: Any) -> tuple[dict[str, bytes], list[float], int]:
    """Return all variables and losses of three steps, and how many ops are computed again."""
    with Training(chain(recompute, **settings), data("normal", 96)) as training:
        losses = training.steps(3)
        again = sum(f"{SCOPE}/block" in name for name in training.compiled.ledger.entries)
        return {name: value.tobytes() for name, value in training.values().items()}, losses, again


@pytest.mark.family(every=3)
@pytest.mark.usefixtures("deterministic_ops")
@pytest.mark.parametrize(
    "settings",
    [
        {"clones": 2, "batch": (9, 7), "update__batch_norm": "synchronized"},
        {"update__precision": "mixed_float16", "update__clip": "global_norm(0.1)"},
        {"clones": 2, "batch": (5, 4), "update__accumulate": "2", "update__batch_norm": "mean"},
        {"clones": 2, "batch": 8, "update__mode": "local", "update__average_every": "2"},
        {"clones": 2, "batch": 8, "update__aggregate": "ring", "place": "variables -> replicated"},
        {"batch": 8, "devices": 3, "place": 'ops("*block_1/dense*") -> cpu[2]'},
        {
            "clones": 2,
            "devices": 4,
            "homes": "groups(cpu[*], size = 2)",
            "place": 'ops("*block_1/*") -> group[1]',
        },
    ],
    ids=["synchronized", "mixed", "accumulate", "local", "replicated", "placed", "groups"],
)
def test_weights_are_the_same_bits(settings: dict[str, Any]) -> None:
    """With dropout and batch normalization: masks are drawn again as they were, and statistics move once."""
    plain, losses, none = trained("none", **settings)
    found, again, some = trained(WANTED, **settings)
    assert again == losses
    assert found == plain
    assert none == 0 < some


@pytest.mark.usefixtures("deterministic_ops")
@pytest.mark.parametrize("batch", [24, pytest.param((13, 11), marks=pytest.mark.full)])
def test_loops_of_recurrent_layers_are_kept_as_they_are(batch: Any) -> None:
    """They take in what their gradients want to be filled, which does not belong to the backward pass."""
    settings: dict[str, Any] = {"clones": 1 if batch == 24 else 2, "batch": batch}
    found = [
        train(model("recurrent", update__recompute=each, **settings), data("recurrent"), 3)
        for each in ("none", 'scopes("*")')
    ]
    (plain, losses), (again, same) = found
    assert same == losses
    assert {name: each.tobytes() for name, each in again.items()} == {
        name: each.tobytes() for name, each in plain.items()
    }


def test_what_draws_from_seeds_is_drawn_again_and_what_moves_is_not() -> None:
    """Each mask once more, but no moment, and nothing else in the step is another op than without."""
    ops = compile_step(make_plan(chain(WANTED))).ledger.ops
    again = [op.type for name, op in ops.items() if f"{SCOPE}/" in name]
    assert again.count("StatelessRandomUniformV2") == 3
    assert set(again).isdisjoint({"Mean", "Const"})
    uniform = [op for op in ops.values() if op.type == "StatelessRandomUniformV2" and "dropout/" in op.name]
    first = [op for op in uniform if not op.name.startswith(SCOPE)]
    assert len(first) == 3
    assert all(op.waits for op in first)  # none draws as soon as the step begins
    tied = [op for name, op in ops.items() if name.startswith(SCOPE) and op.type != "NoOp"]
    assert all(op.waits or any(each.op.startswith(SCOPE) for each in op.inputs) for op in tied)


@pytest.mark.parametrize("optimized", [pytest.param(False, marks=pytest.mark.full), True])
def test_the_allocator_counts_less(*, optimized: bool) -> None:
    """Of eight blocks with some tensors each, at most half of the peak is left.

    That is so too if TensorFlow optimizes the graph, as it may with GPUs: it does not merge copies.
    """
    with pytest.MonkeyPatch.context() as patch:  # after the trace, which all may share
        patch.setattr(session_options, "runs_gpus", lambda _: optimized)
        peaks = {wanted: peak(wanted) for wanted in ("none", WANTED)}
    assert peaks[WANTED] < 0.5 * peaks["none"]


def peak(recompute: str) -> int:
    """Return the least of the peaks of three steps, in bytes."""
    spec = chain(recompute, blocks=8, width=64, batch=128)
    found = []
    with Training(spec, data("normal", 128)) as training:
        for _ in range(3):
            found += [peak_of_tensors(each.node_stats) for each in training.traced().step_stats.dev_stats]
    return min(each for each in found if each > 1e6)


def test_a_glob_that_matches_no_layer_is_refused_at_its_place() -> None:
    """With the nearest names."""
    found = refusal_of(lambda: compile_step(make_plan(chain('scopes("blok*")'))))
    assert found.code == "TFD529"
    assert "block" in found.notes[0]
