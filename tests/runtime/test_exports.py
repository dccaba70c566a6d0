"""Results for other tools: TensorBoard's files and a SavedModel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests.runtime.test_evaluation import digits, forward
from tfdeploy.cli.group import load

if TYPE_CHECKING:
    from pathlib import Path

    from tests.runtime.conftest import Project


def events_of(folder: Path) -> list[Any]:
    """Return every event in the files of a folder, read by TensorFlow."""
    import tensorflow as tf

    (path,) = folder.iterdir()
    return list(tf.compat.v1.train.summary_iterator(str(path)))


def test_events_read_back(project: Project) -> None:
    """Scalars are those of the history; histograms, the graph with devices and the map as text are there."""
    import tensorflow as tf

    project.run(train__steps=20, train__summaries="all")
    events = events_of(project.run_directory / "events" / "train")
    values = [(event.step, value) for event in events for value in event.summary.value]
    losses = {step: value.simple_value for step, value in values if value.tag == "loss"}
    history = {line["step"]: line["loss"] for line in project.history() if line["split"] == "train"}
    assert losses == pytest.approx(history)
    assert {"accuracy", "learning_rate", "examples_per_second"} <= {value.tag for _, value in values}
    histograms = {value.tag for _, value in values if value.WhichOneof("value") != "simple_value"}
    assert {"gradients/hidden/kernel", "weights/hidden/kernel", "placement"} <= histograms
    text = next(value for _, value in values if value.tag == "placement")
    assert text.metadata.plugin_data.plugin_name == "text"
    assert "cpu[1]" in tf.make_ndarray(text.tensor)[0].decode()
    graph = tf.compat.v1.GraphDef.FromString(next(each.graph_def for each in events if each.graph_def))
    assert {node.device.rpartition(":")[2] for node in graph.node if node.op == "MatMul"} == {"0", "1"}
    tested = events_of(project.run_directory / "events" / "test")
    assert [value.tag for event in tested for value in event.summary.value][:2] == ["loss", "data_loss"]


def test_a_saved_model_predicts_the_same(project: Project) -> None:
    """TensorFlow alone loads what `export` writes; a folder that is there is not touched."""
    import tensorflow as tf

    project.run(train__steps=20)
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
