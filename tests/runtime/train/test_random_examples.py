"""Runs with images that are changed at random: the same examples for any clones, and after a run goes on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.runtime.conftest import SPEC, Project
from tests.support import largest_difference, rounding

CHANGES = """
    -> reshape(image, [8, 8, 1])
    -> random_crop(image, [8, 8], pad = 1)
    -> random_flip(image)
    -> random_color(image, brightness = 0.1, contrast = 0.2)
    -> cutout(image, 3)
    -> one_hot(digit, 10)
    -> mixup(image, digit)
"""
TEST = "    -> reshape(image, [8, 8, 1])\n    -> one_hot(digit, 10)\n"


def spec() -> str:
    """Return the spec of a classifier that draws no random numbers itself."""
    text = SPEC.replace("[64]", "[8, 8, 1]").replace("int32, []", "float32, [10]")
    text = text.replace("-> Dropout(0.1)", "").replace("logits = image", "logits = image\n    -> Flatten()")
    text = text.replace("SparseCategorical", "Categorical")
    start = text.index("  test = ")
    train, rest = text[:start], text[start:]
    last = "    -> scale(image, 1 / 16)\n"
    changed = train.replace("    -> shuffle(256)\n", "    -> shuffle(256)" + CHANGES)
    return changed + rest.replace(last, last + TEST, 1)


@pytest.mark.full
def test_random_examples_are_the_same_for_any_clones_and_after_a_run_goes_on(
    project: Project, make_project: Callable[[str], Project]
) -> None:
    """One clone, two, and two that stop in the middle of a pass end at the same weights."""
    one, two = make_project("one"), make_project("two")
    for each in (project, one, two):
        each.write(spec())
    steps = {"train__steps": 60}
    one.run(clones__count=1, clones__batch=32, devices__cpu=1, **steps)
    two.run(**steps)
    expected = two.variables(60)
    weights = {name: each for name, each in expected.items() if name.endswith(("kernel", "bias"))}
    assert weights
    single = {name: one.variables(60)[name] for name in weights}
    assert largest_difference(single, weights) < rounding(1000, 60)
    project.run(train__steps=50)
    assert project.run(**steps).resumed_from == 50
    found = project.variables(60)
    assert all(np.array_equal(found[name], value) for name, value in expected.items())
