"""What a run does at the forks of its course: if a task is lost, a signal comes, or the best is past."""

import json
import signal
from collections.abc import Callable
from itertools import count
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from dsl.diagnostics import Diagnostic, RunError
from tests.runtime.conftest import Listener, Project
from tests.specs import LINE
from tests.support import refusal
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.session.engine import Engine
from tfdeploy.runtime.show.reporting import StepRange
from tfdeploy.runtime.stop import Interrupted
from tfdeploy.runtime.train import evaluation, run

LOST = tf.errors.UnavailableError(None, None, "the connection is gone")
OTHER = tf.errors.InvalidArgumentError(None, None, "a label is no class")
REFUSED = RunError(Diagnostic("TFD730", "no number"))
SPEC = f"""{LINE}
data {{
  train = npz("given.npz")
  test = npz("given.npz")
}}
clones {{ batch = 4 }}
update {{ optimizer = Adam(0.1) }}
train {{ steps = 20, seed = 3, deterministic = true, log_every = 1 }}
"""


class Acting(Listener):
    """Does something after a step, or before all with 0, or when a split was evaluated.

    Args:
        acts: What is done at what, in their order, each once.
    """

    def __init__(self, *acts: tuple[int | str, Callable[[], object]]) -> None:
        super().__init__()
        self.acts = list(acts)
        self.begun: list[int] = []

    def _reached(self, at: int | str) -> None:
        if self.acts and self.acts[0][0] == at:
            self.acts.pop(0)[1]()

    def started(self, steps: StepRange) -> None:
        """Keep where training begins."""
        self.begun.append(steps.first)
        self._reached(0)

    def stepped(self, step: int) -> None:
        """Do what is to be done after a step."""
        self._reached(step)

    def evaluated(self, line: HistoryRecord, examples: int) -> None:
        """Do what is to be done after an evaluation."""
        del examples
        self._reached(line.split)


def fails(fault: Exception) -> Callable[[], object]:
    """Return what ends an attempt to train with an error."""

    def fail() -> object:
        raise fault

    return fail


def interrupt() -> None:
    """Do what Ctrl-C does, at once: the main thread handles a signal when it comes to it."""
    handler = signal.getsignal(signal.SIGINT)
    assert callable(handler)
    handler(signal.SIGINT, None)


@pytest.fixture
def project(make_project: Callable[[str], Project]) -> Project:
    """Return a folder with the spec of a line through ten points."""
    made = make_project("line")
    made.write(SPEC)
    x = np.random.default_rng(1).normal(size=(10, 3)).astype(np.float32)
    np.savez(made.folder / "given.npz", x=x, y=x[:, :1] + 2)
    return made


