"""The place where errors become messages and exit codes.

0 fine; 1 the spec has errors; 2 wrong usage, a missing file, a run that cannot go on, output that nobody can
take, or a fault of the tool;
130 interrupted. (143, terminated, is raised by the runtime as SystemExit after its checkpoint is written.)
"""

from __future__ import annotations

import errno
import gc
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

import click

from dsl.codes import is_file_fault
from dsl.diagnostics import Diagnostic, RunError, SpecError
from dsl.errors import files
from dsl.files.regular import system_reason
from dsl.formats.render import render
from tfdeploy.cli.common import Common, say
from tfdeploy.own_process import LostOutputError, exit_with, outlive_terminal

SPEC_ERROR = 1
FAULT = 2
INTERRUPTED = 130

_ENDS = re.compile(r"""[\s"'`]+""")
"""What stands around the name of a file in a text."""
_UNMAPPED = re.compile("failed to map segment|[Cc]annot allocate memory")
"""What the loader of libraries says if there is too little memory for one."""
_STRANGE = re.compile("[\udc80-\udcff]")
"""How Python writes bytes of a name that are not UTF-8."""


def run(command: click.Command, name: str) -> NoReturn:
    """Run `command`, known as `name`, with the arguments of this process, and exit with its code."""
    early = Common(debug="--debug" in sys.argv)
    try:
        code = guarded(early, lambda: command.main(prog_name=name, standalone_mode=False))
    except SystemExit as stop:
        if not isinstance(stop.code, int):
            raise
        code = stop.code
    gc.freeze()  # the memory is given back with the process, so that Python need not look for what to free
    exit_with(code)


def guarded(common: Common, action: Callable[[], int | None]) -> int:
    """Call `action` and return its exit code; report its errors."""
    try:
        code = _reported(common, action)
        sys.stdout.flush()
    except LostOutputError as error:
        return _lost_output(error.reason, common)
    return code


def _reported(common: Common, action: Callable[[], int | None]) -> int:
    try:
        return action() or 0
    except LostOutputError:
        raise
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        _show_usage(error)
        return FAULT
    except Exception as error:  # noqa: BLE001 the one place that catches everything
        return _report(error, common)


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


def telling(common: Common) -> dict[str, Any]:
    """Return the arguments for functions of `tfdeploy.api` that say as much as the common options ask for."""
    return {"verbose": common.verbose, "warn": lambda warning: show([warning], common)}


def show(diagnostics: Iterable[Diagnostic], common: Common) -> None:
    """Write `diagnostics` to standard error for people to read."""
    shown = [each for each in diagnostics if each.is_error or not common.quiet]
    if shown:
        sys.stderr.write(render(shown, "human", color=common.color_errors))


def goes_on(common: Common) -> None:
    """Let a command go on if its terminal goes, or if its output cannot be written."""
    color = common.color_errors
    outlive_terminal(
        lambda reason: render([files.output_given_up(reason=system_reason(reason))], "human", color=color)
    )


def _report(error: Exception, common: Common) -> int:
    if common.debug:
        say("".join(traceback.format_exception(error)), err=True, end="")
    if isinstance(error, SpecError):
        show(error.diagnostics, common)
        return exit_code(error.diagnostics)
    show([error.diagnostic if isinstance(error, RunError) else _diagnostic(error)], common)
    return FAULT


def _diagnostic(error: Exception) -> Diagnostic:
    """Return what is said of an exception that nothing has foreseen where it was raised."""
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and _UNMAPPED.search(str(error))):
        return files.out_of_memory()
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":  # as Python says it
        return files.refused_something(reason="a new thread")
    if isinstance(error, UnicodeEncodeError):
        for name in filter(_STRANGE.search, _ENDS.split(error.object)):
            return files.name_not_utf8(name=name)
    if not isinstance(error, OSError) or error.errno is None:
        return _internal_fault(error)
    reason = system_reason(error)
    if error.filename is not None:
        return files.refused(path=os.fsdecode(error.filename), reason=reason)
    return files.refused_something(reason=reason) if _has_current_folder() else files.no_current_folder()


def _has_current_folder() -> bool:
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _internal_fault(error: Exception) -> Diagnostic:
    from tfdeploy import __version__  # which reads the metadata of the installed package

    what = f"{type(error).__name__}: {error}".rstrip(": ")
    return Diagnostic(
        "TFD901",
        f"tfdeploy itself failed: {what}",
        notes=(f"tfdeploy {__version__}, Python {sys.version.split()[0]}",),
        help="run again with `--debug` and report what it prints, with the spec and the command line",
    )


def _lost_output(reason: OSError, common: Common) -> int:
    """Say that standard output is lost, unless its reader has gone, who has what it wanted."""
    if reason.errno != errno.EPIPE:
        show([files.lost_output(reason=system_reason(reason))], common)
    return FAULT
