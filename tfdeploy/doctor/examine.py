"""The whole examination."""

from __future__ import annotations

from pathlib import Path

from tfdeploy.doctor import installation, machine, network, programs, tensorflow
from tfdeploy.doctor.findings import Examination


def examine() -> Examination:
    """Examine the machine, for which TensorFlow is started in a process of its own."""
    start, started = tensorflow.start()
    return Examination.of(
        (
            installation.python(),
            installation.packages(),
            installation.names(),
            start,
            *([tensorflow.gpus(started)] if started is not None else []),
            machine.cores(),
            machine.memory(started),
            machine.disk(),
            network.loopback(),
            network.proxy(),
            programs.browser(),
            programs.editor(Path.home()),
        )
    )
