"""All workers in one process: exact counts, one stream of data, one result, and the end for the chief."""

import json
import signal
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from attrs import frozen

import tfdeploy
from compiler.graph.build import compile_graph
from compiler.graph.session_options import session_config
from compiler.graph.storage.saving import add_saving
from compiler.graph.workers.coordination import FINISHED
from compiler.graph.workers.meeting import OPEN
from compiler.pipeline import for_worker, make_plan
from tests.runtime.cluster.faults import MODES, FaultyRun
from tests.specs import LINE
from tests.support import spec_of
from tfdeploy.runtime.cluster import worker_steps
from tfdeploy.runtime.cluster.monitor import MissingTask
from tfdeploy.runtime.cluster.replica_group import ReplicaGroup
from tfdeploy.runtime.cluster.server import loopback_server
from tfdeploy.runtime.cluster.worker_group import WorkerGroup
from tfdeploy.runtime.cluster.worker_steps import AsyncChiefSteps, SyncChiefSteps
from tfdeploy.runtime.membership.addresses import Task
from tfdeploy.runtime.records.result import Result
from tfdeploy.runtime.session.data import feed_training, open_stream, splits_of
from tfdeploy.runtime.session.engine import Engine
from tfdeploy.runtime.stop import StopSignals

SPEC = """
tfdeploy = 1

model "small" {{
  image = input(float32, [6])
  digit = input(int32, [])
  logits = image -> Dense(4, name = "one") -> BatchNormalization(name = "norm") -> Dense(3, name = "two")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
  metrics {{ accuracy = [digit, logits] -> SparseCategoricalAccuracy() }}
}}

data {{
  train = npz("train.npz", image = "image", digit = "digit")
  test = npz("train.npz", image = "image", digit = "digit")
}}

devices {{
  job "ps" {{ tasks = 2 }}
  job "worker" {{ tasks = {workers} }}
}}

clones {{ batch = 4 }}
update {{ optimizer = SGD(0.05), {update} }}
train {{ {length}, log_every = 5, checkpoint_every = 7, evaluate_every = 10, seed = 3, directory = "{run}" }}
"""


def train(folder: Path, update: str, *, workers: int = 3, length: str = "steps = 30") -> Result:
    """Train on a cluster that is emulated in this process, and return the result."""
    generator = np.random.default_rng(0)
    images = generator.random((96, 6), dtype=np.float32)
    np.savez(folder / "train.npz", image=images, digit=(images.sum(1) * 3 % 3).astype(np.int32))
    spec = folder / "spec.tfdeploy"
    spec.write_text(SPEC.format(workers=workers, update=update, length=length, run=folder / "run"))
    return tfdeploy.run(tfdeploy.load(spec), emulate=True)


UPDATES = ["mode = async, staleness = 2", "mode = async", "replication = between_graph"]


