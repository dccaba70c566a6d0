"""What a process that measures asks of TensorFlow, and what it makes of the times of steps."""

from __future__ import annotations

from typing import Any

import pytest

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
    """Half of the stretches were disturbed, and one was luckier than all others."""
    stretches = [
        Stretch(seconds, cores) for seconds, cores in ((9, 1), (3, 2), (1, 1.5), (3, 1.5), (8, 1), (7, 2))
    ]
    assert typical(stretches) == 3
    assert cores_used(stretches) == 1.5
    assert typical(stretches[:1]) == 9
