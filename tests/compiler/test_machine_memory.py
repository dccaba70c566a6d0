"""How much memory this process may have, with files in place of those of the kernel."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest

from compiler import process as memory

if TYPE_CHECKING:
    from pathlib import Path

SMALL = 1 << 20
"""Bytes of which every machine has more."""


@pytest.mark.parametrize(
    ("membership", "limits", "expected"),
    [
        ("0::/job/step\n", {"job/step/memory.max": "max", "job/memory.max": str(SMALL)}, SMALL),
        ("0::/job/step\n", {"job/step/memory.max": str(SMALL), "memory.max": str(2 * SMALL)}, SMALL),
        ("0::/of/another/root\n", {"memory.max": str(SMALL)}, SMALL),
        ("4:cpu,memory:/job\n", {"memory/job/memory.limit_in_bytes": str(SMALL)}, SMALL),
        ("4:cpu:/job\n", {"memory/job/memory.limit_in_bytes": str(SMALL)}, None),
        ("0::/job\n", {"../memory.max": str(SMALL)}, None),
    ],
)
def test_the_least_limit_of_the_control_groups(
    membership: str,
    limits: dict[str, str],
    expected: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Groups of both versions count, with those above them up to the root of the control groups."""
    groups = tmp_path / "cgroup"
    for name, text in {"memory.stat": "", **limits}.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(f"{text}\n")
    (tmp_path / "membership").write_text(membership)
    monkeypatch.setattr(memory, "CGROUPS", groups)
    monkeypatch.setattr(memory, "MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "none")
    assert memory.memory_limit() == (expected or memory._of_machine())


def test_swap_space_counts_with_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be moved to a disk is added; a limit of the process is used as it is."""
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    alone = memory._of_machine()
    (tmp_path / "meminfo").write_text("MemTotal: 7 kB\nSwapTotal:       1024 kB\nSwapFree: 9 kB\n")
    assert memory._of_machine() == alone + SMALL
    monkeypatch.setattr(resource, "getrlimit", lambda _: (SMALL, resource.RLIM_INFINITY))
    monkeypatch.setattr(memory, "MEMBERSHIP", tmp_path / "none")
    assert memory.memory_limit() == SMALL
