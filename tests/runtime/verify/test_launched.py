"""At which servers a combination runs that is verified on processes, and how its workers wake each other."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tensorflow as tf
from attrs import evolve

from compiler.graph.tower.traces import Traces
from compiler.graph.workers.coordination import State
from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import running as errors
from tests.runtime.tasks import free_ports
from tests.specs import CLASSES
from tests.support import spec_of
from tfdeploy.runtime.cluster.monitor import TaskMonitor
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task
from tfdeploy.runtime.verify.cases import Case
from tfdeploy.runtime.verify.session import Options, Verification
from tfdeploy.runtime.verify.trial import ATTEMPTS, PATIENCE, LaunchedServers, TrialSetup, make_trial

CLUSTER = Cluster.of({"ps": ["p:1"], "worker": ["a:1", "b:2"]})
AGAIN = "a combination is verified again, because a server was lost"


def servers(
    log: list[str] | None = None,
    *victims: Task,
    cluster: Cluster = CLUSTER,
    given_up: Callable[[], Diagnostic | None] = lambda: None,
) -> LaunchedServers:
    """Return servers for which nobody has to wait, with a note of what is said and of who is to be killed."""
    said = [] if log is None else log
    member = Membership(cluster, None, "", launch_failure=given_up)
    monitor = TaskMonitor(member, (), said.append, 1.0)
    return LaunchedServers(cluster, monitor, said.append, lambda task: said.append(task.ref), iter(victims))


SPEC = f"""{CLASSES}
devices {{
  job "ps" {{}}
  job "worker" {{ tasks = 2 }}
}}
clones {{ batch = 12 }}
update {{ optimizer = SGD(0.1), replication = between_graph }}
train {{ seed = 7 }}
"""


@pytest.mark.parametrize(
    ("replication", "worker", "url"),
    [("in_graph", 0, "grpc://a:1"), ("between_graph", 0, "grpc://a:1"), ("between_graph", 1, "grpc://b:2")],
)
def test_a_graph_runs_at_the_server_of_its_task(replication: str, worker: int, url: str) -> None:
    """That of the worker whose graph it is, or that of the chief; an op may take as long as servers may."""
    spec = spec_of(SPEC, update__replication=replication)
    session = servers().session(TrialSetup(Traces(), 1, {}).compile(spec, worker))
    assert session.sess_str == url.encode()
    assert session._config.operation_timeout_in_ms == PATIENCE * 1000


def test_a_combination_begins_again_if_a_server_is_lost() -> None:
    """As soon as all servers are there again, and then as often as TensorFlow has not connected to them."""
    log: list[str] = []

    def attempt() -> str:
        log.append("attempt")
        if log.count("attempt") <= ATTEMPTS:
            raise tf.errors.UnavailableError(None, None, "gone")
        return "agrees"

    assert servers(log).verify(attempt) == "agrees"
    assert log == ["attempt", AGAIN, *["attempt"] * ATTEMPTS]


def test_servers_that_do_not_come_back_end_the_verification() -> None:
    """With the reason that the launcher gives; the combination is not tried again."""
    log: list[str] = []

    def attempt() -> None:
        log.append("attempt")
        raise tf.errors.UnavailableError(None, None, "gone")

    given_up = errors.step_failed("a task", "it has failed too often", None)
    with pytest.raises(RunError, match="it has failed too often"):
        servers(log, given_up=lambda: given_up).verify(attempt)
    assert log == ["attempt"]


@pytest.mark.parametrize(
    ("fault", "message", "attempts"),
    [
        (tf.errors.InternalError(None, None, "an op has failed"), "an op has failed", ATTEMPTS),
        (RunError(errors.step_failed("a combination", "no such label", None)), "no such label", 1),
    ],
)
def test_what_fails_each_time_is_an_error_in_the_end(fault: Exception, message: str, attempts: int) -> None:
    """It says what TensorFlow said. That of a spec whose examples do not fit it is one at once."""
    made: list[str] = []

    def attempt() -> None:
        made.append("attempt")
        raise fault

    with pytest.raises(RunError, match=f"a combination failed.*: {message}") as caught:
        servers().verify(attempt)
    assert caught.value.diagnostic.code == "TFD738"
    assert (len(made), ATTEMPTS) == (attempts, 3)


ADD = ir.Call("add_n")
WORKERS = Case("async", ADD, "spread", (6, 6, 6, 6), workers=2, between=True)
REPLICAS = Case("sync", ADD, "replicated", (6, 6, 6, 6), workers=2, between=True)
ALONE = Case("async", ADD, "spread", (12, 12))


@pytest.fixture(scope="module")
def listening() -> Iterator[Cluster]:
    """Return a cluster whose servers are all in this process."""
    ports = iter(free_ports(4))
    hosts = {job: [f"127.0.0.1:{next(ports)}" for _ in range(2)] for job in ("ps", "worker")}
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
    held = [
        tf.distribute.Server(hosts, job, index, config=config)
        for job, addresses in hosts.items()
        for index in range(len(addresses))
    ]
    yield Cluster.of(hosts)
    held.clear()


def test_one_task_is_killed_in_each_combination(listening: Cluster) -> None:
    """In its course, of which nothing is said; a worker, if there is nothing on parameter servers.

    One in this process has no tasks. What is lost is trained from the beginning, and agrees.
    """
    log: list[str] = []
    run = Verification(spec_of(SPEC), Options(steps=2, synthetic=True))
    launched = servers(log, *listening.tasks, *listening.tasks, cluster=listening)
    lost: list[str] = []

    def kill(task: Task) -> None:
        log.append(task.ref)
        if not lost:
            lost.append(task.ref)
            raise tf.errors.UnavailableError(None, None, "killed")

    run.setup = evolve(run.setup, servers=evolve(launched, kill=kill))
    run.selected = evolve(run.selected, cases=(REPLICAS, ALONE, WORKERS))
    found = list(run.outcomes())
    assert [each.case for each in found] == [REPLICAS, ALONE, WORKERS]
    assert all(each.differences.largest < 1e-5 for each in found)
    assert log == ["worker:0", "worker:1"]


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

        for graph, session in zip(trial.graphs, trial.sessions, strict=True):
            session.run(graph.exchange.wake)  # the server may have a bell that an earlier test has left rung
            session.run(graph.exchange.heard)
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
