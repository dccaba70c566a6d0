"""The devices that a `devices` block declares."""

from __future__ import annotations

import pytest

from compiler.topology import declare
from dsl import ir


@pytest.mark.parametrize(
    ("devices", "refs"),
    [
        (ir.Devices(), ["cpu[0]", "gpu[0]", "gpu[1]"]),
        (ir.Devices(cpu=2), ["cpu[0]", "cpu[1]"]),
        (ir.Devices(gpu=1), ["cpu[0]", "gpu[0]"]),
        (ir.Devices(cpu=1, gpu=0), ["cpu[0]"]),
        (
            ir.Devices(jobs=(ir.Job("ps", 1), ir.Job("worker", 2, gpu=1))),
            ["ps[0].cpu[0]", *(f"worker[{at}].{each}[0]" for at in range(2) for each in ("cpu", "gpu"))],
        ),
    ],
)
def test_declared_devices(devices: ir.Devices, refs: list[str]) -> None:
    """The GPUs of the machine count only if nothing is said; every task has a CPU."""
    found = declare(devices, 2).devices
    assert [each.ref for each in found] == refs
    assert [each.ordinal for each in found] == list(range(len(refs)))
