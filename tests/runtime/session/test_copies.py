"""Copies of variables after a resume: each equals the checkpoint, and training goes on as if unbroken."""

from __future__ import annotations

import numpy as np
import pytest

from tests.runtime.conftest import Project

PLACE = "place { clones -> [cpu[0], cpu[1]], variables -> replicated }\n"


@pytest.mark.full
@pytest.mark.parametrize(
    "settings",
    [
        {"place": PLACE, "update__optimizer": "Adam(1e-2)"},
        pytest.param(
            {"update__optimizer": "SGD(0.1)", "update__mode": "local", "update__average_every": "4"},
            marks=pytest.mark.full,
        ),
    ],
    ids=["replicated", "local"],
)
def test_a_resumed_run_has_the_checkpoint_in_every_copy(project: Project, settings: dict[str, str]) -> None:
    """Taken back to its checkpoint of step 4, a run ends at step 8 with the bits that it had before.

    A copy that had kept its initial values would change what its clone computes. In the local mode the copies
    are averaged at step 4, so that the checkpoint holds all there is.
    """
    project.write(project.spec.read_text() + settings.pop("place", ""))
    settings |= {"train__steps": "8", "train__checkpoint_every": "4"}
    project.run(**settings)
    unbroken = project.variables(8)
    before = project.variables(4)
    assert any((unbroken[name] != before[name]).any() for name in before)
    for path in (project.run_directory / "checkpoints").glob("model.ckpt-8.*"):
        path.unlink()
    assert project.run(**settings).resumed_from == 4
    resumed = project.variables(8)
    assert resumed.keys() == unbroken.keys()
    for name, value in resumed.items():
        np.testing.assert_array_equal(value, unbroken[name], err_msg=name)
