"""Processes of tasks that do what a test says in place of `tfdeploy`, started by a launcher as all are."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from attrs import frozen

from dsl import ir
from tests.patience import wait_until
from tfdeploy.runtime.launch import task_processes
from tfdeploy.runtime.launch.launcher import Launcher, TaskCommand
from tfdeploy.runtime.membership.addresses import Task

PATIENCE = 120.0  # seconds until a test gives up

PROGRAM = """
import json, os, signal, sys, time

folder, parts, pid, launcher = {folder!r}, {parts!r}, os.getpid(), os.getppid()
task = sys.argv[sys.argv.index("--task") + 1]


def say(text, stream=sys.stdout):
    print(text, file=stream, flush=True)


def end(code, why=None):
    with open(f"{{folder}}/{{pid}}.ended", "w") as file:
        file.write(why or str(code))
    os._exit(code)


def wait():
    "Wait for a signal, for the exit code that a test writes, or for the end of the test itself."
    while not os.path.exists(f"{{folder}}/{{pid}}.end"):
        if os.getppid() != launcher:
            os._exit(1)
        time.sleep(0.01)
    with open(f"{{folder}}/{{pid}}.end") as file:
        code = int(file.read())
    say(f"why {{code}}", sys.stderr)
    end(code)


for each in (signal.SIGINT, signal.SIGTERM):
    signal.signal(each, lambda number, _: end(128 + number, signal.Signals(number).name))
exec(parts.get(task, parts.get("", "wait()")))
end(0)
"""
STARTED = """
own = {name: os.environ.get(name) for name in %s}
if task == "worker:2":  # which ends as one that is done
    signal.signal(signal.SIGTERM, lambda *_: end(0, "SIGTERM"))
say("started " + json.dumps([pid, sys.argv[3:], own]))
wait()
"""


def play(monkeypatch: pytest.MonkeyPatch, folder: Path, parts: Mapping[str, str]) -> None:
    """Let each task run a part by its name, that with the name "" if it has none of its own.

    A part is Python code that may `say` something, `wait` for a signal, and `end` with an exit code.
    """
    script = folder / "task.py"
    script.write_text(PROGRAM.format(folder=str(folder), parts=dict(parts)))
    monkeypatch.setattr(task_processes, "SCRIPT", script)


@frozen
class Started:
    """What a process says that was started for a task."""

    pid: int
    arguments: list[str]
    environment: dict[str, str]


class Scene:
    """A launcher whose tasks wait until a test ends them, and tell variables of their environments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, spec: ir.Spec, *names: str) -> None:
        play(monkeypatch, folder, {"": STARTED % repr(names)})
        self.folder, self.said = folder, list[str]()
        self._started: list[tuple[Task, Started]] = []
        self.launcher = Launcher(TaskCommand(spec, "spec", resume="never"), self.on_line, self.said.append)

    def on_line(self, task: Task, line: str, stream: str) -> None:
        """Hear of a process that has started."""
        word, _, rest = line.partition(" ")
        if stream == "stdout" and word == "started":
            self._started.append((task, Started(*json.loads(rest))))

    def starts(self, task: Task) -> list[Started]:
        """Return the processes of a task, of which the launcher has started as many as it says."""
        return [each for of, each in list(self._started) if of == task]

    def there(self, task: Task, count: int = 1) -> Started:
        """Wait until a task has been started so often; return the newest of its processes."""
        wait_until(lambda: len(self.starts(task)) >= count)
        assert len(self.starts(task)) == count
        return self.starts(task)[-1]

    def end(self, task: Task, code: int, *, count: int = 1) -> None:
        """End the newest process of a task, the one with the number `count`, and let the launcher look.

        It looks twice, so that what is started again without a pause has been started.
        """
        pid = self.there(task, count).pid
        if code < 0:
            os.kill(pid, -code)
        else:
            self.write_end(pid, code)
        self.look_after(pid)

    def write_end(self, pid: int, code: int) -> None:
        """Let a process end with an exit code."""
        (self.folder / "code").write_text(str(code))
        (self.folder / "code").rename(self.folder / f"{pid}.end")

    def look_after(self, pid: int) -> None:
        """Let the launcher look when a process has ended."""
        with suppress(ChildProcessError):  # the launcher has noticed its end before
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        self.launcher.check_tasks()
        self.launcher.check_tasks()

    def ended(self, task: Task) -> str:
        """Return how the first process of a task says that it has ended."""
        return (self.folder / f"{self.there(task).pid}.ended").read_text()
