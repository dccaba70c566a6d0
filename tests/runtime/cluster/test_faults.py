"""Killed, stopped and late tasks: training goes on, counts exactly, and leaves nothing behind."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runtime.cluster.faults import MODES, FaultyRun

MakeRun = Callable[..., FaultyRun]


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[MakeRun]:
    """Return a function that makes a run on a cluster; all its processes end with the test."""
    runs: list[FaultyRun] = []

    def make(mode: str, steps: int, every: int, **more: int) -> FaultyRun:
        runs.append(FaultyRun(tmp_path, MODES[mode], steps=steps, every=every, pace=0.3, **more))
        return runs[-1]

    yield make
    for each in runs:
        each.end()


def finished(run: FaultyRun) -> None:
    """Check how a run has ended: exact in its count, its history in order, every process gone."""
    result = run.finish()
    assert (result["status"], result["steps"]) == ("finished", run.steps)
    lines = (run.folder / "run" / "history.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    steps = [each["step"] for each in told if each.get("worker") in {None, "worker:0"}]
    assert steps == sorted(set(steps))
    assert all(each.process.poll() == 0 for each in run.tasks.values())


@pytest.mark.full
@pytest.mark.slow
def test_a_synchronous_run_survives_its_tasks(faulty: MakeRun) -> None:
    """A worker joins late; a parameter server and both workers are killed; one is stopped a while."""
    run = faulty("between graphs, sync", steps=80, every=10)
    run.start("ps:0", "ps:1", "worker:0")
    run.tasks["ps:0"].until("listens")
    run.start("worker:1")
    run.until(20)
    run.kill("ps:1")
    run.kill("worker:0")
    run.kill("worker:1")
    run.hold("worker:1", 2)
    finished(run)


@pytest.mark.full
def test_an_asynchronous_run_goes_on_without_a_worker(faulty: MakeRun) -> None:
    """While a worker is gone the chief makes its updates too, and the count is exact all the same."""
    run = faulty("between graphs, async", steps=240, every=10)
    run.start(*run.names)
    run.until(20)
    run.kill("worker:1")
    run.kill("ps:0")
    finished(run)


@pytest.mark.full
def test_one_graph_survives_the_server_of_its_master(faulty: MakeRun) -> None:
    """The server through which the client trains is killed, and training goes on from a checkpoint."""
    run = faulty("in graph, sync", steps=300, every=50)
    run.start(*run.names)
    run.until(60)
    run.kill("worker:0")
    finished(run)


@pytest.mark.full
@pytest.mark.slow
def test_workers_with_parts_of_the_slots_go_on_from_a_checkpoint(faulty: MakeRun) -> None:
    """What a killed worker alone had is in the checkpoint, the chief too; nothing is lost by a stop."""
    run = faulty("all weights, slots cut", steps=60, every=5, servers=0, workers=2, cut=True)
    run.start(*run.names)
    run.until(10)
    for name in reversed(run.names):
        run.kill(name)
    run.hold("worker:1", 2)
    finished(run)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "workers"),
    [
        ("all weights, ring", 3),
        ("all weights, synchronized", 2),
        ("all weights, power_sgd", 2),
        ("all weights, local", 3),
    ],
)
def test_no_step_is_lost_while_a_worker_with_all_weights_is_left(
    faulty: MakeRun, mode: str, workers: int
) -> None:
    """Each worker is killed, the chief too, and one is stopped a while; no finished step is made again."""
    run = faulty(mode, steps=100, every=1000, servers=0, workers=workers)
    run.start("worker:0")
    run.tasks["worker:0"].until("listens")
    run.start(*run.names[1:])
    run.until(10)
    for name in reversed(run.names):
        run.kill(name)
    run.hold("worker:1", 2)
    finished(run)
