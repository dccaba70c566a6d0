"""Starting all tasks of a cluster as processes: what dies is started again, and none is left behind."""

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from dsl import ir
from tests.forked import words_of
from tests.patience import wait_until
from tests.runtime.tasks import Process, Tasks, is_pending
from tests.support import refusal_of
from tfdeploy import api
from tfdeploy.runtime.cluster.identity import ask, shut_down
from tfdeploy.runtime.launch import launcher as module
from tfdeploy.runtime.launch.launched_run import copied_spec
from tfdeploy.runtime.launch.launcher import Launcher, TaskCommand, gpus_of
from tfdeploy.runtime.membership.addresses import Task
from tfdeploy.runtime.plans import RunOptions

pytestmark = pytest.mark.usefixtures("forked_tasks")

PS, WORKER = Task("ps", 0), Task("worker", 0)

SCRIPT = """
import sys, time, grammar
from tfdeploy.runtime.launch.launcher import Launcher, TaskCommand
command = TaskCommand(grammar.load(sys.argv[1]), sys.argv[1])
with Launcher(command, lambda task, line, stream: print(line, flush=True), print) as launcher:
    while True:
        launcher.check_tasks()
        time.sleep(0.1)
"""


class Heard(list[str]):
    """What tasks and their launcher have said."""

    def on_line(self, task: Task, line: str, stream: str) -> None:
        """Take a line."""
        self.append(f"{task.ref} {stream} {line}")


def until(launcher: Launcher, holds: Callable[[], object], patience: float = 60.0) -> None:
    """Look after the tasks until something holds."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end
        launcher.check_tasks()
        time.sleep(0.05)


def pid_of(launcher: Launcher, task: Task) -> int:
    """Return the process of a task."""
    return launcher._children[task].process.pid


def processes_of(tasks: Tasks) -> list[int]:
    """Return the processes that have been started for the spec of a test, wherever they are."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            words = words_of(int(entry.name))
            if any(word.endswith("child.py") for word in words) and str(tasks.spec) in words:
                found.append(int(entry.name))
    return found


