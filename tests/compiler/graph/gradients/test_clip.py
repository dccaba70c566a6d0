"""Clipping acts on the gradient of the whole batch, regularisation included, whoever computed it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsl import ir
from tests.models import data, model, train
from tests.support import Training, largest_difference

CLIPS = ("global_norm(0.05)", "norm(0.02)", "value(0.002)")


def one_step(spec: ir.Spec, arrays: dict[str, Any]) -> dict[str, Any]:
    """Return what one step of SGD with rate 1 takes off every weight: the gradient as it was applied."""
    with Training(spec, arrays) as training:
        before = training.values()
        training.steps(1)
        after = training.values()
    return {name: before[name] - after[name] for name in before if name != "global_step"}


def clipped(gradients: dict[str, Any], clip: str) -> dict[str, Any]:
    """Return gradients clipped by NumPy, as `clip` says."""
    kind, limit = clip.rstrip(")").split("(")
    bound = float(limit)
    if kind == "value":
        return {name: np.clip(each, -bound, bound) for name, each in gradients.items()}
    norms = {name: float(np.sqrt(np.sum(np.square(each)))) for name, each in gradients.items()}
    if kind == "global_norm":
        norms = dict.fromkeys(norms, float(np.sqrt(np.sum(np.square(list(norms.values()))))))
    return {name: each * min(1.0, bound / norms[name]) for name, each in gradients.items()}


@pytest.mark.family(every=6)
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("kind", ["dense", "words"])
def test_the_whole_gradient_is_clipped_with_its_regularisation(kind: str, clip: str) -> None:
    """What a step takes off is the clipped sum of all clones' gradients, regularizers' included.

    Rows of one index, of which every clone has some, count as the one row that they come to.
    """
    arrays = data(kind)
    settings: dict[str, Any] = {"clones": 3, "batch": (12, 5, 7), "optimizer": "SGD(1)"}
    settings["model__regularize"] = "L2(0.1)"
    free = one_step(model(kind, **settings), arrays)
    bound = one_step(model(kind, update__clip=clip, **settings), arrays)
    expected = clipped(free, clip)
    assert any(np.abs(free[name] - expected[name]).max() > 1e-3 for name in free)
    assert bound == {name: pytest.approx(each, abs=2e-7) for name, each in expected.items()}


def test_a_gradient_within_the_limit_is_left_as_it_is() -> None:
    """A norm below the limit changes nothing at all."""
    arrays = data("dense")
    free = one_step(model("dense", optimizer="SGD(1)"), arrays)
    bound = one_step(model("dense", optimizer="SGD(1)", update__clip="global_norm(1000)"), arrays)
    assert {name: each.tolist() for name, each in bound.items()} == {
        name: each.tolist() for name, each in free.items()
    }


@pytest.mark.parametrize("rule", ["variables -> cpu[1]", "variables -> replicated"])
def test_clones_clip_as_one_tower_does(rule: str) -> None:
    """Two clones, over shared or replicated variables, follow a single tower on the whole batch."""
    arrays, settings = data("dense"), {"optimizer": "Adam(1e-2)", "update__clip": "global_norm(0.05)"}
    expected, _ = train(model("dense", **settings), arrays, 3)  # type: ignore[arg-type]  # all are strings
    found, _ = train(model("dense", clones=2, batch=12, place=rule, **settings), arrays, 3)  # type: ignore[arg-type]
    assert largest_difference(found, expected) < 1e-5
