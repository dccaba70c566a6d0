"""What every command does with wrong usage, interrupts, closed pipes and faults of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Command

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


@pytest.mark.parametrize(
    "arguments",
    [
        ("chek",),
        ("check",),
        ("check", "good.tfdeploy", "--frmat", "json"),
        ("check", "good.tfdeploy", "--format", "xml"),
        ("check", "good.tfdeploy", "--set", "clones.count"),
        ("check", "good.tfdeploy", "--set", "=4"),
        ("check", "good.tfdeploy", "--color", "sometimes"),
        ("explain", "TFD999"),
        (),
    ],
)
def test_wrong_usage_ends_with_two(command: Command, arguments: tuple[str, ...]) -> None:
    """Wrong usage says what is wrong on standard error and ends with 2."""
    done = command(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].strip()
    assert "Traceback" not in done.err


def test_unknown_command_names_the_nearest(command: Command) -> None:
    """A command that was misspelt is answered with the one that was meant."""
    message = "Error: there is no command 'chek'; there is a command with a similar name: check"
    assert command("chek").err.splitlines()[-1] == message


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
    from tfdeploy.cli.group import COMMANDS, load

    assert COMMANDS
    for name in COMMANDS:
        text = load(name).get_help(load(name).make_context(name, [], resilient_parsing=True))
        assert "--set PATH=VALUE" in text
        assert "--debug" in text
    assert command("check", "--help").code == 0


def test_version(command: Command) -> None:
    """`--version` names the tool and its version."""
    from importlib.metadata import version

    assert command("--version").out == f"tfdeploy {version('tfdeploy')}\n"


def test_fault_of_the_tool(command: Command) -> None:
    """A fault of the tool is reported as one, without a traceback, and ends with 2."""
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


def test_debug_shows_the_traceback(command: Command) -> None:
    """With `--debug` the traceback comes first."""
    done = command("--debug", program=faulty("1 / 0"))
    assert done.code == 2
    assert done.err.startswith("Traceback (most recent call last):\n")
    assert "error[TFD901]" in done.err


def test_spec_error_ends_with_one_and_run_error_with_two(command: Command) -> None:
    """Errors of the spec end with 1, a run that cannot go on and a missing file with 2."""
    spec = command(program=faulty('raise SpecError([Diagnostic("TFD401", "no name")])'))
    file = command(program=faulty('raise SpecError([Diagnostic("TFD190", "no file")])'))
    run = command(program=faulty('raise RunError(Diagnostic("TFD701", "no data"))'))
    assert (spec.code, spec.err) == (
        1,
        "error[TFD401]: no name\n\n1 error\n`tfdeploy explain TFD401` says more about it\n",
    )
    assert (file.code, file.err) == (
        2,
        "error[TFD190]: no file\n\n1 error\n`tfdeploy explain TFD190` says more about it\n",
    )
    assert (run.code, run.err) == (
        2,
        "error[TFD701]: no data\n\n1 error\n`tfdeploy explain TFD701` says more about it\n",
    )


def test_operating_system_error_names_the_file(command: Command) -> None:
    """A file that the operating system refuses is named with its reason."""
    done = command(program=faulty("open('/nowhere/at/all')"))
    assert (done.code, done.err) == (
        2,
        (
            "error[TFD199]: `/nowhere/at/all`: no such file or directory\n\n1 error\n"
            "`tfdeploy explain TFD199` says more about it\n"
        ),
    )


def test_interrupt_ends_with_130(command: Command) -> None:
    """An interrupt by the keyboard ends with 130, silently."""
    done = command(
        program=faulty("import os, signal; os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(9)")
    )
    assert (done.code, done.out, done.err) == (130, "", "")


def test_exit_code_of_the_runtime_is_kept(command: Command) -> None:
    """A command that exits by itself, as the runtime does after SIGTERM, keeps its code."""
    assert command(program=faulty("sys.exit(143)")).code == 143


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


@pytest.mark.parametrize(
    ("arguments", "env", "colored"),
    [
        ((), {}, False),
        ((), {"FORCE_COLOR": "1"}, True),
        ((), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (("--color", "always"), {"NO_COLOR": "1"}, True),
        (("--color", "never"), {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour(
    command: Command, arguments: tuple[str, ...], env: dict[str, str | None], colored: bool
) -> None:
    """`--color` decides, then NO_COLOR, then FORCE_COLOR, and a pipe has none."""
    done = command("check", "nowhere.tfdeploy", *arguments, env=env)
    assert ("\x1b[" in done.err) is colored


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


def test_signal_numbers_of_the_contract() -> None:
    """The exit codes of the contract are those of a shell: 128 and the number of the signal."""
    from tfdeploy.cli.faults import INTERRUPTED

    assert 128 + signal.SIGINT == INTERRUPTED
