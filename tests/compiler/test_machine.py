"""The memory, the threads and the garbage collector of a process, on machines that files describe."""

import gc
import resource
from pathlib import Path

import pytest
from attrs import evolve

from compiler import process as memory
from compiler.process import collector_paused, on_one_machine, threads_on_one_machine
from dsl import ir

pytestmark = pytest.mark.usefixtures("six_cores")
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


SERVERS, WORKERS = ir.Job("ps", tasks=2), ir.Job("worker", tasks=3)


def test_servers_share_the_cores_and_so_do_all_other_tasks() -> None:
    """Two servers have half of the cores each; three workers and an evaluator a quarter, rounded down.

    A number in the spec is what the user wants, on however few cores.
    """
    devices = ir.Devices(jobs=(SERVERS, WORKERS, ir.Job("evaluator")))
    workers = {("worker", each): 1 for each in range(3)}
    expected = {("ps", 0): 3, ("ps", 1): 3, **workers, ("evaluator", 0): 1}
    assert threads_on_one_machine(devices) == expected
    assert {*threads_on_one_machine(evolve(devices, intra_op_threads=4)).values()} == {4}


def test_tasks_are_on_one_machine_unless_their_addresses_name_several() -> None:
    """Tasks without addresses are started by the launcher, on its own machine."""
    here = ir.Job("ps", hosts=("a:1", "a:2"))
    assert on_one_machine([SERVERS, WORKERS])
    assert on_one_machine([here, ir.Job("worker", hosts=("a:3",))])
    assert not on_one_machine([here, ir.Job("worker", hosts=("b:3",))])


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_afterwards_as_it_was(*, enabled: bool) -> None:
    """Also after an error, and if it was off before."""
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with collector_paused():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
        with pytest.raises(ValueError, match="an error"), collector_paused():
            raise ValueError("an error")
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
