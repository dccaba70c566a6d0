"""What a launch passes on and leaves behind, and the process of a task."""

from __future__ import annotations

import os
import runpy
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib import util
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from attrs import evolve

import grammar
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import cluster as errors
from dsl.files.typed_json import parse_record
from tests.folders import ROOT
from tests.runtime.tasks import SPEC
from tests.support import make_result
from tfdeploy.runtime.launch import child, launcher, task_processes
from tfdeploy.runtime.launch import launched_run as module
from tfdeploy.runtime.launch.launched_run import LaunchOutcome, TaskOutput, copied_spec, run_workers
from tfdeploy.runtime.launch.launcher import TaskCommand
from tfdeploy.runtime.launch.task_processes import describe_exit
from tfdeploy.runtime.membership.addresses import Task
from tfdeploy.runtime.plans import RunOptions
from tfdeploy.runtime.records.result import Result
from tfdeploy.runtime.show.reporting import Reporter
from tfdeploy.runtime.stop import Interrupted, Terminated


def test_the_copy_of_a_spec_is_there_during_the_launch_alone(tmp_path: Path) -> None:
    """It is in a folder of its own, and if somebody has removed that before, nothing is the matter."""
    path = tmp_path / "two.tfdeploy"
    path.write_text(SPEC.format(ps="tasks = 1", worker="tasks = 2"))
    spec = grammar.load(path)
    with copied_spec(spec, (), RunOptions()) as command:
        copy = Path(command.path)
        assert copy.name == "two.tfdeploy"
        assert grammar.load(copy).model == spec.model
    assert not copy.parent.exists()
    with copied_spec(spec, (), RunOptions()) as command:
        shutil.rmtree(Path(command.path).parent)


RESULT = make_result().to_json()


def output_of(tmp_path: Path, emit: Callable[[str, Any], None]) -> TaskOutput:
    """Return what handles the output of one parameter server and eleven workers."""
    path = tmp_path / "spec.tfdeploy"
    path.write_text(SPEC.format(ps="tasks = 1", worker="tasks = 11"))
    return TaskOutput(grammar.load(path), emit)


def test_lines_have_the_names_of_their_tasks(tmp_path: Path) -> None:
    """Which are as wide as the widest; the launcher's own lines have none."""
    said: list[tuple[str, str]] = []
    output = output_of(tmp_path, lambda text, stream: said.append((text, stream)))
    output.on_line(Task("ps", 0), "a", "stdout")
    output.on_line(Task("worker", 10), "b", "stderr")
    output.say("c")
    assert said == [("ps:0      | a", "stdout"), ("worker:10 | b", "stderr"), ("c", "stdout")]


@pytest.mark.parametrize(
    ("task", "stream", "line", "kept"),
    [
        (Task("worker", 0), "stdout", RESULT, True),
        (Task("worker", 1), "stdout", RESULT, False),
        (Task("ps", 0), "stdout", RESULT, False),
        (Task("worker", 0), "stderr", RESULT, False),
        (Task("worker", 0), "stdout", RESULT[:-1], False),
        (Task("worker", 0), "stdout", " " + RESULT, False),
        (Task("worker", 0), "stdout", "{}", False),
    ],
)
def test_the_result_of_the_chief_is_kept(
    tmp_path: Path, task: Task, stream: Any, line: str, *, kept: bool
) -> None:
    """What anybody else writes, or the chief elsewhere, is passed on as it is."""
    said: list[str] = []
    output = output_of(tmp_path, lambda text, _: said.append(text))
    output.on_line(task, line, stream)
    assert (output.result, len(said)) == ((line, 0) if kept else (None, 1))


def test_the_result_of_a_worker_that_only_knows_the_step_is_neither_kept_nor_shown(tmp_path: Path) -> None:
    """Of workers that come and go each may be the chief, and so each writes one."""
    said: list[str] = []
    path = tmp_path / "spec.tfdeploy"
    path.write_text(SPEC.replace('job "ps" {{ {ps} }}', "").format(worker="tasks = 2..3"))
    output = TaskOutput(grammar.load(path), lambda text, _: said.append(text))
    own = parse_record(RESULT, Result)
    output.on_line(Task("worker", 1), evolve(own, loss=None).to_json(), "stdout")
    assert (output.result, said) == (None, [])
    output.on_line(Task("worker", 1), RESULT, "stdout")
    assert (output.result, said) == (RESULT, [])


def test_a_reader_that_has_gone_is_noted(tmp_path: Path) -> None:
    """The threads that read go on."""

    def emit(text: str, stream: str) -> None:
        raise BrokenPipeError(text, stream)

    output = output_of(tmp_path, emit)
    assert output.closed is None
    output.say("a")
    assert isinstance(output.closed, BrokenPipeError)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (2, "ended with exit code 2"),
        (-9, "was ended by SIGKILL"),
        (-1, "was ended by SIGHUP"),
        (-99, "was ended by signal 99"),
    ],
)
def test_how_a_process_has_ended(code: int, words: str) -> None:
    """A signal has its name, if it has one."""
    assert describe_exit(code) == words


