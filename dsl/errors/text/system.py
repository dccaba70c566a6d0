"""TFD199 and TFD796 to TFD798: what the operating system refuses to a command, whatever the command does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors.making import error, warning
from dsl.errors.words import in_full

if TYPE_CHECKING:
    from dsl.diagnostics import Diagnostic


def refused(path: str, reason: str) -> Diagnostic:
    """Report a file that the system refuses to read or write.

    Args:
        path: The file.
        reason: What the system says.
    """
    return error("TFD199", f"{in_full(path)}: {reason}", None)


def refused_something(reason: str) -> Diagnostic:
    """Report something that the system refuses without the name of a file: a process, a pipe, a thread."""
    return error("TFD199", f"the operating system refused something that the command needs: {reason}", None)


def too_few_files(limit: int, needed: int) -> Diagnostic:
    """Report that a process may not open as many files as TensorFlow does.

    Args:
        limit: The most files that it may have open.
        needed: The files that TensorFlow needs here.
    """
    return error(
        "TFD199",
        f"TensorFlow opens {needed:,} files, pipes and sockets, and the process may open {limit:,}",
        None,
        help=f"`ulimit -n {needed}`, or more, gives this shell more",
    )


def name_not_utf8(name: str) -> Diagnostic:
    """Report the name of a file that cannot be given to TensorFlow, or be written into a text."""
    return error(
        "TFD195",
        f"{in_full(name)} is not UTF-8, as the names of files have to be that TensorFlow reads and writes",
        None,
        help="rename the file or the folder",
    )


def lost_output(reason: str) -> Diagnostic:
    """Report that what a command says cannot be written to standard output."""
    return error("TFD796", f"standard output cannot be written: {reason}", None)


def output_given_up(reason: str) -> Diagnostic:
    """Warn that a run goes on although standard output cannot be written."""
    return warning(
        "TFD796",
        f"standard output cannot be written: {reason}",
        None,
        notes=("the run goes on without it; its progress is in the history of its run directory",),
    )


def out_of_memory() -> Diagnostic:
    """Report that the system has given the process no more memory."""
    return error(
        "TFD797",
        "the process may not have as much memory as the command needs",
        None,
        help="`ulimit -v` shows the limit of this shell, and `tfdeploy doctor` the memory of the machine",
    )


def out_of_addresses(limit: int, needed: int) -> Diagnostic:
    """Report that a process may not have as many addresses as TensorFlow reserves.

    Args:
        limit: The most bytes of addresses that it may have.
        needed: The bytes that TensorFlow needs here.
    """
    return error(
        "TFD797",
        f"TensorFlow reserves {needed >> 20:,} MiB of addresses here, and the process may have "
        f"{limit >> 20:,} MiB",
        None,
        help=f"`ulimit -v unlimited`, or `ulimit -v {needed >> 10}`, gives this shell more",
    )


def no_current_folder() -> Diagnostic:
    """Report that the folder in which the command was started is gone."""
    return error(
        "TFD798",
        "the current folder is not there any more",
        None,
        help="change to a folder that is there, as with `cd ~`",
    )
