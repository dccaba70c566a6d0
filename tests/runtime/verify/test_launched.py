"""At which server a combination runs that is verified on processes, and how its workers wake each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from compiler.graph import session_options
from compiler.graph.workers.coordination import State
from dsl.diagnostics import RunError
from dsl.errors import running as errors
from tests.support import spec_of
from tfdeploy.runtime.membership.addresses import Cluster, Task
from tfdeploy.runtime.verify import trial
from tfdeploy.runtime.verify.session import Options, Verification
from tfdeploy.runtime.verify.trial import ATTEMPTS, PATIENCE, LaunchedServers, make_trial

CLUSTER = Cluster.of({"ps": ["p:1"], "worker": ["a:1", "b:2"]})


def servers(log: list[str] | None = None, *victims: Task) -> LaunchedServers:
    """Return servers that are not there, which note what they are asked for."""
    said = [] if log is None else log
    monitor: Any = SimpleNamespace(require=lambda why: said.append(f"requires {why}"))
    return LaunchedServers(CLUSTER, monitor, said.append, lambda task: said.append(task.ref), iter(victims))


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
    monkeypatch.setattr(trial, "WorkerPlan", Plan)
    monkeypatch.setattr(session_options, "session_config", lambda of, **_: config if of is plan else None)
    monkeypatch.setattr(
        tf.compat.v1, "Session", lambda target, graph, config: opened.append((target, graph, config))
    )
    compiled: Any = SimpleNamespace(plan=plan, graph="graph")
    servers().session(compiled)
    assert opened == [(url, "graph", config)]
    assert config.operation_timeout_in_ms == PATIENCE * 1000


def test_a_combination_begins_again_if_a_server_is_lost() -> None:
    """As soon as all servers are there again."""
    log: list[str] = []

    def attempt() -> str:
        log.append("attempt")
        if log.count("attempt") < ATTEMPTS:
            raise tf.errors.UnavailableError(None, None, "gone")
        return "agrees"

    assert servers(log).verify(attempt) == "agrees"
    again = ["requires to verify", "a combination is verified again, because a server was lost"]
    assert log == ["attempt", *again, "attempt", *again, "attempt"]


def test_one_task_is_killed_in_each_combination() -> None:
    """Of which nothing is said, other than of a server that is lost without that.

    If a combination has nothing on parameter servers, a worker is killed.
    """
    log: list[str] = []
    launched = servers(log, Task("ps", 0), Task("worker", 1), Task("ps", 1), Task("worker", 0))

    def attempt() -> int:
        launched.disturb()
        log.append("attempt")
        if len(log) == 2:
            raise tf.errors.UnavailableError(None, None, "killed")
        return len(log)

    assert launched.verify(attempt) == 4
    assert log == ["ps:0", "attempt", "requires to verify", "attempt"]
    assert [launched.verify(attempt), log[4:]] == [6, ["worker:1", "attempt"]]
    assert [launched.verify(attempt, needs_servers=False), log[6:]] == [8, ["worker:0", "attempt"]]


def test_what_fails_each_time_is_an_error_in_the_end() -> None:
    """It says what TensorFlow said."""
    log: list[str] = []

    def attempt() -> None:
        log.append("attempt")
        raise tf.errors.InternalError(None, None, "an op has failed")

    with pytest.raises(RunError, match="a combination failed: an op has failed") as caught:
        servers(log).verify(attempt)
    assert caught.value.diagnostic.code == "TFD738"
    assert log.count("attempt") == ATTEMPTS == 3


def test_other_errors_are_not_tried_again() -> None:
    """As those of a spec whose examples do not fit it."""
    log: list[str] = []

    def attempt() -> None:
        log.append("attempt")
        raise RunError(errors.step_failed("a combination", "no such label", None))

    with pytest.raises(RunError, match="no such label"):
        servers(log).verify(attempt)
    assert log == ["attempt"]


SPEC = """
tfdeploy = 1
model "m" {
  x = input(float32, [4])
  label = input(int32, [])
  logits = x -> Dense(3)
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}
devices {
  job "ps" {}
  job "worker" { tasks = 2 }
}
clones { batch = 12 }
update { optimizer = SGD(0.1), replication = between_graph }
train { seed = 7 }
"""
FOR_EVER = 120.0
"""Seconds after which a run that waits is taken for one that waits for ever."""


def test_a_run_that_posts_ends_when_others_have_done_their_part() -> None:
    """The chief's when all have posted, that of another when the chief has applied."""
    spec = spec_of(SPEC)
    trial: Any
    with (
        make_trial(Verification(spec, Options(steps=2, synthetic=True)).setup, spec) as trial,
        ThreadPoolExecutor(2) as pool,
    ):

        def post(worker: int) -> Any:
            exchange, session = trial.graphs[worker].exchange, trial.sessions[worker]
            fetches, fed = [exchange.post, exchange.posted], {exchange.tick: trial.tick}
            return pool.submit(lambda: State.of(session.run(fetches, fed)[1]))

        try:
            for _ in range(2):
                other = post(1)
                chief = post(0).result(FOR_EVER)
                assert chief.arrived == (trial.tick, trial.tick)
                assert not other.done()
                trial.session.run(trial.compiled.exchange.apply)
                assert other.result(FOR_EVER).tick == trial.tick + 1
                trial.tick += 1
        finally:  # a run that waits would keep the test from failing
            for graph, session in zip(trial.graphs, trial.sessions, strict=True):
                session.run(graph.exchange.wake)
