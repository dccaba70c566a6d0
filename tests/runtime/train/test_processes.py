"""Runs as processes: killed, interrupted, terminated, and gone on with."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.runtime.conftest import Project
from tests.runtime.train import kills

PATIENCE = 120.0
LONG = ("--set", "train.steps=100000", "--set", "train.checkpoint_every=20")


def wait_for_step(project: Project, process: subprocess.Popen[str], step: int) -> None:
    """Wait until the history has a line of `step` or later."""
    path = project.run_directory / "history.jsonl"
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        lines = path.read_text().splitlines()[:-1] if path.exists() else []
        if lines and json.loads(lines[-1])["step"] >= step:
            return
        time.sleep(0.02)
    pytest.fail(f"step {step} was not reached")


@pytest.mark.full
def test_a_run_goes_on_without_its_output(project: Project) -> None:
    """The run warns once, and ends as it would, unless it was to write its result there."""
    for more, code in (((), 0), (("--json", "--resume", "never"), 2)):
        with Path("/dev/full").open("w") as full:
            process = project.start("--set", "train.steps=20", *more, stdout=full)
            _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, errors
        assert errors.startswith(
            "warning[TFD796]: standard output cannot be written: no space left on device"
        )
        assert errors.count("warning[") == 1
        assert errors.count("error[TFD796]") == (code != 0)
        assert project.steps() == [10, 20]
        assert (project.run_directory / "model.keras").exists()


@pytest.mark.full
@pytest.mark.parametrize("whole", [pytest.param(True, id="terminal"), pytest.param(False, id="reader")])
def test_a_run_goes_on_when_its_terminal_goes(project: Project, *, whole: bool) -> None:
    """Whoever reads the output ends in the middle, and the terminal sends SIGHUP."""
    process = project.start("--set", "train.steps=400")
    try:
        wait_for_step(project, process, 20)
        if whole:
            process.send_signal(signal.SIGHUP)
        for reader in (process.stdout, process.stderr):
            reader.close()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
    assert project.steps() == list(range(10, 401, 10))


def newest(project: Project) -> int:
    """Return the step of the newest checkpoint."""
    manifests = (project.run_directory / "checkpoints").glob("*.json")
    return max(json.loads(path.read_text())["step"] for path in manifests)


def test_a_killed_run_goes_on(project: Project) -> None:
    """After kill -9 the next run goes on from the last checkpoint, and ends at the wanted step."""
    process = project.start(*LONG)
    try:
        wait_for_step(project, process, 40)
    finally:
        process.kill()
        process.communicate()
    step = newest(project)
    result = project.run(train__steps=step + 30)
    assert (result.status, result.steps) == ("finished", step + 30)
    assert result.resumed_from == step
    assert step % 20 == 0
    assert project.steps() == list(range(10, step + 31, 10))
    assert (project.variables(step + 30)["global_step"]) == step + 30


@pytest.mark.full
@pytest.mark.parametrize(
    ("number", "code", "status"),
    [
        pytest.param(signal.SIGINT, 130, "interrupted", marks=pytest.mark.full),
        (signal.SIGTERM, 143, "terminated"),
    ],
)
def test_a_signal_ends_a_run_after_a_checkpoint(
    project: Project, number: signal.Signals, code: int, status: str
) -> None:
    """The step in hand is saved, the exit code says which signal, and the next run goes on from there."""
    process = project.start(*LONG, "--json")
    try:
        wait_for_step(project, process, 60)
        process.send_signal(number)
        output, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, errors) == (code, "")
    result = json.loads(output.splitlines()[-1])
    assert result == json.loads((project.run_directory / "result.json").read_text())
    assert (result["status"], result["steps"]) == (status, newest(project))
    assert not (project.run_directory / "model.keras").exists()
    again = project.run(train__steps=result["steps"] + 5)
    assert (again.resumed_from, again.steps) == (result["steps"], result["steps"] + 5)


@pytest.mark.full
def test_no_end_leaves_a_run_that_cannot_go_on(tmp_path: Path) -> None:
    """Killed, interrupted, terminated, with a full disk, one after the other, it ends as if undisturbed."""
    ordeal = kills.run(tmp_path, times=4, seed=3)
    assert {each.blow.way for each in ordeal.outcomes} == set(kills.WAYS)
