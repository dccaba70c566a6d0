"""How much memory this process may have: `memory_limit()`."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
MEMINFO = Path("/proc/meminfo")


def memory_limit() -> int:
    """Return the most bytes that this process may hold.

    That is the least of the machine's memory with its swap space, the limits of the process's control groups
    (versions 1 and 2) and the limits that `ulimit` sets.
    """
    return min([_of_machine(), *_of_groups(), *_of_process()])


def _of_machine() -> int:
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in _text(MEMINFO).splitlines():
        name, _, value = line.partition(":")
        if name == "SwapTotal":
            physical += int(value.split()[0]) * 1024
    return physical


def _of_groups() -> Iterator[int]:
    """Yield the limits of the control groups that this process is in, with those above them."""
    for line in _text(MEMBERSHIP).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = CGROUPS / "memory" if controllers else CGROUPS
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        inside = root / path.lstrip("/")
        for group in (inside, *inside.parents):  # in a container the path is often of another root
            found = _text(group / name).strip()
            if found.isdecimal():
                yield int(found)
            if group == root:
                break


def _of_process() -> Iterator[int]:
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            yield soft


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
