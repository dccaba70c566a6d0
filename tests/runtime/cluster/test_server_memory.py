"""Servers that hold pieces of variables return memory at once; other tasks keep buffers for the next step."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.runtime.tasks import SPEC
from tests.support import spec_of
from tfdeploy.runtime.cluster import server
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task

JOBS = {"ps": "tasks = 2", "worker": "tasks = 1"}
MAPPED = """
import ctypes, os, sys
from tfdeploy.runtime.cluster import server

class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("arena", "free", "fast", "mapped", "bytes", *"abcde")]

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes, libc.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
libc.mallinfo.restype = Counts
for each in sys.argv[1:]:
    getattr(server, each)()
first = libc.mallinfo().arena
libc.free(libc.malloc(20 << 20))  # after that, the C library keeps buffers of this size
before = libc.mallinfo()
libc.malloc(4 << 20)
mapped, arena = libc.mallinfo().mapped - before.mapped, libc.mallinfo().arena
parts = [libc.malloc(1 << 20) for _ in range(4)]
for part in parts:
    libc.free(part)
grown = libc.mallinfo().arena - arena >= 3 << 20
parts = [libc.malloc(1 << 20) for _ in range(60)]
for part in parts:
    libc.free(part)
kept = libc.mallinfo().arena - first >= 50 << 20
print(mapped, grown, kept, os.environ.get(server.SYSTEM_ALLOCATOR))
"""


def _mapped(*arguments: str, **environment: str) -> str:
    """Return how many buffers are mapped alone in a process, and what TensorFlow is told there."""
    own = {key: value for key, value in os.environ.items() if key != server.SYSTEM_ALLOCATOR}
    command = [sys.executable, "-c", MAPPED, *arguments]
    found = subprocess.run(command, env={**own, **environment}, capture_output=True, text=True, check=True)
    return found.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library of Linux how it keeps memory")
def test_a_large_buffer_is_mapped_alone_however_large_those_before_were() -> None:
    """So it is returned when it is freed. Smaller ones, as of rows, leave their pages for the next step.

    What the user has set in the environment stays.
    """
    assert _mapped().startswith("0 ")
    at_once = "return_memory_at_once"
    assert _mapped(at_once) == "1 True False true"
    assert _mapped(at_once, MALLOC_MMAP_THRESHOLD_=str(8 << 20)).startswith("0 ")
    assert _mapped(at_once, MALLOC_TRIM_THRESHOLD_=str(1 << 20)) == "1 False False true"
    assert _mapped(at_once, **{server.SYSTEM_ALLOCATOR: "false"}) == "1 True False false"


@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library of Linux how it keeps memory")
def test_what_a_step_has_freed_stays_for_the_next_step() -> None:
    """Otherwise that depends on what was freed before. What the user has set in the environment stays."""
    assert _mapped() == "0 True False None"
    assert _mapped("keep_buffers") == "0 False True None"
    assert _mapped("keep_buffers", MALLOC_TRIM_THRESHOLD_=str(1 << 20)) == "0 False False None"


class _StartedError(Exception):
    pass


@pytest.mark.parametrize(
    ("rule", "told"),
    [("sharded(ps[*])", ["memory", "start False"]), ("balanced(ps[*])", ["buffers", "start False"])],
)
def test_a_server_with_pieces_is_told_before_tensorflow_starts(
    rule: str, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow reads its setting while it is imported."""
    spec = spec_of(SPEC.format(**JOBS) + f"place {{ variables -> {rule} }}\n")
    calls = []

    def start(*, verbose: bool) -> None:
        calls.append(f"start {verbose}")
        raise _StartedError

    monkeypatch.setattr(server, "return_memory_at_once", lambda: calls.append("memory"))
    monkeypatch.setattr(server, "keep_buffers", lambda: calls.append("buffers"))
    monkeypatch.setattr(server, "start_tensorflow", start)
    cluster = Cluster.of({"ps": ["a:1", "a:2"], "worker": ["a:3"]})
    membership = Membership(cluster, Task("ps", 0), spec.sha256)
    with pytest.raises(_StartedError):
        server.serve(spec, membership, print, print)
    assert calls == told
