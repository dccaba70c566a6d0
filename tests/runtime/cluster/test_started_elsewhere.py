"""Clusters whose processes something else has started, as Slurm, MPI, torchrun and people do."""

import json
import os
import re
import signal
from collections.abc import Callable

import pytest

from tests.runtime.tasks import Process, Tasks
from tfdeploy.runtime.membership.addresses import Task
from tfdeploy.runtime.membership.membership import gpus_of

COUNTED = {"ps": "tasks = 1", "worker": "tasks = 2"}
KILLED = 128 + signal.SIGTERM


def slurm(rank: int) -> dict[str, str]:
    """Return what Slurm sets for a process of a step of three on one machine."""
    return {
        "SLURM_JOB_ID": "9",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NUM_TASKS": "3",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NODEID": "0",
    }


def torchrun(rank: int) -> dict[str, str]:
    """Return what a launcher like torchrun sets, with an address for those that it starts."""
    port = os.environ["TFDEPLOY_TEST_PORT"]
    return {"RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}


def started(
    tasks: Tasks, environment: Callable[[int], dict[str, str]], *options: str
) -> tuple[Process, Process, Process]:
    """Start three processes with the same command."""
    tasks.write(**COUNTED)
    command = ("compile-and-run", str(tasks.spec), *options)
    ps, chief, worker = (tasks.start(*command, **environment(rank)) for rank in range(3))
    return ps, chief, worker


@pytest.mark.parametrize(
    ("environment", "replication"),
    [
        pytest.param(slurm, "in_graph", id="slurm, one graph"),
        pytest.param(slurm, "between_graph", id="slurm, a graph each", marks=pytest.mark.full),
        pytest.param(torchrun, "between_graph", id="torchrun", marks=pytest.mark.full),
    ],
)
def test_one_command_in_all_processes_is_a_run(
    tasks: Tasks,
    monkeypatch: pytest.MonkeyPatch,
    environment: Callable[[int], dict[str, str]],
    replication: str,
) -> None:
    """Each process is the task of its number; all end with the run, and nothing is left where they met."""
    monkeypatch.setenv("TFDEPLOY_TEST_PORT", str(tasks.ports[0]))
    own = ("--set", f"update.replication={replication}", "--set", "train.directory=runs/small", "--json")
    ps, chief, worker = started(tasks, environment, *own)
    assert [each.end() for each in (ps, chief, worker)] == [0, 0, 0], chief.text
    result = json.loads(next(line for line in chief.lines if line.startswith("{")))
    assert (result["status"], result["steps"]) == ("finished", 20)
    assert ps.until("listens").startswith("ps:0 listens at 127.0.0.1:")
    assert worker.until("listens").startswith("worker:1 listens at 127.0.0.1:")
    assert [each.name for each in (tasks.folder / "runs").iterdir()] == ["small"]


@pytest.mark.full
@pytest.mark.parametrize("replication", ["in_graph", "between_graph"])
def test_a_signal_to_all_processes_at_once_gives_a_checkpoint(tasks: Tasks, replication: str) -> None:
    """As Slurm sends it before the end of a job's time: servers stay until the chief has ended."""
    more = (
        f"update.replication={replication}",
        "train.steps=1000000",
        "train.directory=runs/small",
        "train.log_every=10",
    )
    ps, chief, worker = started(tasks, slurm, *(word for each in more for word in ("--set", each)))
    chief.until("examples/s")
    for each in (ps, worker, chief):
        each.send(signal.SIGTERM)
    assert [each.end() for each in (chief, ps, worker)] == [KILLED] * 3
    assert "terminated at step" in chief.text
    assert list((tasks.folder / "runs" / "small" / "checkpoints").glob("*.index"))
    assert chief.text.count("interrupted") == 0


@pytest.mark.full
def test_tasks_meet_in_a_folder_and_a_killed_one_is_replaced(tasks: Tasks) -> None:
    """Nobody says which task a process is. `status` finds those that have met beside the run directory."""
    tasks.write(**COUNTED)
    meeting = tasks.folder / "runs" / ".small.meeting"
    own = (
        "--join",
        str(meeting),
        "--set",
        "update.replication=between_graph",
        "--set",
        "train.steps=600",
        "--set",
        "train.log_every=10",
    )
    command = ("compile-and-run", str(tasks.spec), *own, "--set", "train.directory=runs/small")
    by_task = {}
    for number, task in enumerate(("ps:0", "worker:0", "worker:1"), 1):
        by_task[task] = tasks.start(*command)
        by_task[task].wait_for(lambda: len(list(meeting.glob("*.json"))) >= number)  # noqa: B023
    by_task["worker:0"].until("examples/s")
    by_task["worker:1"].process.kill()
    by_task["worker:1"].end()
    again = tasks.start(*command)
    assert again.until("listens").split()[0] == "worker:1"
    assert again.until("listens") == by_task["worker:1"].until("listens")
    status = tasks.start("status", str(tasks.spec), *own[2:], "--set", "train.directory=runs/small")
    assert status.end() == 0, status.text
    assert status.text.count("up for") == 3
    ended = [each.end() for each in (by_task["worker:0"], by_task["ps:0"], again)]
    assert ended == [0, 0, 0], by_task["worker:0"].text
    assert "finished at step 600" in by_task["worker:0"].text
    assert not meeting.exists()


@pytest.mark.full
@pytest.mark.parametrize(("slurms", "victim"), [(True, 0), (True, 1), (False, 1)])
def test_workers_without_servers_survive_a_kill(tasks: Tasks, *, slurms: bool, victim: int) -> None:
    """However they find each other: the process that takes the place goes on at the step of the others."""
    text = tasks.spec.read_text()
    tasks.spec.write_text(re.sub(r"(?s)devices \{.*?\n\}", 'devices { job "worker" { tasks = 2 } }', text))
    more = ("train.steps=4000", "train.log_every=10", "train.directory=runs/small")
    own = [word for each in more for word in ("--set", each)] + ([] if slurms else ["--join", "meet"])

    def start(number: int) -> Process:
        environment = slurm(number) | {"SLURM_STEP_NUM_TASKS": "2"} if slurms else {}
        task = () if slurms else ("--task", f"worker:{number}")
        return tasks.start("compile-and-run", str(tasks.spec), *own, *task, **environment)

    both = [start(0), start(1)]
    both[0].until("examples/s")
    both[victim].process.kill()
    both[victim].end()
    both[victim] = start(victim)
    assert [each.end() for each in both] == [0, 0], both[0].text
    assert both[0].text.count("finished at step 4,000") == 1
    first = int(re.findall(r"going on from step ([\d,]+)", both[0].text)[0].replace(",", ""))
    assert first >= 10  # what the one that was left had made, and no checkpoint, of which there is none


@pytest.mark.full
@pytest.mark.parametrize("replication", ["in_graph", "between_graph"])
def test_a_program_in_python_meets_the_tasks(tasks: Tasks, replication: str) -> None:
    """It is the chief, whose place is free, although the first place of all is."""
    tasks.write(**COUNTED)
    own = ("--join", "meeting", "--set", f"update.replication={replication}")
    command = ("compile-and-run", str(tasks.spec), *own)
    others = [tasks.start(*command, "--task", each) for each in ("worker:1", "ps:0")]
    script = (
        "import sys, tfdeploy; spec = tfdeploy.load('small.tfdeploy', {'update.replication': sys.argv[1]})\n"
    )
    script += "print(tfdeploy.run(spec, join='meeting').steps)"
    chief = tasks.start_script(script, replication)
    assert chief.end() == 0, chief.text
    assert chief.lines[-1] == "20"
    assert [each.end() for each in others] == [0, 0]


@pytest.mark.parametrize(
    ("options", "environment", "words"),
    [
        pytest.param((), {"RANK": "0", "WORLD_SIZE": "2"}, "has started 2 processes, and", id="too few"),
        pytest.param((), {"RANK": "0", "WORLD_SIZE": "x"}, "`WORLD_SIZE` in the environment", id="no number"),
        pytest.param(("--join", "meet", "--task", "worker:7"), {}, "TFD761", id="no such task"),
        pytest.param(
            ("--join", "meet", "--set", "train.task_timeout=1s"), {}, "TFD763", id="nobody else comes"
        ),
        pytest.param(("--join", "small.tfdeploy"), {}, "TFD788", id="no folder"),
        pytest.param((), {"RANK": "3", "WORLD_SIZE": "3"}, "is not less than `WORLD_SIZE`", id="from one"),
        pytest.param(("--join", "."), {}, "the folder has other files, such as", id="a folder in use"),
        pytest.param(("--join", "localhost:99999"), {}, "ports are 1 to 65535", id="no port"),
    ],
)
def test_what_cannot_be_a_cluster_is_refused(
    tasks: Tasks, options: tuple[str, ...], environment: dict[str, str], words: str
) -> None:
    """The message comes before TensorFlow is started, and the exit code is 1 or 2."""
    tasks.write(**COUNTED)
    process = tasks.start("compile-and-run", str(tasks.spec), *options, **environment)
    assert process.end() in {1, 2}
    assert words in process.text
    assert "listens" not in process.text


def test_a_manager_starts_one_command_everywhere(tasks: Tasks) -> None:
    """`serve` names it, because the process of a server runs it as any other."""
    tasks.write(**COUNTED)
    process = tasks.start("serve", str(tasks.spec), **slurm(0))
    assert process.end() == 2
    assert "every process that Slurm starts runs `compile-and-run SPEC`, which also serves" in process.text


def test_tasks_of_one_machine_share_its_gpus(tasks: Tasks) -> None:
    """Those of other machines do not count, and a process that was given its own GPUs keeps them."""
    tasks.write("tasks = 1", "tasks = 3\n gpu = 2")
    spec = tasks.load()
    of_job = [Task("worker", each) for each in range(3)]
    assert gpus_of(spec, of_job[2], None, (Task("ps", 0), of_job[0], of_job[2])) == "2,3"
    assert gpus_of(spec, of_job[2], "4,5,6,7", of_job[1:]) == "6,7"
    assert gpus_of(spec, of_job[2], "4,5", of_job) is None
    assert gpus_of(spec, Task("ps", 0), None, of_job) is None
