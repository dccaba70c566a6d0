"""The command line. `tfdeploy COMMAND ...` and `compile-and-run ...` start here.

To add a command: write `tfdeploy/cli/commands/NAME.py` with a click command `command`,
whose function is decorated with `@common_options`, takes a `Common` first and returns an exit code, and add a
row to `COMMANDS` in `tfdeploy/cli/group.py`. Heavy imports (TensorFlow, rich, cattrs) stand inside the
function. Errors need not be caught: `tfdeploy/cli/faults.py` turns `SpecError`, `RunError` and others into
diagnostics and exit codes.
"""

from __future__ import annotations


def main() -> None:
    """Run `tfdeploy` with the arguments of this process and exit."""
    _begin("_TFDEPLOY_COMPLETE")
    from tfdeploy.cli.faults import run
    from tfdeploy.cli.group import tfdeploy

    run(tfdeploy, "tfdeploy")


def compile_and_run() -> None:
    """Run `compile-and-run`, the command that is also `tfdeploy compile-and-run`, and exit."""
    _begin("_COMPILE_AND_RUN_COMPLETE")
    from tfdeploy.cli.faults import run
    from tfdeploy.cli.group import load

    run(load("compile-and-run"), "compile-and-run")


def _begin(completes: str) -> None:
    """Make this process that of a command. First of all, Ctrl-C ends it without a traceback."""
    import os
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))
    from tfdeploy.own_process import own

    own()
    if os.environ.get(completes):
        from tfdeploy.cli import completion

        completion.install()
