"""What a launch passes on and leaves behind, and the process of a task."""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

import grammar
from dsl.diagnostics import RunError, SpecError
from dsl.files.typed_json import parse_record
from tests.runtime.launch.scripted import PATIENCE, play
from tests.runtime.tasks import SPEC
from tests.support import make_result
from tfdeploy.runtime.launch import child, launcher, task_processes
from tfdeploy.runtime.launch.launched_run import (
    LaunchOutcome,
    TaskOutput,
    copied_spec,
    options_for,
    run_on_cluster,
    run_workers,
)
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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_a_full_disk_ends_no_run_for_its_log(tmp_path: Path) -> None:
    """Neither a line nor the end of the log that cannot be written is an error."""
    (tmp_path / "run" / "logs").mkdir(parents=True)
    (tmp_path / "run" / ".tfdeploy-run").touch()
    (tmp_path / "run" / "logs" / "ps-0.log").symlink_to("/dev/full")
    said: list[str] = []
    output = output_of(tmp_path, lambda text, _: said.append(text))
    output._spec = evolve(output._spec, train=evolve(output._spec.train, directory=str(tmp_path / "run")))
    with output.kept():
        output.on_line(Task("ps", 0), "a", "stdout")
    assert said == ["ps:0      | a"]


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


TELL = f"say({RESULT!r})"
"""What the chief does in the end: it writes its result."""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskCommand:
    """Return how a parameter server and two workers are started; whoever ends is started again at once."""
    monkeypatch.setattr(launcher, "PAUSE", 0.0)
    path = tmp_path / "spec.tfdeploy"
    path.write_text(SPEC.format(ps="tasks = 1", worker="tasks = 2"))
    more = [("update.replication", "between_graph"), ("train.directory", str(tmp_path / "run"))]
    return TaskCommand(grammar.load(path, more), str(path))


@pytest.mark.parametrize(
    ("parts", "number", "outcome", "failure"),
    [
        ({"": ""}, None, LaunchOutcome(0), None),
        ({"worker:0": TELL, "": ""}, None, LaunchOutcome(0, None, RESULT), None),
        (
            {"worker:0": f"{TELL}; say('ready'); wait()"},
            signal.SIGINT,
            LaunchOutcome(130, None, RESULT),
            None,
        ),
        ({"worker:0": "say('ready'); wait()"}, signal.SIGTERM, LaunchOutcome(143), None),
        (
            {"worker:0": f"{TELL}; wait()", "worker:1": "end(1)"},
            None,
            LaunchOutcome(1),
            "ended with exit code 1",
        ),
        (
            {"worker:1": "os.kill(os.getpid(), signal.SIGKILL)"},
            None,
            LaunchOutcome(2),
            "was ended by SIGKILL 5 times in a row, soon after it was started",
        ),
    ],
)
def test_how_a_launch_ends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: TaskCommand,
    parts: dict[str, str],
    number: signal.Signals | None,
    outcome: LaunchOutcome,
    failure: str | None,
) -> None:
    """A signal is passed on; a task that was killed has no exit code that could be passed on."""
    play(monkeypatch, tmp_path, parts)

    def emit(line: str, _: object) -> None:
        if line.endswith("| ready") and number is not None:
            os.kill(os.getpid(), number)

    found = run_workers(command, TaskOutput(command.spec, emit))
    assert evolve(found, failure=None) == outcome
    told = None if found.failure is None else found.failure.message
    assert told == (None if failure is None else f"`worker:1` {failure}")


def test_a_signal_is_passed_on_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: TaskCommand
) -> None:
    """To the chief, which may take a while to end. All others are ended after it."""
    chief = """
got = []
signal.signal(signal.SIGINT, lambda *_: got.append(1))
say("ready")
while not got:
    time.sleep(0.01)
time.sleep(0.5)
say(f"got {len(got)}")
end(130)
"""
    monkeypatch.setattr(launcher, "FINISHING", PATIENCE)  # nobody waits until they end by themselves
    play(monkeypatch, tmp_path, {"worker:0": chief, "": f"time.sleep({PATIENCE / 2})"})
    lines: list[str] = []

    def emit(line: str, _: object) -> None:
        lines.append(line)
        if line.endswith("| ready"):
            os.kill(os.getpid(), signal.SIGINT)

    assert run_workers(command, TaskOutput(command.spec, emit)).code == 130
    assert lines == ["worker:0 | ready", "worker:0 | got 1"]
    assert sorted(each.read_text() for each in tmp_path.glob("*.ended")) == ["130", "SIGTERM", "SIGTERM"]


def test_a_launch_ends_with_who_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: TaskCommand
) -> None:
    """Nobody would hear of it any more."""
    play(monkeypatch, tmp_path, {"worker:0": "say('heard'); wait()"})

    def emit(text: str, stream: str) -> None:
        raise BrokenPipeError(text, stream)

    with pytest.raises(BrokenPipeError):
        run_workers(command, TaskOutput(command.spec, emit))


