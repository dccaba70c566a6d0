"""`doctor --gpu`: its rungs in words, and a report of what they come to.

The rungs are tried by `ladder.py`, in processes that may crash or hang.
"""

from __future__ import annotations

import getpass
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from attrs import evolve, frozen

from dsl.files.typed_json import JsonRecord
from tfdeploy.runtime.launch.task_processes import describe_exit


@frozen
class Row:
    """A rung.

    Attributes:
        title: What it tries.
        needs: The rungs without which it says nothing.
        advice: What usually helps if it fails.
    """

    title: str
    needs: tuple[str, ...]
    advice: str


FIRST = "seen"
"""The rung that is not tried on logical CPUs, on which all others are."""

RUNGS = {
    "seen": Row(
        "the driver and TensorFlow see the GPUs",
        (),
        "install CUDA's libraries with `pip install 'tfdeploy[cuda]'`, look whether `nvidia-smi` works, and "
        "start a container with its GPUs (`docker run --gpus all`)",
    ),
    "op": Row(
        "a product of matrices is right on each device",
        ("seen",),
        "the driver may be too old for the CUDA that TensorFlow was built for, or the GPU for its kernels: "
        "compare the versions in the report with TensorFlow's table of builds",
    ),
    "tower": Row(
        "one tower trains as it does on a CPU",
        ("op",),
        "look whether other programs use the GPU (`nvidia-smi`); `NVIDIA_TF32_OVERRIDE=0` rules out that "
        "products are rounded to TensorFloat-32",
    ),
    "two towers": Row(
        "two towers with half of the batch each train as one does",
        ("tower",),
        "copies between GPUs may be broken: compare with `NCCL_P2P_DISABLE=1`, and with ACS and IOMMU "
        "switched off in the BIOS",
    ),
    "aggregations": Row(
        "every aggregation but TensorFlow's own sums the same gradients",
        ("two towers",),
        "use an `aggregate` that holds; copies between GPUs may be broken, as for two towers",
    ),
    "collectives": Row(
        "TensorFlow's own all-reduce, which uses NCCL between GPUs, sums them too",
        ("two towers",),
        "use another `aggregate` than `collective`; `NCCL_DEBUG=INFO` lets NCCL say what it does, and "
        "`NCCL_P2P_DISABLE=1` or a larger /dev/shm (`docker run --shm-size 1g`) often help",
    ),
    "float16": Row(
        "training with float16 and a scaled loss comes to about the same",
        ("tower",),
        "use `precision = mixed_bfloat16` or `float32`; GPUs below compute capability 7.0 gain nothing",
    ),
    "memory": Row(
        "a step holds about as much memory as is forecast",
        ("tower",),
        "forecasts are too low here: leave room in `gpu_memory`, and attach the report",
    ),
    "placement": Row(
        "every op runs on the device that the spec asks for",
        ("two towers",),
        "a kernel may be missing for this GPU: `tfdeploy plan --only-misplaced` shows the ops of a spec",
    ),
}
"""The rungs in their order."""


@frozen
class Installed(JsonRecord):
    """What the rungs are tried with.

    Attributes:
        tensorflow: The version of TensorFlow.
        keras: The version of Keras.
        cuda: The version of CUDA that TensorFlow was built for; None for a build without CUDA.
        cudnn: The version of cuDNN, likewise.
        driver: What NVIDIA's driver says of itself; None without one.
        gpus: The name and the compute capability of each GPU that TensorFlow can use.
    """

    tensorflow: str
    keras: str
    cuda: str | None
    cudnn: str | None
    driver: str | None
    gpus: tuple[str, ...]


@frozen
class Outcome(JsonRecord):
    """How a rung has ended.

    Attributes:
        name: The name of the rung.
        failure: What was found, if it has failed; None if it has not.
        skipped: Why it was not tried; None if it was.
        seconds: The seconds that it has taken.
        figures: What was measured, by name.
    """

    name: str
    failure: str | None = None
    skipped: str | None = None
    seconds: float = 0.0
    figures: Mapping[str, float] = {}


FORMAT_VERSION = "1.0"
PATIENCE = 300.0
"""The seconds after which a rung hangs: the first kernel of a GPU may be compiled for minutes."""


@frozen
class Rung(JsonRecord):
    """A rung of the report.

    Attributes:
        title: What it tries.
        outcome: How it has ended.
        advice: What usually helps, if it has failed.
    """

    title: str
    outcome: Outcome
    advice: str | None = None

    @property
    def state(self) -> str:
        """Whether it is fine, has failed, or was not tried."""
        if self.outcome.failure is not None:
            return "FAILS"
        return "skipped" if self.outcome.skipped is not None else "ok"


@frozen
class GpuReport(JsonRecord):
    """A report that can be attached: figures, versions and the names of GPUs, and nothing of the user.

    Attributes:
        emulated: The number of logical CPUs that stood for GPUs; 0 if real ones were tried.
        installed: What it was tried with; None if TensorFlow has not started.
        rungs: The rungs in their order.
        format_version: The version of the format.
    """

    emulated: int
    installed: Installed | None
    rungs: tuple[Rung, ...]
    format_version: str = FORMAT_VERSION

    @property
    def failed(self) -> list[Rung]:
        """The rungs that have failed."""
        return [each for each in self.rungs if each.outcome.failure is not None]


