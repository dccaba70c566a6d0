"""Labels that the model has no class for are told in words, at the loss that they spoil."""

from __future__ import annotations

from tests.runtime.conftest import DIGITS, Project


def test_labels_out_of_range(project: Project) -> None:
    """Both clones fail at once; the message has the first such label of the file, and the loss."""
    project.write(project.spec.read_text().replace("Dense(10,", "Dense(2,"))
    process = project.start(
        "--set", "train.deterministic=false"
    )  # which TensorFlow keeps for a whole process
    _, said = process.communicate()
    labels = [int(line.rpartition(",")[2]) for line in (DIGITS / "train.csv").read_text().splitlines()[1:]]
    at = next(at for at, each in enumerate(labels) if each > 1)
    place = f"`{DIGITS / 'train.csv'}`, row {at + 2}, column `digit`"
    first, *_ = said.splitlines()
    assert process.returncode == 2
    assert first == f"error[TFD707]: {place}: `{labels[at]}` is outside the range of 0 to 1"
    assert f"::: {project.spec}:" in said
    assert "loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)" in said
    assert "takes 0 to 1" in said
