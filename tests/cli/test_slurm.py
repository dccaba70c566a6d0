"""`export --slurm`: the script runs, with programs in place of Slurm's that do what its manual says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.runtime.tasks import SPEC

SRUN = """#!{python}
import os, subprocess, sys
count = int(sys.argv[1].removeprefix("--ntasks="))
step = {{"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": str(count), "SLURM_STEP_NODELIST": "localhost"}}
step |= {{**os.environ, "SLURM_NODEID": "0"}}
started = [
    subprocess.Popen(sys.argv[2:], env={{**step, "SLURM_PROCID": str(each)}})
    for each in range(count)
]
sys.exit(max(each.wait() for each in started))
"""


def put(folder: Path, name: str, text: str) -> None:
    """Write a program."""
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """Return a spec of one parameter server and two workers."""
    path = tmp_path / "small.tfdeploy"
    path.write_text(SPEC.format(ps="tasks = 1", worker="tasks = 2\n gpu = 2"))
    return path


def test_the_script_asks_for_what_the_tasks_need(spec: Path, command: Command) -> None:
    """As many processes as tasks, one on each node, with the GPUs of the job that has most."""
    ended = command("export", str(spec), "--slurm", "--time", "1-2:00", "--name", "mine", "--allow-python")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == "#!/bin/bash"
    for each in (
        "job-name=mine",
        "ntasks=3",
        "ntasks-per-node=1",
        "gpus-per-node=2",
        "time=1-2:00",
        "requeue",
    ):
        assert f"#SBATCH --{each}" in lines
    assert f"srun --ntasks=3 compile-and-run {spec} --allow-python" in lines
    command.write("-s.tfdeploy", spec.read_text())
    assert " compile-and-run ./-s.tfdeploy\n" in command("export", "--slurm", "--", "-s.tfdeploy").out


def test_what_does_not_go_together_is_refused(spec: Path, command: Command) -> None:
    """So are times that Slurm would refuse later, and specs without jobs."""
    assert "'4h' is not of the form" in command("export", str(spec), "--slurm", "--time", "4h").err
    assert "--image goes with --kubernetes\n" in command("export", str(spec), "--slurm", "--image", "i").err
    assert (
        "--time goes with --slurm\n" in command("export", str(spec), "--kubernetes", "--time", "1:00:00").err
    )
    named = spec.with_name("my spec.tfdeploy")
    named.write_text(spec.read_text())
    assert "#SBATCH --job-name='my spec'\n" in command("export", str(named), "--slurm").out
    assert "export needs one of" in command("export", str(spec)).err
    spec.write_text(
        spec.read_text().replace('job "ps" { tasks = 1 }', "").replace('job "worker" {', "cpu = 1 #")
    )
    spec.write_text(spec.read_text().replace("\n gpu = 2 }", ""))
    assert "TFD785" in command("export", str(spec), "--slurm").err


@pytest.mark.parametrize(
    ("time", "enough"),
    [
        ("0:0:30", False),
        ("0:2:0", False),
        ("0:2:1", True),
        ("2:00", False),
        ("2:01", True),
        ("2", False),
        ("3", True),
        ("0-0:02", False),
        ("0-0:03", True),
        ("0-1", True),
        ("0", True),
        ("0:0:0", True),
    ],
)
def test_a_time_in_which_nothing_can_be_trained_is_refused(
    spec: Path, command: Command, time: str, *, enough: bool
) -> None:
    """A job is told to end two minutes before its end; a time of nothing is no limit."""
    ended = command("export", str(spec), "--slurm", "--time", time)
    assert (ended.code == 0) == enough
    assert (f"'{time}' leaves no time to train" in " ".join(ended.err.split())) != enough


@pytest.mark.parametrize(("code", "queued"), [(143, "requeue 8\n"), (1, ""), (0, "")])
def test_a_job_that_was_ended_is_queued_again(
    spec: Path, tmp_path: Path, command: Command, code: int, queued: str
) -> None:
    """Its processes have written a checkpoint; a job with an error is not begun again."""
    script = tmp_path / "out" / "small.sh"
    assert command("export", str(spec), "--slurm", "--out", str(script.parent)).code == 0
    programs = tmp_path / "programs"
    programs.mkdir()
    put(programs, "srun", f"#!/bin/sh\nexit {code}\n")
    put(programs, "scontrol", f'#!/bin/sh\necho "$@" >> {tmp_path}/queued\n')
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "SLURM_JOB_ID": "8"}
    assert subprocess.run(["/bin/bash", str(script)], env=environment, check=False).returncode == code
    found = tmp_path / "queued"
    assert (found.read_text() if found.exists() else "") == queued


@pytest.mark.full
def test_the_script_trains(spec: Path, tmp_path: Path, command: Command) -> None:
    """All tasks find each other, and the exit code is that of the run."""
    spec.write_text(spec.read_text().replace("\n gpu = 2", ""))
    ended = command("export", str(spec), "--slurm", "--set", "train.directory=runs/small")
    programs = tmp_path / "programs"
    programs.mkdir()
    put(programs, "srun", SRUN.format(python=sys.executable))
    environment = {**os.environ, "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["/bin/bash"],
        input=ended.out,
        env={**environment, "SLURM_JOB_ID": "8"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "finished at step 20" in done.stdout
    assert (tmp_path / "runs" / "small" / "model.keras").exists()