def none_left(tasks: Tasks, patience: float = 10.0) -> bool:
    """Whether all processes of a test end within a while."""
    end = time.monotonic() + patience
    while processes_of(tasks):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_what_is_killed_is_started_again_and_nothing_is_left(
    tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has ended comes back at its port, with the spec as it was; stopped ones end with the launcher."""
    monkeypatch.setattr(module, "FINISHING", 0.5)
    monkeypatch.setattr(module, "SHUTDOWN_TIME", 0.5)
    tasks.write("tasks = 1", "tasks = 1")
    heard, spec = Heard(), tasks.load()
    with (
        copied_spec(spec, [], RunOptions()) as later,
        Launcher(TaskCommand(spec, str(tasks.spec), later=later), heard.on_line, heard.append) as launcher,
    ):
        at = launcher.cluster.address(PS)
        assert re.fullmatch(r"127\.0\.0\.1:\d+", at)
        until(launcher, lambda: sum("listens" in line for line in heard) == 2)
        tasks.write("tasks = 7", "tasks = 7")
        first = pid_of(launcher, PS)
        os.kill(first, signal.SIGKILL)
        until(launcher, lambda: heard.count(f"ps:0 stdout ps:0 listens at {at}") == 2)
        assert "ps:0 was ended by SIGKILL; it is started again" in heard
        assert pid_of(launcher, PS) != first
        answer = ask(at, 10)
        assert answer.identity.spec_sha256 == launcher.client.spec_sha256
        secret = launcher.client.secret
        assert answer.identity.secret == secret.public_digest
        assert shut_down(at, 10, secret)
        until(launcher, lambda: heard.count(f"ps:0 stdout ps:0 listens at {at}") == 3)
        assert "ps:0 ended with exit code 0; it is started again" in heard
        assert launcher.finished == {}
        os.kill(pid_of(launcher, WORKER), signal.SIGSTOP)
        pids = [pid_of(launcher, PS), pid_of(launcher, WORKER)]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert launcher.failure is None


def test_a_task_that_says_what_is_wrong_is_not_started_again(tasks: Tasks) -> None:
    """Its message and its exit code are what the run ends with."""
    tasks.write("tasks = 1", "tasks = 1, gpu = 1")
    heard = Heard()
    command = TaskCommand(tasks.load(), str(tasks.spec))
    with Launcher(command, heard.on_line, heard.append) as launcher:
        until(launcher, lambda: launcher.failure)
    assert (launcher.failure.code, launcher.failure.message, launcher.failed) == (
        "TFD768",
        "`worker:0` ended with exit code 1",
        1,
    )
    assert "worker:0 stderr error[TFD504]: this machine has no `worker[0].gpu[0]`" in heard
    assert "error[TFD504]: this machine has no `worker[0].gpu[0]`" in launcher.failure.notes
    assert none_left(tasks, 0.0)


@pytest.mark.parametrize("executed", [False, pytest.param(True, marks=pytest.mark.full)])
def test_no_task_outlives_a_launcher_that_is_killed(tasks: Tasks, *, executed: bool) -> None:
    """Tasks end with it at once, also those that are stopped or have just been started.

    With `make full` all of them are executed, as a user's are.
    """
    tasks.write("tasks = 1", "tasks = 1")
    words = (SCRIPT, str(tasks.spec))
    launcher = tasks.execute("-c", *words) if executed else tasks.start_script(*words)
    launcher.until("listens")
    stopped = processes_of(tasks)
    assert len(stopped) == 2
    os.kill(stopped[0], signal.SIGSTOP)
    launcher.send(signal.SIGKILL)
    assert launcher.end() == -signal.SIGKILL
    assert none_left(tasks)


def test_a_second_interrupt_ends_all_at_once(tasks: Tasks) -> None:
    """The first waits for a checkpoint, the second for nothing."""
    tasks.write("tasks = 1", "tasks = 2")
    run = tasks.start("compile-and-run", str(tasks.spec), "--set", "update.replication=between_graph")
    run.until("ps:0     | ps:0 listens")
    (chief,) = [pid for pid in processes_of(tasks) if task_of(pid) == "worker:0"]
    over = threading.Event()

    def keep_stopped() -> None:
        with suppress(ProcessLookupError):
            while not over.wait(0.005):
                os.kill(chief, signal.SIGSTOP)

    keeper = threading.Thread(target=keep_stopped)
    keeper.start()
    run.send(signal.SIGINT)
    wait_until(lambda: not is_pending(run.pid, signal.SIGINT))
    run.send(signal.SIGINT)
    assert run.end(20.0) == 130
    over.set()
    keeper.join()
    assert none_left(tasks)


@pytest.mark.full
def test_workers_train_until_a_signal_comes(tasks: Tasks) -> None:
    """The chief writes a checkpoint, if it had been stopped too, and its result is the launcher's.

    Meanwhile no task uses the proxy of the environment, at whose address nothing listens.
    """
    proxy = {"http_proxy": "http://127.0.0.1:9"}
    tasks.write("tasks = 1", "tasks = 2")
    more = ("--set", "update.replication=between_graph", "--set", "train.directory=run", "--json")
    more += ("--set", f'train.prometheus=":{tasks.ports[0]}"')
    run = tasks.start("compile-and-run", str(tasks.spec), "--set", "train.steps=100000", *more, **proxy)
    run.until("worker:0 | step ")
    page = f"http://127.0.0.1:{tasks.ports[0]}/metrics"
    trains = re.compile(r'tfdeploy_step\{run="run",task="worker:\d"\} [1-9]')
    run.wait_for(lambda: len(trains.findall(urlopen(page).read().decode())) == 2)
    status = tasks.start("status", str(tasks.spec), "--set", "train.directory=run", **proxy)
    assert status.end() == 0
    assert [line.split()[0] for line in status.lines[:3]] == ["ps:0", "worker:0", "worker:1"]
    table = [line.split() for line in status.lines[4:]]
    assert table[0] == ["task", "step", "lag", "examples/s", "memory", "in/s", "out/s", "cores", "doing"]
    assert [each[0] for each in table[1:4]] == ["ps:0", "worker:0", "worker:1"]
    assert table[1][1:4] == [".", ".", "."]
    assert all(int(each[1].replace(",", "")) > 0 for each in table[2:4])
    logs = tasks.folder / "run" / "logs"
    assert {each.name for each in logs.iterdir()} == {"ps-0.log", "worker-0.log", "worker-1.log"}
    said = run.until("worker:1 listens").removeprefix("worker:1 | ")
    assert re.fullmatch(rf"[-\d]+T[:\d]+Z  {said}", (logs / "worker-1.log").read_text().splitlines()[0])
    (chief,) = [pid for pid in processes_of(tasks) if task_of(pid) == "worker:0"]
    os.kill(chief, signal.SIGSTOP)
    run.send(signal.SIGTERM)
    assert run.end() == 143
    result = json.loads(run.lines[-1])
    assert result == json.loads((tasks.folder / "run" / "result.json").read_text())
    assert result["status"] == "terminated"
    assert none_left(tasks, 0.0)
    assert not (tasks.folder / "run" / "cluster.json").exists()
    status = tasks.start("status", str(tasks.spec), "--set", "train.directory=run")
    assert status.end() == 1
    assert status.lines[0] == "error[TFD761]: nothing says where the tasks are"


@pytest.mark.full
def test_the_last_checkpoint_needs_no_worker_that_is_stopped(tasks: Tasks) -> None:
    """If each worker has all weights: no step that was made is lost, although the one that was begun is."""
    text = tasks.spec.read_text()
    tasks.spec.write_text(re.sub(r"(?s)devices \{.*?\n\}", 'devices { job "worker" { tasks = 2 } }', text))
    more = ("train.steps=100000000", "train.checkpoint_every=100000000", "train.directory=run")
    run = tasks.start(
        "compile-and-run", str(tasks.spec), *(word for each in more for word in ("--set", each))
    )
    run.until("examples/s")
    (worker,) = [pid for pid in processes_of(tasks) if task_of(pid) == "worker:1"]
    os.kill(worker, signal.SIGSTOP)
    run.send(signal.SIGINT)
    assert run.end() == 130
    said = run.until("worker:0 | interrupted at step ")
    step = int(said.rpartition(" ")[2].replace(",", ""))
    assert step > 0
    assert (tasks.folder / "run" / "checkpoints" / f"model.ckpt-{step}.index").exists()
    assert none_left(tasks)


INTRUDER = "open({marker!r}, 'a').write(__name__ + chr(10))\n"


def intrude(tasks: Tasks) -> Path:
    """Put files beside the spec that have the names of modules of the tool; return where they tell of it."""
    marker = tasks.folder / "intruders.txt"
    for name in ("sitecustomize", "usercustomize", "compiler", "dsl", "grammar", "tfdeploy", "random"):
        (tasks.folder / f"{name}.py").write_text(INTRUDER.format(marker=str(marker)))
    return marker


def kill_a_task(tasks: Tasks, run: Process, name: str) -> None:
    """Kill the process of a task, and wait until it has been started again and trains."""
    (pid,) = [pid for pid in processes_of_folder(tasks) if task_of(pid) == name]
    os.kill(pid, signal.SIGKILL)
    run.until(f"{name} was ended by SIGKILL; it is started again")


def processes_of_folder(tasks: Tasks) -> list[int]:
    """Return the tasks whose process has the folder of a test as its present one."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if (entry / "cwd").readlink() == tasks.folder and "--task" in words_of(int(entry.name)):
                found.append(int(entry.name))
    return found


def task_of(pid: int) -> str:
    """Return which task a process is."""
    words = words_of(pid)
    return words[words.index("--task") + 1]


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("allowed", [False, True])
def test_a_task_that_is_started_again_runs_no_more_code_than_before(tasks: Tasks, *, allowed: bool) -> None:
    """Files beside the spec are imported only by a spec that asks for it, and hide nothing of the tool.

    Only where the spec asks for it are the processes executed, as a user would: it is what they have to show
    beyond their options.
    """
    tasks.write("tasks = 1", "tasks = 1")
    marker = intrude(tasks)
    if allowed:
        text = tasks.spec.read_text()
        start, end = text.index("  train = synthetic"), text.index("-> cache()")
        tasks.spec.write_text(f'{text[:start]}  train = python("mine:examples") {text[end:]}')
        (tasks.folder / "mine.py").write_text(
            "import helper, random\n"
            "import numpy as np\n\n"
            "def examples():\n"
            "    for n in range(64):\n"
            "        yield {'image': np.full([16], helper.HALF, np.float32), 'digit': np.int32(n % 4)}\n"
        )
        (tasks.folder / "helper.py").write_text("HALF = 0.5\n")
    arguments = [str(tasks.spec), *(["--allow-python"] if allowed else [])]
    for name in ("update.replication=between_graph", "train.steps=100000", "train.directory=run"):
        arguments += ["--set", name]
    if allowed:
        run = tasks.execute(str(Path(sys.executable).with_name("compile-and-run")), *arguments)
    else:
        run = tasks.start("compile-and-run", *arguments)
    run.until("worker:0 | step ")
    kill_a_task(tasks, run, "worker:0")
    compiled = "worker:0 | small, compiled in"
    run.wait_for(lambda: run.text.count(compiled) == 2)
    words = [words_of(pid) for pid in processes_of_folder(tasks)]
    assert len(words) == 2
    assert ["--allow-python" in each for each in words] == [allowed] * 2
    run.send(signal.SIGTERM)
    assert run.end() == 143, run.text
    assert not marker.exists(), marker.read_text()


@pytest.mark.full
@pytest.mark.slow
def test_a_second_launch_leaves_the_first_alone(tasks: Tasks) -> None:
    """It is refused, and `status` goes on to tell about the first."""
    tasks.write("tasks = 1", "tasks = 1")
    common = ("--set", "train.directory=run", "--set", "train.steps=10000000")
    first = tasks.start("compile-and-run", str(tasks.spec), *common)
    first.until("/10,000,000")
    first.send(signal.SIGSTOP)  # the client trains no further while the others look
    noted = (tasks.folder / "run" / "cluster.json").read_text()
    second = tasks.start("compile-and-run", str(tasks.spec), *common)
    assert second.end() == 2
    assert "error[TFD" in second.text
    assert f"process {first.pid}" in second.text
    assert (tasks.folder / "run" / "cluster.json").read_text() == noted
    status = tasks.start("status", str(tasks.spec), *common)
    assert status.end() == 0, status.text
    assert [line.split()[0] for line in status.lines[:3]] == ["ps:0", "worker:0", "client"]
    first.send(signal.SIGINT)
    first.send(signal.SIGCONT)
    assert first.end() == 130
    assert not (tasks.folder / "run" / "cluster.json").exists()


@pytest.mark.full
@pytest.mark.slow
def test_from_python(tasks: Tasks, tmp_path: Path) -> None:
    """`tfdeploy.run` starts the tasks as the command does; its reporter is told what they say."""
    tasks.write("tasks = 1", "tasks = 2")
    script = (
        "import sys, tfdeploy\n"
        "from tfdeploy.runtime.show.reporting import Reporter\n"
        "class Notes(Reporter):\n"
        "    def note(self, text): print('note ' + text, flush=True)\n"
        "spec = tfdeploy.load(sys.argv[1], {'train.directory': sys.argv[2], 'train.steps': 5})\n"
        "result = tfdeploy.run(spec, reporter=Notes())\n"
        "print(result.status, result.steps)\n"
    )
    run = tasks.start_script(script, str(tasks.spec), str(tmp_path / "run"))
    assert run.end() == 0, run.text
    assert "finished 5" in run.lines
    assert any(line.startswith("note ps:0     | ps:0 listens at 127.0.0.1:") for line in run.lines)
    assert (tmp_path / "run" / "model.keras").exists()


@pytest.mark.full
@pytest.mark.slow
def test_no_task_waits_for_a_chief_that_a_signal_has_ended(tasks: Tasks, tmp_path: Path) -> None:
    """The launcher ends the others at once, because the chief has not told them that training is over."""
    tasks.write("tasks = 1", "tasks = 2")
    script = (
        "import sys, tfdeploy\n"
        "from tfdeploy.runtime.launch import launcher\n"
        "from tfdeploy.runtime.show.reporting import Reporter\n"
        "launcher.FINISHING = 3600.0\n"
        "class Notes(Reporter):\n"
        "    def note(self, text): print('note ' + text, flush=True)\n"
        "told = {'train.directory': sys.argv[2], 'train.steps': 10**6}\n"
        "told['update.replication'] = 'between_graph'\n"
        "spec = tfdeploy.load(sys.argv[1], told)\n"
        "try: tfdeploy.run(spec, reporter=Notes())\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    run = tasks.start_script(script, str(tasks.spec), str(tmp_path / "run"))
    run.until("note worker:0 | step ")
    run.send(signal.SIGINT)
    assert run.end() == 0, run.text
    assert run.lines[-1] == "interrupted"
    assert none_left(tasks, 0.0)


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        (None, [None, "0,1", "2,3", "4"]),
        ("3,5,6,7,GPU-8", [None, "3,5", "6,7", "GPU-8"]),
        ("3", [None, "3", "", ""]),
    ],
)
def test_tasks_of_one_machine_share_its_gpus(visible: str | None, gpus: list[str | None]) -> None:
    """Each takes its own, of those that the environment leaves."""
    jobs = (ir.Job("ps"), ir.Job("worker", tasks=2, gpu=2), ir.Job("more", gpu=1))
    spec = ir.Spec(ir.Model("m"), devices=ir.Devices(jobs=jobs))
    tasks = [Task("ps", 0), Task("worker", 0), Task("worker", 1), Task("more", 0)]
    assert [gpus_of(spec, task, visible) for task in tasks] == gpus
    fixed = ir.Spec(ir.Model("m"), devices=ir.Devices(jobs=jobs, visible=(0,)))
    assert gpus_of(fixed, tasks[1], visible) is None


@pytest.mark.parametrize("task", ["worker:0", "ps:0"])
def test_tasks_that_run_refuses(tasks: Tasks, task: str) -> None:
    """From Python too a server is no worker, whichever way it is called."""
    diagnostic = refusal_of(lambda: api.run(tasks.load(), task=task))
    assert diagnostic.message == f"`{task}` is a server under `replication = in_graph`"
