"""The place where errors become messages and exit codes.

0 fine; 1 the spec has errors; 2 wrong usage, a missing file, a run that cannot go on, or a fault of the tool;
130 interrupted. (143, terminated, is raised by the runtime as SystemExit after its checkpoint is written.)
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from io import StringIO
from typing import TYPE_CHECKING, NoReturn

import click

from dsl.codes import is_file_fault, name_of
from dsl.diagnostics import Diagnostic, RunError, SpecError
from dsl.formats.render import render
from tfdeploy.cli.common import Common
from tfdeploy.cli.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SPEC_ERROR = 1
FAULT = 2
INTERRUPTED = 130


def run(command: click.Command, name: str) -> NoReturn:
    """Run `command`, known as `name`, with the arguments of this process, and exit with its code.

    Args:
        command: The command of click.
        name: The name under which it was called, for help texts and for completion.
    """
    if os.environ.get(f"_{name.replace('-', '_').upper()}_COMPLETE"):
        from tfdeploy.cli import completion

        completion.install()
    early = Common(debug="--debug" in sys.argv)
    code = guarded(early, lambda: command.main(prog_name=name, standalone_mode=False))
    gc.freeze()  # the memory is given back with the process, so that Python need not look for what to free
    sys.exit(code)


def guarded(common: Common, action: Callable[[], int | None]) -> int:
    """Call `action` and return its exit code; report its errors.

    Args:
        common: What the options that every command has say.
        action: Runs the command, and returns its exit code; None counts as 0.
    """
    try:
        code = action() or 0
        sys.stdout.flush()
    except BrokenPipeError:
        return _closed_pipe()
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        _show_usage(error)
        return FAULT
    except Exception as error:  # noqa: BLE001 the one place that catches everything
        return _report(error, common)
    return code


def _show_usage(error: click.ClickException) -> None:
    """Write the message of click, which quotes arguments of the command line."""
    text = StringIO()
    error.show(text)
    say(text.getvalue(), err=True, end="")


def exit_code(diagnostics: Iterable[Diagnostic]) -> int:
    """Return 0 if nothing is an error, 2 if a file could not be read or written, else 1."""
    errors = [each for each in diagnostics if each.is_error]
    if any(is_file_fault(each.code) for each in errors):
        return FAULT
    return SPEC_ERROR if errors else 0


def show(diagnostics: Iterable[Diagnostic], common: Common) -> None:
    """Write `diagnostics` to standard error for people to read.

    Args:
        diagnostics: The diagnostics, in the order in which they are shown.
        common: Says whether standard error gets colours.
    """
    sys.stderr.write(render(diagnostics, "human", color=common.color_errors))


def _report(error: Exception, common: Common) -> int:
    if common.debug:
        traceback.print_exception(error)
    if isinstance(error, SpecError):
        show(error.diagnostics, common)
        return exit_code(error.diagnostics)
    if isinstance(error, RunError):
        show([error.diagnostic], common)
    elif isinstance(error, OSError) and error.filename is not None:
        show([_file_system_error(error)], common)
    else:
        show([_internal_fault(error)], common)
    return FAULT


def _file_system_error(error: OSError) -> Diagnostic:
    reason = (error.strerror or "failed").lower()
    return Diagnostic("TFD199", name_of("TFD199"), f"`{os.fsdecode(error.filename)}`: {reason}")


def _internal_fault(error: Exception) -> Diagnostic:
    from tfdeploy import __version__  # which reads the metadata of the installed package

    what = f"{type(error).__name__}: {error}".rstrip(": ")
    return Diagnostic(
        "TFD901",
        name_of("TFD901"),
        f"tfdeploy itself failed: {what}",
        notes=(f"tfdeploy {__version__}, Python {sys.version.split()[0]}",),
        help="run again with `--debug` and report what it prints, with the spec and the command line",
    )


def _closed_pipe() -> int:
    """Discard the interpreter's last flush, because the reader of the output has closed it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return FAULT
