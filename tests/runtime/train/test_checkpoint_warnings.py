"""What a run says of checkpoints that cannot be written, or that lack what the spec now needs."""

from __future__ import annotations

import pytest

from tests.runtime.conftest import Listener, Project
from tests.support import refusal
from tfdeploy.runtime.records.lock import MARKER


@pytest.mark.full
def test_the_list_of_checkpoints_cannot_be_written(project: Project) -> None:
    """A folder in the place of the file by which TensorFlow finds checkpoints is told as what it is."""
    listed = project.run_directory / "checkpoints" / "checkpoint"
    listed.mkdir(parents=True)
    (listed / "in the way").touch()
    (project.run_directory / MARKER).touch()
    found = refusal(project.run, train__steps=2)
    assert found.code == "TFD733"
    assert found.message.startswith(f"`{listed}` cannot be written: ")
    assert project.run_directory.joinpath("checkpoints", "model.ckpt-2.json").exists()


@pytest.mark.full
def test_a_scale_that_a_checkpoint_lacks(project: Project) -> None:
    """A run that goes on with loss scaling says that the precision was changed."""
    project.run(train__steps=4)
    listener = Listener()
    project.run(train__steps=8, update__precision="mixed_float16", reporter=listener)
    (found,) = listener.warnings
    assert found.notes == (
        "the missing variables get their initial values",
        "`precision` has been changed since",
    )
