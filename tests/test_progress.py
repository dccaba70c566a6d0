"""What is told while a graph is built: a spinner on a terminal, elsewhere a line, nothing if it is quick."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from compiler.pipeline import make_plan
from tests.specs import CLASSES
from tests.support import spec_of
from tfdeploy import progress
from tfdeploy.cli.building import said_of_graph
from tfdeploy.cli.group import load
from tfdeploy.runtime.verify import cases

SPEC = f"""{CLASSES}
data {{
  train = synthetic(8, x = feature(float32, [4]), label = feature(int32, classes = 2))
}}

devices {{ cpu = 1 }}
clones {{ batch = 4 }}
update {{ optimizer = SGD(0.1) }}
train {{ steps = 1 }}
"""
BUILDING = "building the graph of m ...\n"
BECAUSE = (
    "building the graph of all 33 clones of m, "
    "because they do not have all devices of one kind, one each ...\n"
)
TIMING = "forecasting the time of a step of m ...\n"
KIND = ("--set", "devices.kind=cpu")


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a small spec in the current directory; what takes long is told."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(progress.VARIABLE)
    (tmp_path / "small.tfdeploy").write_text(SPEC)
    return "small.tfdeploy"


COMMANDS = {
    "plan": ([], [BUILDING]),
    "why": (["y/kernel", *KIND], [BUILDING, TIMING]),
    "diff": (["--set-b", "clones.batch=2"], [BUILDING, BUILDING]),
    "compile": (["--out", "out"], [BUILDING]),
    "compile-and-run": ([], [BUILDING]),
    "verify": (["--quick", "--steps", "2", "--json"], ["training m as one tower ...\n", "training"]),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_builds_says_so(spec: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no patience at all, there is a line for each thing that takes long, on standard error."""
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(cases, "sample", lambda kept, _: kept[:1])  # of what is verified, one case is enough
    arguments, told = COMMANDS[name]
    done = CliRunner().invoke(load(name), [spec, *arguments], standalone_mode=False)
    assert done.exception is None, done.output
    lines = done.stderr.splitlines(keepends=True)
    assert [line for line in lines if line.endswith(" ...\n")] == lines
    assert all(line.startswith(start) for line, start in zip(lines, told, strict=True)), lines


def test_the_graph_of_many_clones_is_built_for_a_reason(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes long, and what made it necessary can be changed."""
    monkeypatch.setattr(progress, "AFTER", 0.0)
    many = ("--set", "clones.count=33", "--set", "clones.batch=1")
    done = CliRunner().invoke(load("plan"), [spec, *many, *KIND], standalone_mode=False)
    assert done.exception is None, done.output
    assert done.stderr.startswith(BECAUSE)


def test_a_graph_that_each_worker_has_is_told_as_the_chiefs() -> None:
    """It is not that of all clones, but stands for them."""
    devices = 'job "ps" { tasks = 1 }\n  job "worker" {\n    tasks = 33\n    cpu = 1\n  }'
    text = SPEC.replace("cpu = 1", devices).replace("update {", "update {\n  replication = between_graph\n ")
    told = said_of_graph(make_plan(spec_of(text)), "`--dot` draws it")
    assert told == "building the chief's graph for all 33 clones of m, because `--dot` draws it"


def test_what_is_quick_is_not_told(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With patience without end, nothing is written."""
    monkeypatch.setattr(progress, "AFTER", 1e6)
    done = CliRunner().invoke(load("plan"), [spec], standalone_mode=False)
    assert (done.exception, done.stderr) == (None, "")


def test_who_does_not_want_it_is_not_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The environment variable turns it off."""
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setenv(progress.VARIABLE, progress.NEVER)
    with progress.busy("waiting"):
        pass
    assert capsys.readouterr().err == ""


PROGRAM = """
import sys
from tfdeploy import progress
from tfdeploy.runtime.start_tensorflow import _silenced
progress.AFTER = 0.0
with progress.busy("building the graph of m"), _silenced():
    sys.stdin.readline()
print("done", file=sys.stderr)
"""


def test_a_terminal_has_a_spinner_that_goes_away() -> None:
    """It shows also while TensorFlow's own words are kept back; its line is cleared before what follows."""
    parent, child = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != progress.VARIABLE}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stderr=child,
        env={**environment, "TERM": "xterm", "COLUMNS": "80"},
    ) as process:
        os.close(child)
        shown = _read_until(parent, b"building the graph of m ...")
        process.stdin.write(b"\n")
        process.stdin.close()
        rest = _read_until(parent, b"done")
        assert process.wait(60) == 0
    os.close(parent)
    assert b"\x1b[?25l" in shown, "the cursor is hidden meanwhile"
    assert b"\x1b[?25h" in rest
    assert b"\x1b[2K" in rest


def _read_until(descriptor: int, words: bytes) -> bytes:
    """Read a terminal until it shows `words`."""
    found = b""
    while words not in found:
        found += os.read(descriptor, 1024)
    return found
