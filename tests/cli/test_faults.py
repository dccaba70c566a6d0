"""What every command does with wrong usage, interrupts, closed pipes and faults of its own."""

import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.cli.conftest import Command
from tfdeploy.cli.group import COMMANDS, load

FAULTY = """
import click, sys
from tfdeploy.cli import faults, options
from dsl.diagnostics import Diagnostic, RunError, SpecError
from tfdeploy.own_process import own
@click.command()
@options.common_options
def command(common):
    {action}
    return 0
own()
faults.run(command, "faulty")
"""


def faulty(action: str) -> tuple[str, ...]:
    """Return the program of a command that does `action`."""
    return ("-c", FAULTY.format(action=action))


def test_help_lists_commands_without_loading_them(command: Command) -> None:
    """`--help` of the group shows each command with a line, and ends with 0."""
    loaded = "lambda: print('lark' in sys.modules, 'tfdeploy.cli.commands.texts' in sys.modules)"
    program = ("-c", f"import sys, atexit; atexit.register({loaded}); from tfdeploy.cli import main; main()")
    done = command("--help", program=program)
    assert done.code == 0
    assert done.out.endswith("False False\n")
    assert "  check " in done.out
    assert "  explain " in done.out


def test_help_of_each_command(command: Command) -> None:
    """Every command that is listed exists and explains itself, with the common options."""
    assert COMMANDS
    for name in COMMANDS:
        text = load(name).get_help(load(name).make_context(name, [], resilient_parsing=True))
        assert "--set PATH=VALUE" in text
        assert "--debug" in text
    assert command("check", "--help").code == 0


def test_version(command: Command) -> None:
    """`--version` names the tool and its version."""
    assert command("--version").out == f"tfdeploy {version('tfdeploy')}\n"


def test_fault_of_the_tool(command: Command) -> None:
    """A fault of the tool is reported as one, without a traceback except for `--debug`, and ends with 2."""
    done = command(program=faulty("1 / 0"))
    assert (done.code, done.out) == (2, "")
    first, note, advice, *_ = done.err.splitlines()
    assert first == "error[TFD901]: tfdeploy itself failed: ZeroDivisionError: division by zero"
    assert note.startswith("  = note: tfdeploy ")
    assert (
        advice
        == "  = help: run again with `--debug` and report what it prints, with the spec and the command line"
    )
    assert "Traceback" not in done.err
    debugged = command("--debug", program=faulty("1 / 0"))
    assert debugged.code == 2
    assert debugged.err.startswith("Traceback (most recent call last):\n")
    assert "error[TFD901]" in debugged.err


INTERRUPT = "import os, signal; os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(9)"


@pytest.mark.parametrize(
    ("action", "code", "said"),
    [
        ('raise SpecError([Diagnostic("TFD401", "no name")])', 1, "error[TFD401]: no name"),
        ('raise SpecError([Diagnostic("TFD190", "no file")])', 2, "error[TFD190]: no file"),
        ('raise RunError(Diagnostic("TFD701", "no data"))', 2, "error[TFD701]: no data"),
        ("open('/nowhere/at/all')", 2, "error[TFD199]: `/nowhere/at/all`: no such file or directory"),
        (INTERRUPT, 130, ""),
        (INTERRUPT.replace("SIGINT", "SIGTERM"), 143, ""),
        (INTERRUPT.replace("SIGINT", "SIGHUP"), 129, ""),
        ("sys.exit(143)", 143, ""),
    ],
)
def test_how_a_command_ends(command: Command, action: str, code: int, said: str) -> None:
    """Errors of the spec end with 1, all else that cannot go on with 2, what ends by itself as it does."""
    done = command(program=faulty(action))
    more = f"\n\n1 error\n`tfdeploy explain {said[6:12]}` says more about it\n" if said else ""
    assert (done.code, done.out, done.err) == (code, "", said + more)


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_what_a_signal_ends_at_once_is_cleaned_up(command: Command, number: str) -> None:
    """Also while TensorFlow is imported, which may swallow exceptions."""
    block = "with not_interruptible(), cleanup(lambda: os.write(1, b'clean')):"
    send = INTERRUPT.replace("SIGINT", number)
    action = f"import os; from tfdeploy.own_process import cleanup, not_interruptible\n    {block} {send}"
    done = command(program=faulty(action))
    assert (done.code, done.out) == (130 if number == "SIGINT" else 143, "clean")


@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize("code", [0, 143])
def test_libraries_of_tensorflow_do_nothing_at_the_end(command: Command, loaded: bool, code: int) -> None:
    """What Python does at the end is done; a library that would abort the process then does not."""
    aborts = "libc = ctypes.CDLL(None); libc.__cxa_atexit(libc.abort, None, None)"
    name = "tensorflow" if loaded else "something"
    action = f"import atexit, ctypes; {aborts}; atexit.register(print, 'bye'); sys.modules['{name}'] = sys"
    done = command(program=faulty(f"{action}; print('hello'); sys.exit({code})"))
    assert (done.code, done.out, done.err) == (code if loaded else -signal.SIGABRT, "hello\nbye\n", "")


@pytest.mark.parametrize(("stream", "code"), [("stdout", 2), ("stderr", 0)])
def test_reader_that_goes_away(command: Command, stream: str, code: int) -> None:
    """There is no complaint. Without results the command has failed, and without messages it has not."""
    write = f"[print('x' * 10000, file=sys.{stream}, flush=True) for _ in range(100)]"
    process = subprocess.Popen(
        [sys.executable, *faulty(write)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=command.directory,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    gone, other = (process.stdout, process.stderr) if stream == "stdout" else (process.stderr, process.stdout)
    gone.close()
    rest = other.read()
    other.close()
    assert (process.wait(timeout=60), rest) == (code, b"")


def test_colour_on_a_terminal(command: Command) -> None:
    """On a terminal messages are coloured, unless it is a dumb one."""
    for term, colored in (("xterm", True), ("dumb", False)):
        leader, follower = os.openpty()
        arguments = [sys.executable, "-m", "tfdeploy", "check", "nowhere.tfdeploy"]
        env = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "FORCE_COLOR"}}
        done = subprocess.run(
            arguments,
            stderr=follower,
            cwd=command.directory,
            env={**env, "TERM": term},
            check=False,
            timeout=60,
        )
        os.close(follower)
        assert done.returncode == 2
        assert (b"\x1b[" in os.read(leader, 10000)) is colored
        os.close(leader)
