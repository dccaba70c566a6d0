"""A small table of hardware, for estimates of time if nothing was measured.

The figures are the makers' peaks for float32 arithmetic, for the memory of a device, and for one direction of
its link to others. Ops reach a part of these peaks only; `REACHED_FLOPS` and `REACHED_BYTES` are the parts
that are assumed. An estimate by this table says which of two layouts is faster more reliably than it says how
fast either is.
"""

from __future__ import annotations

from attrs import frozen

REACHED_FLOPS = 0.5
"""The part of the peak of arithmetic that ops are assumed to reach."""

REACHED_BYTES = 0.7
"""The part of the peak of memory that ops are assumed to reach."""


@frozen
class Hardware:
    """A kind of device."""

    name: str
    kind: str  # `gpu` or `cpu`
    flops: float  # floating point operations per second in float32, of a GPU or of one core of a CPU
    half_flops: float  # the same in float16 and bfloat16
    memory: float  # bytes per second between the device, or one core, and its memory
    link: float  # bytes per second in one direction between this device and another one
    latency: float  # the seconds until the first byte of a transfer arrives
    op_start: float  # the seconds that starting an op takes on a thread of the host
    source: str


_PCIE3, _PCIE4, _PCIE5 = 15.75e9, 31.5e9, 63e9  # bytes per second of 16 lanes in one direction

TABLE: dict[str, Hardware] = {
    each.name: each
    for each in (
        Hardware("t4", "gpu", 8.1e12, 65e12, 320e9, _PCIE3, 10e-6, 5e-6, "NVIDIA T4 data sheet"),
        Hardware("p100", "gpu", 9.3e12, 18.7e12, 732e9, _PCIE3, 10e-6, 5e-6, "NVIDIA P100 PCIe data sheet"),
        Hardware("v100", "gpu", 14e12, 112e12, 900e9, _PCIE3, 10e-6, 5e-6, "NVIDIA V100 PCIe data sheet"),
        Hardware("a10", "gpu", 31.2e12, 125e12, 600e9, _PCIE4, 10e-6, 5e-6, "NVIDIA A10 data sheet"),
        Hardware(
            "a100", "gpu", 19.5e12, 312e12, 1935e9, _PCIE4, 10e-6, 5e-6, "NVIDIA A100 80GB PCIe data sheet"
        ),
        Hardware("h100", "gpu", 51e12, 756e12, 2000e9, _PCIE5, 10e-6, 5e-6, "NVIDIA H100 PCIe data sheet"),
        Hardware(
            "cpu",
            "cpu",
            80e9,
            80e9,
            10e9,
            10e9,
            5e-6,
            1e-6,
            "a core of 2.5 GHz that makes 32 operations a cycle",
        ),
    )
}
"""The hardware that `devices.kind` can name. GPUs of a spec that names none of it have no forecast."""

NETWORK_LATENCY = 100e-6
"""The seconds that are assumed for a message between two processes."""

NETWORK_SPEED = 1.25e9
"""The bytes per second that are assumed between two machines: 10 Gbit/s."""

STEP_START = 200e-6
"""The seconds that are assumed for the start and the end of a step."""

CLUSTER_START = 2e-3
"""The same for a step on which several processes work."""
