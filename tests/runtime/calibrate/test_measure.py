"""What a process that measures asks of TensorFlow, and what it makes of the times of steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tfdeploy.runtime.calibrate import measure
from tfdeploy.runtime.calibrate.measure import time_to_start_an_op
from tfdeploy.runtime.calibrate.stretches import Stretch, cores_used, typical


@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_session_has_the_threads_that_are_measured(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """TensorFlow gives a process the pool for which its first session asks, and no later one changes it."""
    import tensorflow as tf

    asked = []

    class Refused(Exception):  # noqa: N818
        """Raised in place of opening a session, so that this process gets no pool."""

    def session(*, graph: Any, config: Any) -> None:
        assert graph is not None
        asked.append(config.intra_op_parallelism_threads)
        raise Refused

    monkeypatch.setattr(tf.compat.v1, "Session", session)
    with pytest.raises(Refused):
        time_to_start_an_op(threads)
    assert asked == [threads]


def test_the_lower_quartile_counts() -> None:
    """Half of the stretches were disturbed, and one was luckier than others. Of cores the upper counts."""
    stretches = [
        Stretch(seconds, cores) for seconds, cores in ((9, 1), (3, 2), (1, 1.5), (3, 1.5), (8, 1), (7, 2))
    ]
    assert typical(stretches) == 3
    assert cores_used(stretches) == 2
    assert cores_used(stretches[:5]) == 1.5
    assert typical(stretches[:1]) == 9


def test_the_hand_over_is_that_with_which_the_simulation_takes_what_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The simulated step has its start added, which is measured beside its ops."""
    monkeypatch.setattr(measure, "evolve", lambda work, **_: work)
    monkeypatch.setattr(measure, "profile_of", lambda *_, hand_over: hand_over)
    monkeypatch.setattr(measure, "ProfiledCosts", float)
    monkeypatch.setattr(measure, "simulate", lambda _, costs: SimpleNamespace(seconds=1 + 100 * costs))
    measurement: Any = SimpleNamespace(
        work=SimpleNamespace(loops=()), compiled=SimpleNamespace(exchange=None)
    )
    wanted = measure.SLOWEST_HAND_OVER / 3
    for parallel, hand_over in ((1.5 + 100 * wanted, wanted), (1.4, 0.0)):
        found: Any = SimpleNamespace(step_start=0.5, parallel=parallel, machine=SimpleNamespace(cores=2))
        assert measure._Measurement._hand_over(measurement, found) == pytest.approx(hand_over, rel=1e-3)
