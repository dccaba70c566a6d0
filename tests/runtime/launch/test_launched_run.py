"""What a launch passes on and leaves behind."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import grammar
from tests.runtime.tasks import SPEC
from tfdeploy.runtime.launch.launched_run import TaskOutput, copied_spec
from tfdeploy.runtime.launch.task_processes import describe_exit
from tfdeploy.runtime.membership.addresses import Task
from tfdeploy.runtime.options import RunOptions
from tfdeploy.runtime.records.result import Result, Seconds

if TYPE_CHECKING:
    from collections.abc import Callable


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


RESULT = Result(
    status="finished",
    steps=20,
    loss=0.5,
    metrics={},
    examples_per_second=None,
    seconds=Seconds(1.0, None, 2.0),
    directory="runs/x",
).to_json()


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
