"""A run says when TensorFlow put ops elsewhere than the spec asks for."""

from __future__ import annotations

import json
import re

import pytest

from tests.runtime.conftest import Project


@pytest.mark.full
def test_moved_ops_are_told_of_once(project: Project) -> None:
    """With soft placement and a GPU that is not there the run goes on, warns, and the map has the moves."""
    place = "place {\n  clones -> [gpu[999], cpu[0]]\n}\n"
    spec = project.spec.read_text().replace(
        "cpu = 4", "cpu = 1\n  gpu = 1000  # tfdeploy: allow(unused-device)\n  soft_placement = true"
    )
    project.write(spec + place)
    process = project.start("--set", "train.steps=2")
    _, said = process.communicate()
    assert process.returncode == 0
    assert said.count("warning[") == 1
    found = re.search(
        r"TFD515]: (\d+) ops ran on another device than requested: (\d+) from `gpu\[999]` to `cpu\[0]`", said
    )
    moved = json.loads((project.run_directory / "placement.json").read_text())["misplaced"]
    assert {(op["requested"], op["assigned"]) for op in moved} == {("gpu[999]", "cpu[0]")}
    assert found is not None
    assert 0 < int(found[1]) == int(found[2]) <= len(moved)  # evaluation comes later
