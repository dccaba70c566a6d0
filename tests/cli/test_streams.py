"""Streams that are closed, full or gone, folders that are gone, and limits: a message and the right code.

These are processes as a shell starts them, because Python sees what is wrong with a stream while it starts.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler import process as memory
from dsl.diagnostics import RunError
from tests.cli.conftest import GOOD
from tfdeploy import own_process
from tfdeploy.cli.faults import INTERRUPTED
from tfdeploy.own_process import SIGNALLED

FULL = "error[TFD796]: standard output cannot be written: no space left on device"
CLOSED = "error[TFD796]: standard output cannot be written: bad file descriptor"
NO_INPUT = "error[TFD199]: `<stdin>`: bad file descriptor"
NO_FOLDER = "error[TFD798]: the current folder is not there any more"
FAULTS = re.compile(r"Traceback|TFD901|Exception ignored|Fatal Python|terminate called|Exception in thread")
BAD = GOOD.replace("Dense", "Dence")
LIGHT = {
    "--version": 0,
    "--help": 0,
    "explain": 0,
    "check good.tfdeploy": 0,
    "check bad.tfdeploy --format json": 1,
    "show good.tfdeploy": 0,
    "completion bash": 0,
    "init --list": 0,
}
"""Commands that write to standard output, and how they end if that takes it."""

GONE = "mkdir ../gone; cd ../gone; rmdir ../gone; "

CASES = [
    ("check good.tfdeploy > /dev/full", 2, FULL),
    ("check good.tfdeploy >&-", 2, CLOSED),
    ("check bad.tfdeploy 2>&-", 1, ""),
    ("check bad.tfdeploy 2> /dev/full", 1, ""),
    ("check nowhere.tfdeploy <&- >&- 2>&-", 2, ""),
    ("chek 2> /dev/full", 2, ""),
    ("check - <&-", 2, NO_INPUT),
    pytest.param("fmt - <&-", 2, NO_INPUT, marks=pytest.mark.full),
    pytest.param("show - <&-", 2, NO_INPUT, marks=pytest.mark.full),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a good spec and a bad one."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "good.tfdeploy").write_text(GOOD)
    (inside / "bad.tfdeploy").write_text(BAD)
    return inside


def shell(folder: Path, line: str, before: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of tfdeploy in a shell."""
    command = f'{before}"{sys.executable}" -m tfdeploy {line}'
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=300,
    )
    said = subprocess.CompletedProcess(
        line, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )
    if "explain" not in line:
        assert not FAULTS.search(said.stdout + said.stderr), said
    return said


@pytest.mark.family(every=2)
@pytest.mark.parametrize(("line", "code", "words"), CASES)
def test_a_stream_that_is_closed_or_full(folder: Path, line: str, code: int, words: str) -> None:
    """What cannot be read or written ends with 2 and is told, unless it is the messages: those are lost."""
    done = shell(folder, line)
    assert done.returncode == code, done
    assert done.stderr.partition("\n")[0] == words


@pytest.mark.full
@pytest.mark.parametrize("line", LIGHT)
def test_every_light_command_on_every_stream(folder: Path, line: str) -> None:
    """Output decides: if it is full, closed or has no reader, the command has failed, else as it would."""
    well = LIGHT[line]
    for redirection, code in ((">/dev/full", 2), (">&-", 2), ("| true; exit ${PIPESTATUS[0]}", 2)):
        assert shell(folder, f"{line} {redirection}").returncode == code, redirection
    assert shell(folder, f"{line} 2>&-").returncode == well
    assert shell(folder, line, GONE, PYTHONIOENCODING="ascii").returncode in {well, 2}
    assert shell(folder, line, "ulimit -n 8; ").returncode == well
    assert shell(folder, line, "ulimit -f 0; unset HOME; ", TMPDIR="/nowhere").returncode == well


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("check good.tfdeploy", 2, "error[TFD190]: there is no file `good.tfdeploy`"),
        ('show "$OLDPWD/good.tfdeploy"', 0, ""),
        pytest.param('check - < "$OLDPWD/good.tfdeploy"', 2, NO_FOLDER, marks=pytest.mark.full),
        pytest.param("init", 2, "error[TFD733]: `data` cannot be written", marks=pytest.mark.full),
        pytest.param("doctor", 2, NO_FOLDER, marks=pytest.mark.full),
    ],
)
def test_a_current_folder_that_is_gone(folder: Path, line: str, code: int, words: str) -> None:
    """Files with whole paths are read, and all else says that there is no file or no folder."""
    done = shell(folder, line, GONE)
    assert done.returncode == code, done
    assert done.stderr.startswith(words)


@pytest.mark.full
def test_too_few_files_that_may_be_open(folder: Path) -> None:
    """TensorFlow would end the process; if the shell may have more, as many as it needs are asked for."""
    done = shell(folder, "plan good.tfdeploy", "ulimit -n 8; ")
    assert (done.returncode, done.stderr.startswith("error[TFD199]: TensorFlow opens 64 files")) == (2, True)
    assert shell(folder, "compile bad.tfdeploy --out built", "ulimit -Sn 16; ").returncode == 1
    assert "TFD199" not in shell(folder, "doctor", "ulimit -Sn 16; ").stderr