class Listener(Reporter):
    """Keeps what is said, and passes a signal on when a task is ready for it."""

    def __init__(self, number: signal.Signals | None) -> None:
        self.number, self.notes, self.results = number, list[str](), list[Result]()

    def note(self, text: str) -> None:
        """Keep a note."""
        self.notes.append(text)
        if text.endswith("| ready") and self.number is not None:
            os.kill(os.getpid(), self.number)

    def finished(self, result: Result) -> None:
        """Keep a result."""
        self.results.append(result)


@pytest.mark.parametrize(
    ("chief", "number", "raised"),
    [
        (f"say('said'); {TELL}", None, None),
        (f"{TELL}; say('ready'); wait()", signal.SIGINT, Interrupted),
        ("say('ready'); wait()", signal.SIGTERM, Terminated),
        ("say('why', sys.stderr); end(2)", None, RunError),
    ],
)
def test_python_learns_how_a_launch_has_ended(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: TaskCommand,
    chief: str,
    number: signal.Signals | None,
    raised: Any,
) -> None:
    """By the result, which is reported, or by an exception, which has the result if there is one."""
    ends = {} if number is not None or raised is not None else {"": ""}
    play(monkeypatch, tmp_path, {"worker:0": chief, **ends})
    listener = Listener(number)
    options = RunOptions(reporter=listener)
    if raised is None:
        found = run_on_cluster(command.spec, options)
        assert (listener.notes, listener.results) == (["worker:0 | said"], [found])
        assert found.to_json() == RESULT
        return
    with pytest.raises(raised) as caught:
        run_on_cluster(command.spec, options)
    assert listener.results == []
    if isinstance(caught.value, RunError):
        assert caught.value.diagnostic.message == "`worker:0` ended with exit code 2"
        assert caught.value.diagnostic.notes == ("why",)
    else:
        assert (caught.value.result is not None) is (TELL in chief)


def test_what_cannot_be_run_is_said_before_a_task_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: TaskCommand
) -> None:
    """Once, and not by each of them."""
    play(monkeypatch, tmp_path, {"": "say('started')"})
    listener = Listener(None)
    with pytest.raises(SpecError):
        run_on_cluster(evolve(command.spec, data=None), RunOptions(reporter=listener))
    assert listener.notes == []


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
    assert options_for(spec, RunOptions()) == []
    assert options_for(spec, RunOptions(verbose=True)) == ["--verbose"]


OWN = """
import json, sys, time
print(json.dumps([sys.argv[1:], sys.path[0]]), flush=True)
time.sleep({seconds})
"""


def start_child(folder: Path, pipe: int, *options: str, path: str) -> subprocess.Popen[str]:
    """Start the script of a task with the arguments `check a`, for a Python with options and a path."""
    command = [sys.executable, *options, child.__file__, str(pipe), str(os.getpid()), "check", "a"]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        pass_fds=(pipe,),
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.STDOUT,
    )


def own_program(folder: Path, seconds: float) -> str:
    """Write a program of the name `tfdeploy` into a folder that Python can be told of; return the folder."""
    (folder / "tfdeploy").mkdir()
    (folder / "tfdeploy" / "__init__.py").write_text("")
    (folder / "tfdeploy" / "__main__.py").write_text(OWN.format(seconds=seconds))
    return str(folder)


def test_a_task_without_its_launcher_ends_as_if_killed(tmp_path: Path) -> None:
    """Its exit code is that of a process that SIGKILL has ended."""
    reading, writing = os.pipe()
    with start_child(tmp_path, reading, path=own_program(tmp_path, 600.0)) as process:
        assert process.stdout.readline()
        os.close(writing)
        assert process.wait(PATIENCE) == 128 + 9
    os.close(reading)


@pytest.mark.parametrize("installed", [True, False])
def test_the_project_is_found_if_it_is_not_installed(tmp_path: Path, *, installed: bool) -> None:
    """That of the user comes first, and the folder of the script is no place for imports."""
    reading, writing = os.pipe()
    own = tmp_path / "own"
    own.mkdir()
    options, path = ([], own_program(own, 0.0)) if installed else (["-S"], str(own))
    if not installed:  # all that the project needs is found before what belongs to it
        (tmp_path / "a").write_text("tfdeploy = 1\n")
        (own / "grammar.py").write_text("print('mine')\nraise SystemExit(7)\n")
        path = os.pathsep.join((path, sysconfig.get_path("purelib")))
    with start_child(tmp_path, reading, *options, path=path) as process:
        out, _ = process.communicate(timeout=PATIENCE)
    for each in (reading, writing):
        os.close(each)
    if installed:
        assert json.loads(out) == [["check", "a"], path]
    else:
        assert (process.returncode, out) == (7, "mine\n")


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


@pytest.mark.family(every=2)
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
