"""Labels that the model has no class for are told in words, at the loss that they spoil."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsl.diagnostics import RunError

if TYPE_CHECKING:
    from tests.runtime.conftest import Project


def test_labels_out_of_range(project: Project) -> None:
    """Both clones fail at once; the message has the first fault, its clone, and the line of the loss."""
    project.write(project.spec.read_text().replace("Dense(10,", "Dense(2,"))
    with pytest.raises(RunError) as caught:
        project.run(train__deterministic=False)
    found = caught.value.diagnostic
    assert found.code == "TFD738"
    assert found.message.startswith("step 1 failed, in clone ")
    assert ": Received a label value of " in found.message
    assert " which is outside the valid range of [0, 2)." in found.message
    assert found.span is not None
    assert found.span.text == "[digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)"