FAILURE = errors.task_failed(ref="worker:1", how="ended with exit code 3")


class Pretended:
    """A launcher without processes: each time that it looks at its tasks, the next thing happens.

    A signal is received, a task fails with an exit code, or the chief writes a line. Then the chief ends.
    """

    cluster = SimpleNamespace(chief="chief")

    def __init__(self, happening: list[Any], stop: Any, _: TaskCommand, on_line: Any, say: Any) -> None:
        self.happening, self.stop, self.on_line, self.say = happening, stop, on_line, say
        self.finished: set[str] = set()
        self.failure: Diagnostic | None = None
        self.failed, self.ending = 0, False
        self.sent: list[Any] = []
        self.looked_after: set[Any] = set()
        self.ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.sent == ([] if self.stop.received is None else [self.stop.received])
        assert self.looked_after == {*self.sent}
        assert self.ended == (self.stop.received is not None)

    def send(self, number: int) -> None:
        """Take down a signal that is sent."""
        self.sent.append(number)

    def end_stuck(self, number: Any) -> None:
        """Take down that those that were sent a signal are looked after."""
        self.looked_after.add(number)

    def end_all(self) -> None:
        """Take down that all are ended, for which the chief must have ended before."""
        assert self.finished or self.failure is not None
        self.ended = True

    def outcome(self, _: object) -> int | None:
        """Return the exit code of the chief if it has ended."""
        return 0 if "chief" in self.finished else None

    def check_tasks(self) -> None:
        """Let the next thing happen."""
        match self.happening.pop(0) if self.happening else None:
            case None:
                self.finished.add("chief")
            case signal.Signals() as number:
                self.stop.received = number
            case (Diagnostic() as failure, int(code)):
                self.failure, self.failed = failure, code
            case str(line):
                self.on_line(Task("worker", 0), line, "stdout")
                self.say("said")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what happens during a launch, which is empty at first."""
    happening: list[Any] = []
    stop = SimpleNamespace(received=None)
    monkeypatch.setattr(module, "Launcher", partial(Pretended, happening, stop))
    monkeypatch.setattr(module, "StopSignals", lambda **_: nullcontext(stop))
    monkeypatch.setattr(module, "POLL", 0.0)
    return happening


@pytest.mark.parametrize(
    ("happens", "outcome"),
    [
        ([], LaunchOutcome(0)),
        ([RESULT], LaunchOutcome(0, None, RESULT)),
        ([RESULT, signal.SIGINT, ""], LaunchOutcome(130, None, RESULT)),
        ([signal.SIGTERM, (FAILURE, 3)], LaunchOutcome(143)),
        ([RESULT, (FAILURE, 3)], LaunchOutcome(3, FAILURE)),
        ([(FAILURE, -9)], LaunchOutcome(2, FAILURE)),
    ],
)
def test_how_a_launch_ends(
    tmp_path: Path, script: list[Any], happens: list[Any], outcome: LaunchOutcome
) -> None:
    """A signal is passed on once; a task that was killed has no exit code that could be passed on."""
    script += happens
    output = output_of(tmp_path, lambda *_: None)
    command = TaskCommand(grammar.load(tmp_path / "spec.tfdeploy"), "")
    assert run_workers(command, output) == outcome


def test_a_launch_ends_with_who_reads_it(tmp_path: Path, script: list[Any]) -> None:
    """Nobody would hear of it any more."""

    def emit(text: str, stream: str) -> None:
        raise BrokenPipeError(text, stream)

    script += ["", ""]
    output = output_of(tmp_path, emit)
    with pytest.raises(BrokenPipeError):
        run_workers(TaskCommand(grammar.load(tmp_path / "spec.tfdeploy"), ""), output)
    assert len(script) == 1


@pytest.mark.parametrize(
    ("happens", "raised"),
    [
        ([RESULT], None),
        ([RESULT, signal.SIGINT], Interrupted),
        ([signal.SIGTERM], Terminated),
        ([(FAILURE, 3)], RunError),
    ],
)
def test_python_learns_how_a_launch_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: list[Any], happens: list[Any], raised: Any
) -> None:
    """By the result, which is reported, or by an exception, which has the result if there is one."""
    script += happens
    told: list[Any] = []

    class Listener(Reporter):
        def note(self, text: str) -> None:
            told.append(text)

        def finished(self, result: Result) -> None:
            told.append(result)

    monkeypatch.setattr(module, "require_launchable", told.append)
    path = tmp_path / "spec.tfdeploy"
    path.write_text(SPEC.format(ps="tasks = 1", worker="tasks = 1"))
    spec = grammar.load(path, [("update.replication", "between_graph")])
    options = RunOptions(reporter=Listener())
    if raised is None:
        found = module.run_on_cluster(spec, options)
        assert told == [spec, "said", found]
        assert found.to_json() == RESULT
        return
    with pytest.raises(raised) as caught:
        module.run_on_cluster(spec, options)
    if isinstance(caught.value, RunError):
        assert caught.value.diagnostic == FAILURE
    else:
        assert (caught.value.result is not None) is (happens[0] == RESULT)


def test_tasks_get_the_options_of_their_run(tmp_path: Path) -> None:
    """The chief alone makes a profile; modules come from the folder of the spec, and not of its copy."""
    path = tmp_path / "two.tfdeploy"
    path.write_text(SPEC.format(ps="tasks = 1", worker="tasks = 2"))
    spec = grammar.load(path)
    with copied_spec(spec, ("--verbose",), RunOptions(profile=3, resume="must")) as command:
        assert (command.options, command.resume) == (("--verbose",), "must")
        assert command.chief_options == ("--profile", "3")
        assert command.trainer_options == ("--modules", str(tmp_path))
    with copied_spec(spec, (), RunOptions()) as command:
        assert command.chief_options == ()
    assert module._flags(spec, RunOptions()) == []
    assert module._flags(spec, RunOptions(verbose=True)) == ["--verbose"]


def test_a_task_without_its_launcher_ends_as_if_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exit code is that of a process that SIGKILL has ended."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    reading, writing = os.pipe()
    os.close(writing)
    child._end_with(reading)
    os.close(reading)
    assert codes == [128 + 9]


@pytest.mark.parametrize("installed", [True, False])
def test_the_project_is_found_if_it_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, *, installed: bool
) -> None:
    """Its folder comes last, and only if it is needed; that of the script is no place for imports."""
    ran: list[str] = []
    own, path = str(Path(child.__file__).parent), ["first"]
    monkeypatch.setattr(child, "follow", lambda pipe, parent: ran.append(f"{pipe} {parent}"))
    monkeypatch.setattr(runpy, "run_module", lambda name, **_: ran.append(name))
    monkeypatch.setattr(util, "find_spec", lambda _: child if installed else None)
    monkeypatch.setattr(sys, "argv", ["child.py", "5", "77", "check", "a"])
    monkeypatch.setattr(sys, "path", [own, *path])
    child.main()
    assert ran == ["5 77", "tfdeploy"]
    assert sys.argv == ["tfdeploy", "check", "a"]
    assert sys.path == (path if installed else [*path, str(ROOT)])


DEAF = """
import signal, sys, time
task = sys.argv[sys.argv.index("--task") + 1]
for each in (signal.SIGINT, signal.SIGTERM):
    signal.signal(each, signal.SIG_IGN)
