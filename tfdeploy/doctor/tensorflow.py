"""Whether TensorFlow starts, and the GPUs that it can use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from dsl.files.typed_json import BadRecord, parse_record
from tfdeploy.doctor.findings import Finding
from tfdeploy.doctor.probe import Started

PATIENCE = 180.0
"""The seconds after which a TensorFlow that has not started is taken to hang."""

NVIDIA = Path("/proc/driver/nvidia/gpus")
KEPT_LINES = 3


def start() -> tuple[Finding, Started | None]:
    """Start TensorFlow in a process, and return how that went and what the process has found."""
    command = [sys.executable, "-P", "-m", "tfdeploy.doctor.probe"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        found = f"it has not started within {PATIENCE:.0f} seconds"
        advice = "no command that builds a graph will work; try again when the machine is less busy"
        return Finding("tensorflow", "failure", found, advice), None
    return judge_start(done.returncode, done.stdout, done.stderr)


def judge_start(code: int, out: str, err: str) -> tuple[Finding, Started | None]:
    """Judge the end of the process.

    Args:
        code: Its exit code; negative for a signal.
        out: Its standard output.
        err: Its standard error.
    """
    if code == 0:
        try:
            started = parse_record(out.encode(), Started)
        except BadRecord as fault:
            return Finding(
                "tensorflow", "failure", f"what it says of itself {fault}", "install it again"
            ), None
        build = "without CUDA" if started.cuda is None else f"for CUDA {started.cuda}"
        found = f"TensorFlow {started.tensorflow} (built {build}), Keras {started.keras}"
        return Finding("tensorflow", "fine", found), started
    if code == -signal.SIGILL:
        found = "it uses instructions that this processor lacks"
        advice = "use a machine whose processor has AVX, or a TensorFlow that was built for this one"
        return Finding("tensorflow", "failure", found, advice), None
    if code == -signal.SIGKILL:
        found = "its process was killed while it started"
        advice = "this happens if the memory is exhausted; see `memory`"
        return Finding("tensorflow", "failure", found, advice), None
    last = " ".join(err.strip().splitlines()[-KEPT_LINES:]) or f"exit code {code}"
    advice = "no command that builds a graph will work; install tfdeploy again into a new environment"
    return Finding("tensorflow", "failure", f"it does not start: {last}", advice), None


def gpus(started: Started) -> Finding:
    """Return the GPUs of the machine."""
    there = len(list(NVIDIA.iterdir())) if NVIDIA.is_dir() else 0
    return judge_gpus(started, there, os.environ.get("CUDA_VISIBLE_DEVICES"))


def judge_gpus(started: Started, there: int, visible: str | None) -> Finding:
    """Judge the GPUs.

    Args:
        started: What TensorFlow can use.
        there: The number of GPUs that NVIDIA's driver knows.
        visible: The value of CUDA_VISIBLE_DEVICES, or None if it is not set.
    """
    number = len(started.gpus)
    if number >= there:
        if not number:
            return Finding("gpus", "fine", "none; `--emulate` tries a spec for GPUs on logical CPU devices")
        return Finding("gpus", "fine", f"{number}: {', '.join(started.gpus)}")
    found = f"the driver has {there}, and TensorFlow can use {number}"
    if visible is not None:
        return Finding("gpus", "fine", f"{found}, because CUDA_VISIBLE_DEVICES is {visible!r}")
    advice = "specs with more GPUs than that will not run; install CUDA's libraries with tfdeploy[cuda]"
    return Finding("gpus", "warning", found, advice)
