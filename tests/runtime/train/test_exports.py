"""Results for other tools: TensorBoard's files and a SavedModel."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from tests.runtime.conftest import Project
from tests.runtime.train.test_evaluation import digits, forward
from tfdeploy.cli.group import load
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.train.events import Events


def events_of(folder: Path) -> list[Any]:
    """Return every event in the files of a folder, read by TensorFlow."""
    (path,) = folder.iterdir()
    return list(tf.compat.v1.train.summary_iterator(str(path)))


def read_back(folder: Path) -> Any:
    """Return the events of a folder as TensorBoard's own reader has them, none of them left out."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    everything = {"scalars": 0, "histograms": 0, "tensors": 0}
    return EventAccumulator(str(folder), size_guidance=everything).Reload()


def curves(read: Any) -> dict[str, dict[int, float]]:
    """Return the values of each scalar by step."""
    return {tag: {each.step: each.value for each in read.Scalars(tag)} for tag in read.Tags()["scalars"]}


def lines(project: Project, split: str) -> dict[str, dict[int, float]]:
    """Return the same of the history of a run."""
    found: dict[str, dict[int, float]] = {}
    for line in project.history():
        figures = {**line, **line["metrics"]}
        for name in ("loss", "data_loss", "accuracy", "learning_rate", "examples_per_second", "data_waiting"):
            if line["split"] == split and figures.get(name) is not None:
                found.setdefault(name, {})[line["step"]] = figures[name]
    return found


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project after 20 steps with two evaluations."""
    made = Project(tmp_path_factory.mktemp("exports"))
    made.run(train__steps=20, train__evaluate_every=10)
    return made


@pytest.mark.full
def test_tensorboard_reads_the_curves(run_once: Project) -> None:
    """The scalars of every split are those of the history: scores, learning rate and examples per second."""
    project = run_once
    for split in ("train", "test"):
        drawn, written = curves(read_back(project.run_directory / "events" / split)), lines(project, split)
        assert drawn.keys() == written.keys()
        for name, values in written.items():
            rounded = 0.051 if name == "examples_per_second" else 0.0  # it is written down to a tenth
            assert drawn[name] == pytest.approx(values, rel=1e-4, abs=rounded), name
    assert {"learning_rate", "examples_per_second"} <= lines(project, "train").keys()


@pytest.mark.full
def test_tensorboard_reads_histograms_graph_and_map(project: Project) -> None:
    """Histograms of gradients and weights count all elements; ops have devices; the map is there as text."""
    project.run(train__steps=20, train__summaries="all")
    read = read_back(project.run_directory / "events" / "train")
    names = ("hidden/kernel", "hidden/bias", "logits/kernel", "logits/bias")
    assert {*read.Tags()["histograms"]} == {
        f"{kind}/{name}" for kind in ("gradients", "weights") for name in names
    }
    histograms = read.Histograms("weights/hidden/kernel")
    assert [each.step for each in histograms] == [10, 20]
    value = histograms[-1].histogram_value
    assert (value.num, sum(value.bucket)) == (64 * 16, 64 * 16)
    assert -1 < value.min < 0 < value.max < 1
    (text,) = read.Tensors("placement")
    assert text.step == 1
    assert "cpu[1]" in tf.make_ndarray(text.tensor_proto)[0].decode()
    assert read.SummaryMetadata("placement").plugin_data.plugin_name == "text"
    devices = {node.device.rpartition(":")[2] for node in read.Graph().node if node.op == "MatMul"}
    assert devices == {"0", "1"}


@pytest.mark.full
def test_tensorboard_reads_a_run_that_was_gone_on_with_as_one(project: Project, run_once: Project) -> None:
    """What was made again, after the last checkpoint, takes the place of what was there."""
    shutil.copytree(run_once.run_directory, project.run_directory)
    events = project.run_directory / "events" / "train"
    (first,) = events.iterdir()
    writer = Events(events.parent, None)
    writer.write(HistoryRecord(30, "train", 9.0, 9.0))  # as of a process that was killed
    writer.close()
    project.run(train__steps=40)
    assert len([*events.iterdir()]) == 3
    assert first in events.iterdir()
    read = read_back(events)
    assert curves(read)["loss"] == pytest.approx(lines(project, "train")["loss"])
    assert [each.step for each in read.Tensors("placement")] == [1, 21]  # after the first step of each


@pytest.mark.full
def test_a_saved_model_predicts_the_same(run_once: Project) -> None:
    """TensorFlow alone loads what `export` writes; a folder that is there is not touched."""
    project = run_once
    folder = project.folder / "saved"
    arguments = [str(project.spec), "--saved-model", str(folder)]
    arguments += ["--set", f"train.directory={project.run_directory}"]
    done = CliRunner().invoke(load("export"), arguments, standalone_mode=False)
    assert (done.return_value, done.stdout) == (0, f"{folder}\n")
    images, _ = digits("test")
    loaded = tf.saved_model.load(str(folder))  # which its functions need to live on
    found = loaded.serve(tf.constant(images, tf.float32)).numpy()
    expected = forward(project.variables(20), images, suffix="/ExponentialMovingAverage")
    assert np.max(np.abs(found - expected)) < 1e-5
    again = CliRunner().invoke(load("export"), arguments)
    assert again.exit_code == 2
    assert "is there already" in again.stderr