print("deaf", flush=True)
if task == {busy!r}:
    end = time.process_time() + 3.0
    while time.process_time() < end:
        pass
    sys.exit(3)
time.sleep(600.0)
"""


@pytest.mark.parametrize("busy", [False, True])
def test_a_signal_ends_tasks_that_do_nothing_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, busy: bool
) -> None:
    """The chief is killed when it has done nothing for a while, but not while it is busy; then all others.

    What was not over is said, and what was done about it, with the numbers of the processes.
    """
    path, script = tmp_path / "spec.tfdeploy", tmp_path / "deaf.py"
    path.write_text(SPEC.format(ps="tasks = 1", worker="tasks = 2"))
    script.write_text(DEAF.format(busy="worker:0" if busy else ""))
    monkeypatch.setattr(task_processes, "SCRIPT", script)
    for name, seconds in (("ENDING", 2.0), ("SAY_AFTER", 0.5), ("GRACE", 0.5)):
        monkeypatch.setattr(launcher, name, seconds)
    monkeypatch.setattr(task_processes, "BUSY", 0.02)
    said: list[str] = []

    def emit(line: str, _: object) -> None:
        said.append(line)
        if "deaf" in line and sum("deaf" in each for each in said) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    spec = grammar.load(
        path, [("update.replication", "between_graph"), ("train.directory", str(tmp_path / "run"))]
    )
    ended = run_workers(TaskCommand(spec, str(path)), TaskOutput(spec, emit))
    assert ended.code == 130
    told = [each for each in said if "deaf" not in each]
    assert told[0].startswith("worker:0 has not ended for ")
    assert told[0].endswith(" since SIGINT; another signal ends all tasks at once")
    killed = [each for each in told if each.endswith(" was killed")]
    whom = ["ps:0", "worker:1"] if busy else ["worker:0", "ps:0", "worker:1"]
    assert [each.split()[0] for each in killed] == whom
    assert ["since SIGTERM" in each for each in killed] == [each != "worker:0" for each in whom]