def test_a_terminal_without_the_letters(folder: Path) -> None:
    """Words are written with escapes, and results in UTF-8, which they are by their definition."""
    text = GOOD.replace("tfdeploy = 1", "tfdeploy = 1  # größe")
    (folder / "good.tfdeploy").write_text(text)
    (folder / "größe.tfdeploy").write_text(BAD)
    said = shell(folder, "check größe.tfdeploy", PYTHONIOENCODING="ascii")
    assert (said.returncode, r" --> gr\xf6\xdfe.tfdeploy:5:12" in said.stderr) == (1, True), said
    assert shell(folder, "fmt - < good.tfdeploy", PYTHONIOENCODING="ascii").stdout == text


@pytest.mark.parametrize(
    ("command", "moment"),
    [("check", "click"), ("check", "grammar"), pytest.param("plan", "tensorflow", marks=pytest.mark.full)],
)
def test_an_interrupt_while_modules_are_imported(folder: Path, command: str, moment: str) -> None:
    """There is no traceback, whichever module it is that is being imported."""
    program = f"""
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {moment!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["tfdeploy", {command!r}, "good.tfdeploy"]
from tfdeploy.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


IN_C = """
import ctypes, os
os.system(f"(sleep 1; kill -INT {os.getpid()}) &")
library, mutex = ctypes.PyDLL(None), (ctypes.c_char * 64)()
library.pthread_mutex_lock(mutex)
library.pthread_mutex_lock(mutex)
"""


@pytest.mark.full
def test_an_interrupt_while_a_module_waits_in_a_library(folder: Path) -> None:
    """The command says what it imports, and ends, although Python can do nothing meanwhile."""
    (folder / "waits.py").write_text(IN_C)
    command = [sys.executable, "-m", "tfdeploy", "init", "new.tfdeploy", "--from", "waits:model"]
    said = {**os.environ, "TFDEPLOY_PROGRESS": ""}
    done = subprocess.run(command, cwd=folder, env=said, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "importing waits ...\n")
    assert not (folder / "new.tfdeploy").exists()


@pytest.mark.parametrize(
    "style", ["human", "json", *(pytest.param(each, marks=pytest.mark.full) for each in ("github", "sarif"))]
)
def test_names_that_are_no_text(folder: Path, style: str) -> None:
    """A spec may have any name, in messages, in JSON and in what is written of it."""
    (folder / os.fsdecode(b"b\xffd.tfdeploy")).write_text(BAD)
    assert shell(folder, f"check b?d.tfdeploy --format {style}").returncode == 1


def test_too_few_addresses_are_told_before_tensorflow_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TensorFlow aborts if it cannot start a thread."""
    limit = memory.ADDRESSES
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))
    with pytest.raises(RunError, match=r"reserves [\d,]+ MiB of addresses here, .* have 2,048 MiB") as fault:
        memory.require_addresses()
    assert fault.value.diagnostic.code == "TFD797"
    limit += memory.ADDRESSES_OF_CORE * len(os.sched_getaffinity(0))
    memory.require_addresses()


@pytest.mark.full
@pytest.mark.parametrize("kilobytes", [60_000, 300_000, 1_000_000, 2_000_000])
@pytest.mark.parametrize("line", ["check good.tfdeploy", "plan good.tfdeploy", "doctor"])
def test_little_memory(folder: Path, kilobytes: int, line: str) -> None:
    """Whatever is missing, there is a message, or the command has enough."""
    done = shell(folder, line, f"ulimit -v {kilobytes}; ")
    assert done.returncode in {0, 1, 2}, done


# --- the streams themselves -------------------------------------------------------------------------------


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The two ends of a pipe."""
    ends = os.pipe()
    yield ends
    for each in ends:
        try:
            os.close(each)
        except OSError:
            continue


def test_a_lost_stream_takes_everything(pipe: tuple[int, int]) -> None:
    """It tells the first error once, and is silent from then on."""
    reading, writing = pipe
    told: list[OSError] = []
    stream = own_process.LastingStream(writing, told.append)
    assert stream.write(b"heard") == len(b"heard")
    os.close(reading)
    assert stream.write(b"unheard") == stream.write(b"unheard") == len(b"unheard")
    assert [type(each) for each in told] == [BrokenPipeError]
    assert isinstance(stream.lost, BrokenPipeError)


def test_a_stream_that_another_program_has_made_not_to_wait(pipe: tuple[int, int]) -> None:
    """It is waited for, and nothing is left out."""
    reading, writing = pipe
    os.set_blocking(writing, False)
    text = "x" * 300_000  # more than a pipe holds
    child = os.fork()
    if child == 0:
        os.close(writing)
        time.sleep(0.1)
        left = len(text)
        while left:
            left -= len(os.read(reading, left))
        os._exit(0)
    with own_process.lasting(writing, sys.__stdout__) as out:  # type: ignore[arg-type]
        out.write(text)
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0


def test_the_codes_of_signals_are_those_of_a_shell() -> None:
    """An interrupt while modules are imported ends as one later on."""
    assert SIGNALLED + signal.SIGINT == INTERRUPTED