class Climb:
    """A climb of the ladder.

    Args:
        emulated: The number of logical CPUs that stand for GPUs; 0 for real ones.
        tell: Is called with each rung as it ends.
        command: What is run with the number and the names of rungs.

    Attributes:
        installed: What the process has said of itself.
    """

    def __init__(
        self, emulated: int, tell: Callable[[Rung], None], command: tuple[str, ...] | None = None
    ) -> None:
        self._emulated, self._tell = emulated, tell
        self._command = command or (sys.executable, "-P", "-m", "tfdeploy.doctor.ladder")
        self.installed: Installed | None = None

    def report(self) -> GpuReport:
        """Try all rungs and return the report."""
        rungs: dict[str, Rung] = {}
        while len(rungs) < len(RUNGS):
            for outcome in self._outcomes([each for each in RUNGS if each not in rungs], rungs):
                self._add(rungs, outcome)
        return GpuReport(self._emulated, self.installed, tuple(rungs[each] for each in RUNGS))

    def _add(self, rungs: dict[str, Rung], outcome: Outcome) -> None:
        clean = evolve(outcome, failure=None if outcome.failure is None else impersonal(outcome.failure))
        row = RUNGS[outcome.name]
        rungs[outcome.name] = Rung(row.title, clean, row.advice if outcome.failure is not None else None)
        self._tell(rungs[outcome.name])

    def _outcomes(self, names: list[str], before: dict[str, Rung]) -> Iterator[Outcome]:
        """Yield how rungs have ended, until one has that others need, or the process ends."""
        missing = {name: _missing(name, before) for name in names}
        for name in (each for each in names if missing[each]):
            yield Outcome(name, skipped=f"it needs `{missing[name]}`")
            return
        begun, ended, errors = None, None, []
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                [*self._command, str(self._emulated), *names],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, start_new_session=True,
            )  # fmt: skip
            try:
                for line in _lines(process, PATIENCE):
                    outcome = Outcome.read(line)
                    if outcome is not None and outcome.name in RUNGS:
                        ended, begun = outcome, None
                        yield outcome
                        if outcome.failure is not None:
                            return  # and those that do not need it are tried in a process of their own
                    elif line.decode(errors="replace").strip() in RUNGS:
                        begun = line.decode().strip()
                    else:
                        self.installed = Installed.read(line) or self.installed
                hangs = process.poll() is None
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                code = process.wait()
                assert process.stdout is not None
                process.stdout.close()
            said.seek(0)
            errors = [each.decode(errors="replace") for each in said.read().splitlines() if each.strip()]
        if begun is not None or ended is None or ended.name != names[-1]:
            name = begun or names[names.index(ended.name) + 1 if ended is not None else 0]
            how = f"nothing has come for {PATIENCE:.0f} s" if hangs else f"its process {describe_exit(code)}"
            yield Outcome(
                name, failure=" ".join([how, *([f"({errors[-1]})"] if errors and not hangs else [])])
            )


def _missing(name: str, before: dict[str, Rung]) -> str | None:
    """Return the rung without which another says nothing and which has not succeeded; None if none lacks."""
    return next(
        (
            each
            for each in RUNGS[name].needs
            if each in before
            and before[each].state != "ok"
            and (each != FIRST or before[each].outcome.failure)
        ),
        None,
    )


def _lines(process: subprocess.Popen[bytes], patience: float) -> Iterator[bytes]:
    """Yield the lines of a process until it ends, or nothing has come for so many seconds."""
    assert process.stdout is not None
    kept, end = b"", time.monotonic() + patience
    while (left := end - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], left)[0]:
            return
        found = os.read(process.stdout.fileno(), 1 << 16)
        if not found:
            process.wait()
            return
        *whole, kept = (kept + found).split(b"\n")
        end = time.monotonic() + patience
        yield from whole


def personal() -> list[tuple[str, str]]:
    """Return what a report must not have, each with what stands in its place."""
    found = [(str(Path.cwd()), "FOLDER"), (str(Path.home()), "HOME"), (sys.prefix, "PREFIX")]
    found += [(tempfile.gettempdir(), "TEMPORARY"), (socket.gethostname(), "HOST")]
    with suppress(OSError, KeyError):
        found.append((getpass.getuser(), "USER"))
    return sorted((each for each in found if len(each[0]) > 1), key=lambda each: -len(each[0]))


def impersonal(text: str, known: Iterable[tuple[str, str]] | None = None) -> str:
    """Return a text without paths, addresses, and the names of the user and the machine."""
    for word, instead in personal() if known is None else known:
        text = re.sub(rf"(?<![\w.-]){re.escape(word)}(?![\w.-])", instead, text)
    text = re.sub(r"\b\d{1,3}(?:\.\d{1,3}){3}\b", "ADDRESS", text)
    return re.sub(r"(?<![\w:/])/(?!job:|device:)[\w.+-]+(?:/[\w.+-]+)+", "PATH", text)
