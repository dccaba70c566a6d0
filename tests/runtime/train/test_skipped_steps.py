"""Runs in float16: skipped steps are no steps, their examples are used up all the same."""

from __future__ import annotations

import json

import pytest

from tests.runtime.conftest import Project
from tests.support import refusal

STRONG = "-> scale(image, 1000)"  # gradients that the first scale of the loss makes infinite in float16


@pytest.mark.full
def test_a_run_makes_as_many_steps_as_it_should_in_spite_of_skipped_ones(project: Project) -> None:
    """The steps asked for are updates; those that were skipped on the way count as examples only."""
    text = project.spec.read_text()
    project.write(text.replace("-> scale(image, 1 / 16)\n    -> shuffle", f"{STRONG}\n    -> shuffle"))
    result = project.run(update__precision="mixed_float16", train__steps=20)
    manifest = json.loads((project.run_directory / "checkpoints" / "model.ckpt-20.json").read_text())
    assert (result.status, result.steps, manifest["step"]) == ("finished", 20, 20)
    assert manifest["examples"] > 20 * 32
    assert manifest["examples"] % 32 == 0
    variables = project.variables(20)
    skipped = manifest["examples"] // 32 - 20
    assert (variables["global_step"], variables["loss_scale"]) == (20, 2.0 ** (15 - skipped))


def test_gradients_that_no_scale_makes_finite_end_the_run(project: Project) -> None:
    """Where every step is skipped the run ends, and says that the scale is not to blame."""
    text = project.spec.read_text()
    project.write(
        text.replace("-> scale(image, 1 / 16)\n    -> shuffle", "-> scale(image, 1e30)\n    -> shuffle")
    )
    found = refusal(project.run, update__precision="mixed_float16", train__steps=20)
    assert (found.code, found.message) == ("TFD730", "the gradients of 40 steps in a row were not finite")
