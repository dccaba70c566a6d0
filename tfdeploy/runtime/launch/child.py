"""The script by which a launcher starts a process that ends with the launcher.

It is run as `child.py PIPE PARENT COMMAND ...`. PIPE is a descriptor whose other end only the launcher has,
and PARENT is the launcher's process. Linux is asked to kill this process when the launcher ends, which works
however the launcher ends, and also while this process is stopped. In addition a thread waits until the pipe
is closed, in case that request is not honoured. Then the command of tfdeploy is run.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
import threading
from pathlib import Path

PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
ORPHANED = 128 + signal.SIGKILL


def follow(pipe: int, parent: int) -> None:
    """Make this process end when its parent ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0) != 0:
        sys.stderr.write(f"no signal at the launcher's end: {os.strerror(ctypes.get_errno())}\n")
    threading.Thread(target=_end_with, args=(pipe,), daemon=True, name="launcher").start()
    if os.getppid() != parent:
        os._exit(ORPHANED)


def _end_with(pipe: int) -> None:
    """Wait for the other end of the pipe to be closed."""
    while os.read(pipe, 1):
        pass
    os._exit(ORPHANED)


def main() -> None:
    """Run the command of tfdeploy that the arguments name."""
    follow(int(sys.argv[1]), int(sys.argv[2]))
    sys.argv = ["tfdeploy", *sys.argv[3:]]
    root = str(Path(__file__).resolve().parents[3])
    if sys.path[0:1] == [str(Path(__file__).resolve().parent)]:
        del sys.path[0]  # the folder of this script: its modules must not be imported by their bare names
    from importlib.util import find_spec

    if find_spec("tfdeploy") is None:
        sys.path.append(root)
    runpy.run_module("tfdeploy", run_name="__main__")


if __name__ == "__main__":
    main()
