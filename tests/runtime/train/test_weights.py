"""Starting from weights that Keras has saved."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dsl.diagnostics import RunError
from tests.runtime.conftest import Project

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the model of a run of the spec, which no test changes."""
    project = Project(tmp_path_factory.mktemp("trained"))
    project.run(train__steps=10)
    return project.run_directory / "model.keras"


@pytest.mark.family(every=2)
@pytest.mark.parametrize("name", ["start.keras", "start.weights.h5"])
def test_a_run_starts_from_them(project: Project, trained: Path, name: str) -> None:
    """Both of Keras's files give every weight, and its moving average, the value it has there."""
    import keras

    model = keras.saving.load_model(trained, compile=False)
    path = project.folder / name
    model.save(path) if name.endswith(".keras") else model.save_weights(path)
    project.run(train__steps=1, train__weights=name, update__optimizer="SGD(1e-30)")
    started = project.variables(1)
    for variable in model.trainable_variables:
        assert np.array_equal(started[variable.path], variable.numpy()), variable.path
        assert np.array_equal(started[f"{variable.path}/ExponentialMovingAverage"], variable.numpy())


def test_every_weight_that_does_not_fit_is_named(project: Project, trained: Path) -> None:
    """Weights in another shape, without a place and missing are all named, at the line of the spec."""
    shutil.copy(trained, project.folder / "start.keras")
    text = project.spec.read_text()
    text = text.replace("Dense(16,", "Dense(24,").replace('name = "logits")', 'name = "digits")')
    project.write(text.replace("steps = 60", 'steps = 60\n  weights = "start.keras"'))
    with pytest.raises(RunError) as caught:
        project.run()
    found = caught.value.diagnostic
    assert found.code == "TFD741"
    assert found.span is not None
    assert found.span.text == '"start.keras"'
    assert found.notes == (
        "`digits/bias` is not in the file",
        "`digits/kernel` is not in the file",
        "`hidden/bias` is [16] there and [24] here",
        "`hidden/kernel` is [64, 16] there and [64, 24] here",
        "the model has no place for `logits/0`, [16, 10]",
        "and 1 more",
    )


@pytest.mark.family(every=3)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.keras", "no such file or directory"),
        ("text.keras", "it is not a Keras archive"),
        ("text.weights.h5", "it is not an HDF5 file"),
    ],
)
def test_files_that_are_no_weights(project: Project, tmp_path: Path, name: str, reason: str) -> None:
    """A file that is not there or of another kind is said before anything is trained."""
    if name.startswith("text"):
        (tmp_path / name).write_text("no weights")
    with pytest.raises(RunError) as caught:
        project.run(train__weights=name)
    found = caught.value.diagnostic
    assert found.code == "TFD742"
    assert found.message == f"the weights in `{tmp_path / name}` cannot be read: {reason}"
