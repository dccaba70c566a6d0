"""Cores, memory, disk and network, as far as this process may use them."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from compiler.figures import size
from compiler.process import CGROUPS, MEMINFO, memory_limit
from dsl.files.regular import system_reason
from tfdeploy.doctor import Finding
from tfdeploy.doctor.software import Started
from tfdeploy.runtime.start_tensorflow import LOOPBACK, is_loopback_excepted, proxy_variable

LEAST_DISK = 1 << 30
"""The free space below which a warning is given: checkpoints of a small model fit into less."""


def cores() -> Finding:
    """Return the number of cores that this process may use, and the part of their time that it gets."""
    usable = len(os.sched_getaffinity(0))
    return judge_cores(os.cpu_count() or usable, usable, _quota(CGROUPS / "cpu.max"))


def judge_cores(there: int, usable: int, quota: float | None) -> Finding:
    """Judge the cores."""
    found = f"{usable} of {there}"
    if quota is not None and quota < usable:
        advice = (
            "TensorFlow starts a thread for each core; more clones than cores' time only wait for each other"
        )
        return Finding(
            "cores", "warning", f"{found}, with the time of {quota:g} (a control group limits it)", advice
        )
    return Finding("cores", "fine", found)


def _quota(file: Path) -> float | None:
    """Return the cores' worth of time in a `cpu.max` of control groups (version 2); None for no limit."""
    try:
        most, period = file.read_text().split()
    except (OSError, ValueError):
        return None
    return None if most == "max" else int(most) / int(period)


def memory(started: Started | None) -> Finding:
    """Return the memory that is free for processes of this user."""
    limit = memory_limit()
    return judge_memory(limit, min(limit, _available()), started.peak_bytes if started is not None else None)


def judge_memory(limit: int, available: int, process: int | None) -> Finding:
    """Judge the memory; all arguments are in bytes."""
    found = f"{size(available)} free of {size(limit)}"
    if process is None:
        return Finding("memory", "fine", found)
    fitting = available // process
    found += f"; a process of TensorFlow takes {size(process)} before it has a model"
    if fitting == 0:
        advice = "no run can start; end other programs, or raise the memory limit"
        return Finding("memory", "failure", found, advice)
    if fitting == 1:
        advice = "a cluster on this machine needs such a process for each task, and only one fits"
        return Finding("memory", "warning", found, advice)
    return Finding("memory", "fine", f"{found}, so {fitting} tasks of a cluster fit")


def _available() -> int:
    """Return the bytes that new processes can take without swapping, as far as the kernel estimates it."""
    for line in MEMINFO.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def disk() -> Finding:
    """Return the free space in the current folder, and whether files can be written there."""
    here, temporary = Path.cwd(), Path(tempfile.gettempdir())
    return judge_disk(
        str(here),
        shutil.disk_usage(here).free,
        here=os.access(here, os.W_OK),
        temporary=os.access(temporary, os.W_OK),
    )


def judge_disk(folder: str, free: int, *, here: bool, temporary: bool) -> Finding:
    """Judge the disk."""
    found = f"{size(free)} free in {folder}"
    if not temporary:
        advice = "TensorFlow cannot be started; set TMPDIR to a folder that you may write"
        return Finding("disk", "failure", f"{found}; the folder of temporary files cannot be written", advice)
    if not here:
        advice = "runs write beneath the current folder; change to another one, or set train.directory"
        return Finding("disk", "warning", f"{found}, which cannot be written", advice)
    if free < LEAST_DISK:
        return Finding(
            "disk", "warning", found, "checkpoints may not fit; set train.directory, or delete files"
        )
    return Finding("disk", "fine", found)


TASKS = 16
"""The number of ports that are tried at a time."""

PATIENCE = 10.0


def loopback() -> Finding:
    """Return whether processes of this machine can connect to each other, on free ports."""
    try:
        ports = _connect()
    except OSError as fault:
        reason = system_reason(fault)
        advice = "clusters cannot be started on this machine; allow its programs to listen at that address"
        return Finding("network", "failure", f"{LOOPBACK} cannot be reached: {reason}", advice)
    return Finding("network", "fine", f"{LOOPBACK} can be reached at {ports} ports that were free")


def _connect() -> int:
    """Listen at several ports, connect to each, and return their number; raises OSError."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(TASKS)]
        for server in servers:
            server.settimeout(PATIENCE)
            with socket.create_connection(server.getsockname(), PATIENCE):
                accepted, _ = server.accept()
                accepted.close()
    return len(servers)


def proxy(environment: Mapping[str, str] = os.environ) -> Finding:
    """Return whether a proxy stands between tasks of this machine."""
    used = proxy_variable(environment)
    if used is None:
        return Finding("proxy", "fine", "none that TensorFlow would use")
    if is_loopback_excepted(environment):
        return Finding("proxy", "fine", f"{used} is set, with an exception for {LOOPBACK}")
    advice = "tasks on several machines reach each other through it; add their hosts to no_proxy"
    return Finding("proxy", "warning", f"{used} is set; tasks of this machine do not use it", advice)
