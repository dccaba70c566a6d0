"""Profiles of a few steps of a run."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

import grammar
from compiler.graph.build import compile_step
from compiler.pipeline import make_plan
from compiler.step.read.held import held_by_device
from compiler.step.read.memory import forecast_memory
from compiler.time.measured_trace import read_trace
from tests.docs.test_schemas import validator
from tests.runtime.conftest import Project
from tfdeploy.cli.group import load


def invoke(arguments: list[str]) -> Any:
    """Run the command in this process; `return_value` is its exit code."""
    return CliRunner().invoke(load("compile-and-run"), arguments, standalone_mode=False)


def test_both_profiles_are_written(project: Project) -> None:
    """One is for TensorBoard, one has a track for each device; the steps are those of the run."""
    arguments = [str(project.spec), "--profile", "3", "--set", f"train.directory={project.run_directory}"]
    done = invoke([*arguments, "--set", "train.steps=20"])
    assert done.return_value == 0, done.stderr
    folder = project.run_directory / "profile"
    assert len(list(folder.glob("plugins/profile/*/*.xplane.pb"))) == 1
    trace = json.loads((folder / "trace.json").read_text())
    validator("trace").validate(trace)
    events = trace["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert {f"/job:localhost/replica:0/task:0/device:CPU:{at} Compute" for at in (0, 1)} <= tracks
    assert any("MatMul" in event["name"] for event in events)
    of_run = read_trace(folder / "trace.json")
    assert of_run.steps == 3
    assert "clone_1/logits/MatMul" in of_run.seconds()
    assert project.variables(20)["global_step"] == 20
    assert project.steps() == [10, 20]
    (told,) = (each for each in done.output.splitlines() if each.startswith("memory of a profiled step: "))
    step = compile_step(make_plan(grammar.load(project.spec))).step
    memory = forecast_memory(step)
    fullest = max(memory, key=lambda ref: memory[ref].bytes)
    found = re.search(rf"([\d.]+) KiB on {re.escape(fullest)}", told)
    assert found is not None, told
    needed = sum(held_by_device(step)[fullest].values()) + memory[fullest].bytes
    assert float(found[1]) * 1024 == pytest.approx(needed, rel=0.5)


@pytest.mark.full
def test_a_short_run_keeps_what_there_is(project: Project) -> None:
    """A run that ends before its profile does leaves the profile of the steps that it made."""
    arguments = [str(project.spec), "--profile", "50", "--set", f"train.directory={project.run_directory}"]
    done = invoke([*arguments, "--set", "train.steps=10"])
    assert done.return_value == 0, done.stderr
    assert len(list(project.run_directory.glob("profile/plugins/profile/*/*.xplane.pb"))) == 1


def test_clones_that_step_by_themselves_are_not_profiled(project: Project) -> None:
    """With `mode = async` there is no step to profile, which is said."""
    arguments = [str(project.spec), "--profile", "3", "--set", "update.mode=async"]
    done = invoke([*arguments, "--set", "train.deterministic=false"])
    assert done.return_value == 2
    assert "--profile needs clones that make their steps together" in done.stderr
