"""The processes that measure: one for each number of threads, because that is fixed for a process."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from dsl.files.typed_json import read_record
from tfdeploy.runtime.calibrate.requests import Measured
from tfdeploy.runtime.calibrate.turns import nothing, run_in_turns

LARGEST = 1 << 26
"""The most bytes of an answer."""


def measure_in_processes(
    arguments: Sequence[str], threads: Sequence[int], between: Callable[[], None] = nothing
) -> list[Measured] | None:
    """Start a process for each number of threads; return None if one failed, and has said why.

    Args:
        arguments: The command `calibrate` with its spec and options, as words.
        threads: The numbers of threads that may work on an op.
        between: Is called when each process has had a turn, while all of them wait.

    Returns:
        What was measured with each number of threads.
    """
    with tempfile.TemporaryDirectory(prefix="tfdeploy-") as folder:
        answers = {each: Path(folder, f"{each}.json") for each in threads}
        commands = [
            [sys.executable, "-m", "tfdeploy", *arguments, f"--threads={each}", f"--answer={answer}"]
            for each, answer in answers.items()
        ]
        if not run_in_turns(commands, between):
            return None
        return [read_record(each, Measured, LARGEST) for each in answers.values()]