@pytest.fixture
def with_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an error be that of a task that was lost, as on a cluster, and so many attempts be too many."""
    monkeypatch.setattr(run, "is_lost_task", lambda fault, _: fault is LOST)
    monkeypatch.setattr(run, "MOST_FRUITLESS", 3)


@pytest.mark.usefixtures("with_tasks")
def test_training_goes_on_after_a_task_was_lost(project: Project) -> None:
    """From the newest checkpoint each time, whatever was said of the first; it ends as if undisturbed."""
    project.run()
    calm = {name: each.tolist() for name, each in project.variables(20).items()}
    told = Acting((12, fails(LOST)), (15, fails(LOST)))
    result = project.run(train__checkpoint_every=10, resume="never", reporter=told)
    assert (result.status, result.steps, result.resumed_from) == ("finished", 20, 10)
    assert told.notes == ["interrupted: the connection is gone"] * 2
    assert (told.begun, project.steps()) == ([0, 10, 10], list(range(1, 21)))
    assert {name: each.tolist() for name, each in project.variables(20).items()} == calm


@pytest.mark.usefixtures("with_tasks")
def test_attempts_without_a_step_come_to_an_end(project: Project) -> None:
    """So many in a row, of which one that makes a step is none."""
    told = Acting(*[(step, fails(LOST)) for step in (0, 0, 2, 0, 0)])
    assert project.run(train__steps=3, reporter=told).steps == 3
    assert told.begun == [0] * 6
    told = Acting(*[(0, fails(LOST))] * 3)
    found = refusal(project.run, train__steps=3, resume="never", reporter=told)
    assert (found.code, found.message) == ("TFD738", "training failed: the connection is gone")
    assert len(told.begun) == 3


@pytest.mark.usefixtures("with_tasks")
def test_what_is_no_lost_task_ends_the_run(project: Project) -> None:
    """An error of the graph is told as one of training, and a refusal as what it is."""
    with pytest.raises(RunError) as caught:
        project.run(reporter=Acting((2, fails(OTHER))))
    assert caught.value.__cause__ is OTHER
    told = caught.value.diagnostic
    assert (told.message, told.span, told.notes) == ("training failed: a label is no class", None, ())
    with pytest.raises(RunError) as caught:
        project.run(reporter=Acting((2, fails(REFUSED))))
    assert caught.value is REFUSED


def test_a_signal_ends_a_run_after_its_step(project: Project) -> None:
    """With a checkpoint, and without an evaluation, which takes long; the next run makes up for that."""
    settings = {"train__evaluate_every": 2, "train__log_every": 3, "train__best": 'lowest("loss")'}
    with pytest.raises(Interrupted) as caught:
        project.run(**settings, reporter=Acting((4, interrupt)))
    assert (caught.value.result.status, caught.value.result.steps) == ("interrupted", 4)
    assert json.loads((project.run_directory / "result.json").read_text())["status"] == "interrupted"
    assert not (project.run_directory / "model.keras").exists()
    assert (project.steps(), project.steps("test")) == ([3], [2])
    result = project.run(**settings, train__steps=5)
    assert (result.resumed_from, project.steps(), project.steps("test")) == (4, [3, 5], [2, 4, 5])


def test_a_signal_ends_an_evaluation(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which then has no scores, and counts for nothing."""
    begun = Engine.evaluate_batch

    def interrupted(engine: Engine) -> Any:
        interrupt()
        return begun(engine)

    monkeypatch.setattr(Engine, "evaluate_batch", interrupted)
    with pytest.raises(Interrupted) as caught:
        project.run(train__evaluate_every=1, train__best='lowest("loss")')
    assert (caught.value.result.steps, caught.value.result.best, caught.value.result.test) == (1, None, None)
    assert project.steps("test") == []


@pytest.mark.parametrize(("deterministic", "most"), [(True, 1), (False, 3)])
def test_how_many_batches_are_evaluated_at_a_time(
    project: Project, monkeypatch: pytest.MonkeyPatch, most: int, *, deterministic: bool
) -> None:
    """The first is alone, because it is traced; then as many as use all cores, unless order matters."""
    monkeypatch.setattr(evaluation, "batches_at_once", lambda _: 3)
    begun, numbers, together = Engine.evaluate_batch, count(1), Barrier(most)

    def counted(engine: Engine) -> Any:
        if next(numbers) in range(2, 2 + most):
            together.wait(60)
        return begun(engine)

    monkeypatch.setattr(Engine, "evaluate_batch", counted)
    result = project.run(train__steps=1, train__deterministic=deterministic)
    assert result.test.examples == 10
    assert next(numbers) - 1 in range(4, 4 + most)


def test_a_loss_is_divided_by_the_weights_of_all_batches(project: Project) -> None:
    """Three batches, whose weights differ, have the loss of NumPy over all examples at once."""
    text = SPEC.replace("y = input(float32, [1])", "y = input(float32, [1])\n  w = input(float32, [])")
    loss = "[y, z, w] -> MeanSquaredError(reduction = mean_with_sample_weight)"
    project.write(text.replace("[y, z] -> MeanSquaredError()", loss))
    with np.load(project.folder / "given.npz") as given:
        x, y = given["x"].astype(float), given["y"].astype(float)
    w = np.array([1, 0, 2, 1, 0, 0, 0, 3, 1, 5], np.float32)
    np.savez(project.folder / "given.npz", x=x.astype(np.float32), y=y.astype(np.float32), w=w)
    result, found = project.run(train__steps=1), project.variables(1)
    squares = np.square(y - x @ found["z/kernel"] - found["z/bias"])[:, 0]
    assert result.test.loss == pytest.approx((squares * w).sum() / w.sum(), rel=1e-5)


@pytest.mark.full
def test_the_seed_of_a_run(project: Project) -> None:
    """That of the spec, else that of the newest checkpoint unless it is not gone on from, else a new one."""
    project.write(project.spec.read_text().replace("seed = 3, ", ""))

    def seed(step: int, **options: Any) -> int:
        project.run(train__steps=step, train__keep=3, **options)
        manifest = project.run_directory / "checkpoints" / f"model.ckpt-{step}.json"
        found: int = json.loads(manifest.read_text())["seed"]
        return found

    first = seed(1)
    assert seed(2, train__seed=0) == 0
    assert seed(3, resume="must") == 0
    assert seed(1, resume="never") not in {0, first}