@frozen
class Run:
    """A run that several tests look at, which change nothing of it.

    Attributes:
        folder: Where the spec and the run directory `run` are.
        result: Its result.
    """

    folder: Path
    result: Result

    def history(self, split: str) -> list[dict[str, Any]]:
        """Return the lines of a split in the history."""
        lines = (self.folder / "run" / "history.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["split"] == split]


@pytest.fixture(scope="module")
def two_epochs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Return a function that gives the run of three workers for two epochs, which is made once."""

    @cache
    def run(update: str) -> Run:
        folder = tmp_path_factory.mktemp("group")
        return Run(folder, train(folder, update, length="epochs = 2"))

    return run


def require_complete(run: Run, steps: int) -> None:
    """Check that a run has ended at a step, was evaluated there, and has left its model."""
    assert (run.result.status, run.result.steps) == ("finished", steps)
    assert run.result.test.examples == 96
    assert run.history("test")[-1]["step"] == steps
    assert (run.folder / "run" / "model.keras").exists()


@pytest.mark.full
@pytest.mark.parametrize(
    "update",
    ["replication = between_graph, backup = 1", pytest.param("mode = sync", marks=pytest.mark.full)],
)
def test_training_ends_at_the_exact_step(tmp_path: Path, update: str) -> None:
    """Evaluations and checkpoints come in between, and every worker stops where it should."""
    require_complete(Run(tmp_path, train(tmp_path, update)), 30)


@pytest.mark.full
@pytest.mark.parametrize("update", UPDATES)
def test_an_epoch_of_all_workers_is_one_pass(two_epochs: Callable[[str], Run], update: str) -> None:
    """Training ends at the exact step, evaluations and checkpoints coming in between.

    With 96 examples among three workers and batches of 4, an epoch is 24 updates, or 8 steps of all.
    """
    run = two_epochs(update)
    require_complete(run, 16 if "between" in update else 48)
    manifests = [json.loads(path.read_text()) for path in (run.folder / "run" / "checkpoints").glob("*.json")]
    assert max(each["examples"] for each in manifests) == 192


@pytest.mark.full
def test_what_a_cluster_has_trained_is_evaluated_here(two_epochs: Callable[[str], Run]) -> None:
    """The model of a cluster's run scores the same on this machine, without a cluster."""
    run = two_epochs("mode = async, staleness = 2")
    found = tfdeploy.evaluate(tfdeploy.load(run.folder / "spec.tfdeploy"))
    assert found.splits["test"].loss == pytest.approx(run.result.test.loss, rel=1e-5)


@pytest.mark.full
def test_history_says_whose_update_it_was(two_epochs: Callable[[str], Run]) -> None:
    """In async every worker tells about its own updates, of which each makes some if none may fall behind."""
    lines = two_epochs("mode = async, staleness = 2").history("train")
    assert {each["worker"] for each in lines} == {"worker:0", "worker:1", "worker:2"}


@pytest.mark.full
def test_a_run_goes_on_in_another_replication(tmp_path: Path) -> None:
    """Checkpoints know nothing of graphs: between graphs, then in one, then on one worker."""
    assert train(tmp_path, "replication = between_graph", workers=2, length="steps = 10").steps == 10
    assert train(tmp_path, "mode = sync", workers=2, length="steps = 20").resumed_from == 10
    assert train(tmp_path, "mode = async", workers=1, length="steps = 30").resumed_from == 20


@pytest.mark.full
@pytest.mark.slow
def test_a_task_that_stays_away_ends_the_run_with_a_checkpoint(tmp_path: Path) -> None:
    """A worker is gone for longer than `task_timeout`: the chief says who, saves, and ends with 2."""
    run = FaultyRun(tmp_path, MODES["between graphs, sync"], steps=100_000, every=50_000)
    run.spec.write_text(run.spec.read_text().replace("task_timeout = 120s", "task_timeout = 6s"))
    try:
        run.start(*run.names)
        run.until(10)
        run.tasks["worker:1"].close()
        chief = run.tasks["worker:0"]
        assert chief.end(60) == 2
        assert "error[TFD763]" in chief.text
        assert "worker:1 at 127.0.0.1" in chief.text
        assert run.saved() >= 10
        assert run.tasks["ps:0"].end(30) == 0
    finally:
        run.end()


@pytest.mark.full
@pytest.mark.parametrize(("mode", "servers"), [("between graphs, sync", 2), ("all weights, add_n", 0)])
def test_a_signal_ends_the_wait_for_a_missing_worker(mode: str, servers: int, tmp_path: Path) -> None:
    """SIGINT at the chief, which waits for a worker: a checkpoint, and exit code 130."""
    run = FaultyRun(tmp_path, MODES[mode], steps=100_000, every=50_000, servers=servers)
    try:
        run.start(*run.names)
        run.until(10)
        run.tasks["worker:1"].close()
        chief = run.tasks["worker:0"]
        chief.until("waiting")
        chief.send(signal.SIGINT)
        assert chief.end(60) == 130
        assert run.saved() >= 10
    finally:
        run.end()


@pytest.mark.parametrize(("kind", "ends"), [(None, False), ("silent", False), ("refused", True)])
def test_a_step_goes_on_while_a_worker_only_does_not_answer(kind: str | None, *, ends: bool) -> None:
    """A machine that is busy answers late, which is no reason to make a step anew; one that is gone is."""

    class Open(ReplicaGroup):
        def state(self) -> Any:
            return SimpleNamespace(phase=OPEN, generation=7, lost=0)

    absent = () if kind is None else (MissingTask(Task("worker", 1), "a:1", "", 0.0, kind),)
    engine: Any = SimpleNamespace(monitor=SimpleNamespace(timed_out=None, absent=absent))
    stop: Any = SimpleNamespace(received=None, arrived=None)
    assert Open(engine, stop, generation=7, open_session=lambda _: None)._cannot_end(60.0) is ends


TWO = f"""{LINE}
data {{ train = synthetic(64, x = feature(float32, [3]), y = feature(float32, [1])) }}
devices {{
  job "ps" {{}}
  job "worker" {{ tasks = 2 }}
}}
clones {{ batch = 4 }}
update {{ optimizer = SGD(0.05), replication = between_graph }}
train {{ seed = 3 }}
"""


@contextmanager
def groups_of(mode: str) -> Iterator[list[WorkerGroup]]:
    """Yield the groups of two workers in this process, which have begun to train."""
    plan = make_plan(spec_of(TWO, update__mode=mode), emulate=True)
    stream = open_stream(plan, splits_of(plan.spec)["train"], plan.model.inputs, training=True)
    server = loopback_server(session_config(plan, served=True))
    found = []
    with ExitStack() as stack:
        stop = stack.enter_context(StopSignals())
        for index in range(2):
            compiled = compile_graph(for_worker(plan, index))
            config = session_config(plan, served=True)
            session = tf.compat.v1.Session(server.target, graph=compiled.graph, config=config)
            engine = Engine(compiled, session, add_saving(compiled))
            stack.callback(engine.close)
            found.append(WorkerGroup(engine, stop))
        found[0].begin()
        found[0].open(0, 0)
        for each in found:
            each.join()
            feed_training(each.engine, stream, 0)
        yield found


@pytest.fixture
def groups() -> Iterator[list[WorkerGroup]]:
    """Return the groups of two workers that update asynchronously."""
    with groups_of("async") as found:
        yield found


def _trained(late: Collection[int], *, rung: bool) -> tuple[Any, list[str]]:
    """Make four steps of two workers; return the weights, and the runs that the chief has made again.

    Args:
        late: The steps in which the other worker leaves its gradients when the chief has asked for them.
        rung: Whether the chief's bell is rung without a reason before each step, and the other worker leaves
            its gradients after the chief.
    """
    with groups_of("sync") as (chief, other):
        steps = SyncChiefSteps(chief)
        told = chief.engine.activity.causes["gradients"]

        def post(step: int) -> None:
            deadline = time.monotonic() + 60
            while step in late and not told() and time.monotonic() < deadline:
                time.sleep(0.01)
            while rung and other.state().arrived[0] != steps.tick and time.monotonic() < deadline:
                time.sleep(0.01)
            other.post(steps.tick)

        with ThreadPoolExecutor(1) as pool:
            for step in range(4):
                if rung:
                    chief.engine.session.run(chief.exchange.wake)
                posted = pool.submit(post, step)
                try:
                    assert steps.next(logged=step == 3, until=4).examples == 8
                except tf.errors.OpError:
                    other.engine.session.run(other.exchange.wake)  # which would wait for the chief
                    raise
                posted.result(60.0)
        steps.close()
        state = chief.state()
        assert (state.global_step, state.examples) == (4, 32)
        return chief.engine.values(["z/kernel", "z/bias"]), sorted(chief.engine._kept)


def _cancelled(report: Callable[..., Any]) -> Callable[..., Any]:
    """Return what reports a failure as the cancellation of another task, as TensorFlow now and then does."""

    def reported(*given: Any, **named: Any) -> Any:
        try:
            return report(*given, **named)
        except tf.errors.InvalidArgumentError as fault:
            raise tf.errors.CancelledError(None, None, "RecvFromRemoteAsync is cancelled.") from fault

    return reported


def test_a_step_of_the_chief_is_one_run_unless_others_are_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """It then looks around until they come; either way it trains on each of its batches once.

    What is late is so however fast the machine is: the others come in the time of the run, or after it.
    """
    monkeypatch.setattr(worker_steps, "ALONE", 60.0)
    expected, runs = _trained((), rung=False)
    assert {*runs} - {"heard"} == {"chief's only run", "chief's only run logged", "state"}
    for late, rung, cancelled in (((), True, False), ((1, 3), False, False), ((1, 3), False, True)):
        monkeypatch.setattr(worker_steps, "ALONE", 0.0 if late else 60.0)
        if cancelled:
            monkeypatch.setattr(Engine, "report", _cancelled(Engine.report))
        found, runs = _trained(late, rung=rung)
        assert ("chief's step logged" in runs) == bool(late)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)


