"""How much memory this process may have, and how much there is; whether its limits let TensorFlow start."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from dsl.diagnostics import RunError
from dsl.errors.files import out_of_addresses, too_few_files

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
MEMINFO = Path("/proc/meminfo")


def memory_limit() -> int:
    """Return the most bytes that this process may hold.

    That is the least of the machine's memory with its swap space, the limits of the process's control groups
    (versions 1 and 2) and the limits that `ulimit` sets.
    """
    return min([_of_machine(), *_of_groups(), *_of_process()])


ADDRESSES = 2 << 30
"""The bytes of addresses that TensorFlow reserves for its code and for what it allocates while it starts."""
ADDRESSES_OF_CORE = 512 << 20
"""Those that it reserves for each core: stacks of threads, and the room in which each of them allocates."""


def require_addresses() -> None:
    """Check that the process may reserve the addresses that TensorFlow needs, which else ends the process.

    Raises:
        RunError: `ulimit -v` allows less.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = ADDRESSES + ADDRESSES_OF_CORE * len(os.sched_getaffinity(0))
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise RunError(out_of_addresses(limit, needed))


FILES = 64
"""The files, pipes and sockets that a run has open at once, with some to spare; those of data come on top."""


def require_files() -> None:
    """Check that the process may open the files that TensorFlow needs, which else ends the process.

    Raises:
        RunError: `ulimit -n` allows less.
    """
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit < FILES <= most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, most))
    elif limit < FILES:
        raise RunError(too_few_files(limit=limit, needed=FILES))


def _of_machine() -> int:
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return physical + (_of_meminfo("SwapTotal") or 0)


def _of_meminfo(wanted: str) -> int | None:
    """Return what the kernel says of the machine's memory under a name, in bytes; None if it says nothing."""
    for line in _text(MEMINFO).splitlines():
        name, _, value = line.partition(":")
        if name == wanted:
            return int(value.split()[0]) * 1024
    return None


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
