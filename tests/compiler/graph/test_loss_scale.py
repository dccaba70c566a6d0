"""The scale of losses in 16 bits: halved after a bad step, doubled after many good ones, and saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import tensorflow as tf
from attrs import define

from compiler.graph.fragments import recorded
from compiler.graph.loss_scale import GROWTH_STEPS, INITIAL_SCALE, LossScale
from compiler.pipeline import make_plan
from compiler.step.record import Run
from compiler.step.writer import Spot
from tests.support import Drafted, classifier


@define
class Scaling:
    """A scale in a session."""

    session: Any
    saved: Mapping[str, Any]
    finite: Any
    follow: Any
    factor: Any

    def after(self, scale: float, good: int, *, finite: bool) -> tuple[float, int]:
        """Return the scale and the number of good steps after a step, from those before it."""
        for variable, value in zip(self.saved.values(), (scale, good), strict=True):
            variable.load(value, self.session)
        self.session.run(self.follow, {self.finite: finite})
        found, count = self.session.run([*self.saved.values()])
        return float(found), int(count)


@pytest.fixture(scope="module")
def scaling() -> Iterator[Scaling]:
    """A scale on the first device."""
    with Drafted(make_plan(classifier(clones=1))) as drafted:
        scale = LossScale.create(drafted.homes[0], drafted.ledger)
        finite = recorded(tf.compat.v1.placeholder(tf.bool, ()))
        at = Spot(drafted.ledger.writer("update"), "update", drafted.homes[0])
        follow = [Run(each) for each in scale.follow(at, finite)]
        made = scale.saved(), finite, follow, scale.times(0.25, 0)
    with drafted.session() as session:
        saved, *ops = drafted.found(made)
        session.run([each.initializer for each in saved.values()])
        yield Scaling(session, saved, *ops)


def test_it_begins_as_that_of_keras(scaling: Scaling) -> None:
    """With the constants of its `LossScaleOptimizer`; a checkpoint has both numbers."""
    import keras

    given = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())
    assert (given.initial_scale, given.dynamic_growth_steps) == (INITIAL_SCALE, GROWTH_STEPS)
    assert list(scaling.saved) == ["loss_scale", "loss_scale/good_steps"]
    assert scaling.session.run([*scaling.saved.values()]) == [INITIAL_SCALE, 0]
    assert scaling.session.run(scaling.factor) == INITIAL_SCALE / 4


@pytest.mark.parametrize(
    ("good", "finite", "scale", "count"),
    [
        (0, True, 8.0, 1),
        (GROWTH_STEPS - 2, True, 8.0, GROWTH_STEPS - 1),
        (GROWTH_STEPS - 1, True, 16.0, 0),
        (0, False, 4.0, 0),
        (5, False, 4.0, 0),
        (GROWTH_STEPS - 1, False, 4.0, 0),
    ],
)
def test_it_follows_the_steps(scaling: Scaling, good: int, finite: bool, scale: float, count: int) -> None:
    """A bad step halves it, the last of 2,000 good ones doubles it, and counting begins anew after both."""
    assert scaling.after(8.0, good, finite=finite) == (scale, count)