def test_in_the_end_no_update_begins_that_had_not_begun(groups: list[WorkerGroup]) -> None:
    """The one that the other worker has in hand is waited for and counted, and eight more are not made."""
    chief, other = groups
    steps = AsyncChiefSteps(chief)
    chief.run(chief.ops.allow, 9)
    assert other.claim()[0]
    told = chief.engine.activity.causes["updates"]

    def end_late() -> list[str]:
        deadline = time.monotonic() + 60
        while not (owing := [words for words, _ in told()]) and time.monotonic() < deadline:
            time.sleep(0.01)
        other.update()
        return owing

    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(end_late)
        found = steps.settle()
    assert [(each.steps, each.examples) for each in found] == [(1, 4)]
    state = chief.state()
    assert (state.global_step, state.limit, state.done) == (1, 1, (0, 1))
    assert not other.claim()[0]
    assert said.result() == ["worker:1 has not ended its update"]
    assert (steps.settle(), list(told())) == ([], [])


def test_the_chief_waits_until_all_others_have_noticed_the_end(groups: list[WorkerGroup]) -> None:
    """Whether it is there itself does not count; after a while it waits no more."""
    chief, other = groups
    chief.end(0.05)
    assert chief.state().left == (0, 0)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(chief.end, 600.0)
        assert other.until(lambda each: each.phase == FINISHED, patience=60.0) is not None
        assert not ended.done()
        other.run(other.ops.leave)
        ended.result(60.0)
    assert chief.state().left == (0, 1)
