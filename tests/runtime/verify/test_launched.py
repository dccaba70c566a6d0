"""At which server a combination runs that is verified on processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from compiler.graph import session_options
from tfdeploy.runtime.membership.addresses import Cluster
from tfdeploy.runtime.verify import launched
from tfdeploy.runtime.verify.launched import PATIENCE, LaunchedServers

CLUSTER = Cluster.of({"ps": ["p:1"], "worker": ["a:1", "b:2"]})


@pytest.mark.parametrize(("worker", "url"), [(None, "grpc://a:1"), (("worker", 1), "grpc://b:2")])
def test_a_graph_runs_at_the_server_of_its_task(
    monkeypatch: pytest.MonkeyPatch, worker: tuple[str, int] | None, url: str
) -> None:
    """That of the worker whose graph it is, or that of the chief; an op may take as long as servers may."""

    class Plan(SimpleNamespace):
        """The plan of a worker."""

    opened: list[tuple[object, ...]] = []
    config = SimpleNamespace(operation_timeout_in_ms=0)
    plan = SimpleNamespace() if worker is None else Plan(worker=SimpleNamespace(host=worker))
    monkeypatch.setattr(launched, "WorkerPlan", Plan)
    monkeypatch.setattr(session_options, "session_config", lambda of: config if of is plan else None)
    monkeypatch.setattr(
        tf.compat.v1, "Session", lambda target, graph, config: opened.append((target, graph, config))
    )
    compiled: Any = SimpleNamespace(plan=plan, graph="graph")
    LaunchedServers(CLUSTER).session(compiled)
    assert opened == [(url, "graph", config)]
    assert config.operation_timeout_in_ms == PATIENCE * 1000
