"""What `suggest` takes the hardware for if nobody says what it is."""

from types import SimpleNamespace
from typing import Any

import pytest

from compiler.topology import Device, Topology
from tfdeploy.suggesting.trials import USUAL_CPU, USUAL_GPU, Trials

CPU, GPU = Device("cpu", 0), Device("gpu", 0)


@pytest.mark.parametrize(
    ("kind", "profile", "devices", "assumed"),
    [
        (None, None, (CPU,), USUAL_CPU),
        (None, None, (CPU, GPU), USUAL_GPU),
        (None, "profile", (CPU,), None),  # it was measured
        (None, "profile", (CPU, GPU), USUAL_GPU),  # processors were measured, and no GPUs
        ("a100", None, (CPU, GPU), None),
        ("a100", "profile", (CPU, GPU), None),
    ],
)
def test_hardware_is_assumed_if_neither_spec_nor_profile_says_it(
    kind: str | None, profile: str | None, devices: tuple[Device, ...], assumed: str | None
) -> None:
    """With a GPU, the usual GPU; else the usual processor."""
    trials: Any = SimpleNamespace(spec=SimpleNamespace(devices=SimpleNamespace(kind=kind)), profile=profile)
    assert Trials.assumed(trials, Topology(devices)) == assumed
