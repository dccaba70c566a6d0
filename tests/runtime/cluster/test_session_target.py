"""How the workers of a generation are reached."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tfdeploy.runtime.cluster.roster import Changed
from tfdeploy.runtime.cluster.session_target import SessionTarget
from tfdeploy.runtime.session.faults import is_lost_task
from tfdeploy.runtime.watchdog import Activity


@pytest.mark.parametrize(("stale", "lacks"), [(True, False), (False, True)])
def test_a_worker_that_goes_before_it_is_reached_is_no_failure_of_training(
    *, stale: bool, lacks: bool
) -> None:
    """The wait ends although TensorFlow would go on to wait, and the chief calls the others again."""
    over = threading.Event()
    session = SimpleNamespace(run=lambda _: over.wait())
    compiled = SimpleNamespace(exchange=SimpleNamespace(unstage="unstage"))
    engine: Any = SimpleNamespace(compiled=compiled, session=session, activity=Activity(), lost=None)
    crew: Any = SimpleNamespace(is_stale=lambda: stale, lacks_member=lambda: lacks)
    monitor: Any = SimpleNamespace(lost=lambda: False)
    target = SessionTarget(crew=crew, needs_monitor=monitor)
    try:
        with pytest.raises(Changed) as caught:
            target.reach(engine)
    finally:
        over.set()
    assert is_lost_task(caught.value, engine.lost)