def test_a_run_ends_early_at_its_best_checkpoint(project: Project) -> None:
    """That is tested, and kept beside the last. If it cannot be read, the last is tested, with a warning."""
    settings = {"train__best": 'lowest("loss")', "train__evaluate_every": 1, "train__keep": 1}
    good = project.run(train__steps=3, **settings)
    changed = {"update__optimizer": "SGD(40.0)", "train__patience": 2, "train__steps": 99, **settings}
    result = project.run(**changed)
    assert (result.best, result.best.step, result.steps, result.stopped_early) == (good.best, 3, 5, True)
    assert (result.test, project.steps("test")) == (good.test, [1, 2, 3, 4, 5])
    folder = project.run_directory / "checkpoints"
    assert {each.name for each in folder.glob("model*.json")} == {"model.ckpt-3.json", "model.ckpt-5.json"}
    kept = {"step": 3, "goal": "lowest", "score": "loss", "value": good.test.loss}
    assert json.loads((folder / "best.json").read_text()) == kept
    data = folder / "model.ckpt-3.data-00000-of-00001"
    data.write_bytes(bytes(each ^ 255 for each in data.read_bytes()))
    for reason in ("", "it was not written to its end"):
        told = Listener()
        again = project.run(**changed, reporter=told)
        assert (again.best, again.steps, again.stopped_early) == (good.best, 5, True)
        assert again.test.loss > good.test.loss
        (warning,) = told.warnings
        assert warning.code == "TFD734"
        assert warning.message.startswith(
            f"the checkpoint `{folder / 'model.ckpt-3'}` is passed over: {reason}"
        )
        (folder / "model.ckpt-3.json").unlink(missing_ok=True)


@pytest.mark.full
def test_clones_that_update_by_themselves(project: Project) -> None:
    """In async training steps are counted exactly, over an evaluation, a checkpoint and a resume."""
    more = {"update__mode": "async", "train__deterministic": False, "train__log_every": 10}
    more |= {"clones__count": 3, "devices__cpu": 3, "train__keep": 5}
    project.run(train__steps=25, train__evaluate_every=20, train__checkpoint_every=15, **more)
    folder = project.run_directory / "checkpoints"
    manifests = {each.name: json.loads(each.read_text()) for each in folder.glob("model*.json")}
    assert {name: each["examples"] for name, each in manifests.items()} == {
        "model.ckpt-15.json": 15 * 4,
        "model.ckpt-25.json": 25 * 4,
    }
    result = project.run(train__steps=60, **more)
    assert (result.resumed_from, result.steps) == (25, 60)
    assert (project.variables(15)["global_step"], project.variables(60)["global_step"]) == (15, 60)
    assert project.steps() == [10, 20, 25, 30, 40, 50, 60]
    assert project.steps("test") == [20, 25, 60]
    lines = [each for each in project.history() if each["split"] == "train"]
    assert [each["learning_rate"] for each in lines] == pytest.approx([0.1] * 7)
    assert result.test.loss < 1.0


@pytest.mark.family(every=3)
@pytest.mark.parametrize("gone", ["spec.tfdeploy", "history.jsonl", "checkpoints/model.ckpt-2.json"])
def test_a_run_notices_files_that_are_gone(project: Project, gone: str) -> None:
    """Its spec, history and newest manifest; its map is written again."""

    def remove() -> None:
        for each in (gone, "placement.json"):
            (project.run_directory / each).unlink()

    found = refusal(project.run, train__steps=2, reporter=Acting(("test", remove)))
    assert str(project.run_directory / gone) in found.message
    assert (project.run_directory / "placement.json").exists()


@pytest.mark.full
def test_workers_with_graphs_of_their_own_are_threads_if_they_are_emulated(project: Project) -> None:
    """The chief ends with the weights of one clone that has the examples of both."""
    project.run(train__steps=5, clones__batch=8)
    one, losses = project.variables(5), [each["loss"] for each in project.history()]
    project.write(f'{SPEC}devices {{ job "worker" {{ tasks = 2 }} }}')
    more = {"update__replication": "between_graph", "resume": "never", "emulate": True}
    assert project.run(train__steps=5, **more).steps == 5
    assert [each["loss"] for each in project.history()] == pytest.approx(losses, rel=1e-4)
    found = project.variables(5)
    assert found.keys() == one.keys()
    for name, each in found.items():
        np.testing.assert_allclose(each, one[name], rtol=1e-4, atol=1e-6, err_msg=name)
