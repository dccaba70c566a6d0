"""The scale of losses in 16 bits: halved after a bad step, doubled after many good ones, and saved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf
from attrs import define

from compiler.graph.ledger import Ledger
from compiler.graph.loss_scale import GROWTH_STEPS, INITIAL_SCALE, LossScale
from compiler.pipeline import make_plan
from compiler.reasons import Placed, Reason
from tests.support import classifier


@define
class Scaling:
    """A scale in a session."""

    session: Any
    scale: LossScale
    finite: Any
    follow: Any
    factor: Any

    def after(self, scale: float, good: int, *, finite: bool) -> tuple[float, int]:
        """Return the scale and the number of good steps after a step, from those before it."""
        self.scale.scale.load(scale, self.session)
        self.scale.good_steps.load(good, self.session)
        self.session.run(self.follow, {self.finite: finite})
        found, count = self.session.run([self.scale.scale, self.scale.good_steps])
        return float(found), int(count)


@pytest.fixture(scope="module")
def scaling() -> Iterator[Scaling]:
    """A scale on the first device."""
    plan = make_plan(classifier(clones=1))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        scale = LossScale.create(Placed(plan.topology.devices[0], Reason("test", "default")), Ledger(plan))
        finite = tf.compat.v1.placeholder(tf.bool, ())
        follow, factor = scale.follow(finite), scale.times(0.25, 0)
        session.run(tf.compat.v1.variables_initializer([*scale.saved().values()]))
        yield Scaling(session, scale, finite, follow, factor)


def test_it_begins_as_that_of_keras(scaling: Scaling) -> None:
    """With the constants of its `LossScaleOptimizer`; a checkpoint has both numbers."""
    import keras

    given = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())
    assert (given.initial_scale, given.dynamic_growth_steps) == (INITIAL_SCALE, GROWTH_STEPS)
    saved = scaling.scale.saved()
    assert list(saved) == ["loss_scale", "loss_scale/good_steps"]
    assert scaling.session.run([*saved.values()]) == [INITIAL_SCALE, 0]
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
