"""Labels that the model has no class for are told in words, at the loss that they spoil."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.runtime.conftest import Project


def test_labels_out_of_range(project: Project) -> None:
    """Both clones fail at once; the message has the first fault, its clone, and the line of the loss."""
    project.write(project.spec.read_text().replace("Dense(10,", "Dense(2,"))
    process = project.start(
        "--set", "train.deterministic=false"
    )  # which TensorFlow keeps for a whole process
    _, said = process.communicate()
    first, place, *_ = said.splitlines()
    assert process.returncode == 2
    assert first.startswith("error[TFD738]: step 1 failed, in clone ")
    assert ": Received a label value of " in first
    assert " which is outside the valid range of [0, 2)." in first
    assert place.strip() == f"--> {project.spec}:11:10"
    assert "loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)" in said
