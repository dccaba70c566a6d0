"""How the workers of a generation are reached."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tfdeploy.runtime.cluster.roster import Changed
from tfdeploy.runtime.cluster.session_target import SessionTarget
from tfdeploy.runtime.session.faults import is_lost_task
from tfdeploy.runtime.stop import Interrupted
from tfdeploy.runtime.watchdog import Activity


@pytest.mark.parametrize(
    ("stale", "lacks", "signal"), [(True, False, False), (False, True, False), (False, False, True)]
)
def test_the_wait_for_a_generation_ends_although_tensorflow_would_go_on_to_wait(
    *, stale: bool, lacks: bool, signal: bool
) -> None:
    """A worker that goes before it is reached is no failure of training, and a signal ends the wait."""
    over = threading.Event()
    session = SimpleNamespace(run=lambda _: over.wait())
    compiled = SimpleNamespace(exchange=SimpleNamespace(unstage="unstage"))
    engine: Any = SimpleNamespace(compiled=compiled, session=session, activity=Activity(), lost=None)
    crew: Any = SimpleNamespace(is_stale=lambda: stale, lacks_member=lambda: lacks)
    monitor: Any = SimpleNamespace(lost=lambda: False)
    target = SessionTarget(crew=crew, needs_monitor=monitor)

    def check() -> None:
        if signal:
            raise Interrupted

    try:
        with pytest.raises(Interrupted if signal else Changed) as caught:
            target.reach(engine, check)
    finally:
        over.set()
    assert signal or is_lost_task(cast("Exception", caught.value), engine.lost)
