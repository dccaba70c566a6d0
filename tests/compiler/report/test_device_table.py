"""The table of devices: when those that are alike share a row, and what stands below it."""

from __future__ import annotations

import pytest
from attrs import evolve

from compiler.mapping.records import DeviceTime, MapTime
from compiler.report.terminal import MANY, device_table
from compiler.report.view import View
from tests.placement_maps import make_map


@pytest.mark.parametrize(
    ("devices", "last"), [(MANY, f"gpu[{MANY - 2}]"), (MANY + 1, f"gpu[0..{MANY - 1}] (each of {MANY})")]
)
def test_devices_share_a_row_if_there_are_many(devices: int, last: str) -> None:
    """Up to sixteen have rows of their own, and the sum below is of all of them in any case."""
    lines = device_table(make_map(devices - 1), View())
    *_, row, whole, note = lines
    assert row.startswith(f"{last}  ")
    assert whole.startswith(f"all {devices}  ")
    assert note == "+ and tensors whose size is not known before a step"


def test_one_device_has_no_sum() -> None:
    """Nor is there a note if all sizes are known, or a column for what was not forecast."""
    placement = make_map(1)
    alone = evolve(placement, devices=placement.devices[:1], transfers=())
    assert [line.split() for line in device_table(alone, View())] == [
        ["device", "ops", "variables", "slots", "in/step", "out/step"],
        ["cpu[0]", "9", "21.1", "KiB", "21.1", "KiB", ".", "."],
    ]


def test_what_was_not_forecast_of_a_device_is_left_open() -> None:
    """Memory has a question mark, and the sum has what is known; of busy shares there is no sum."""
    placement = make_map(1)
    cpu, gpu = placement.devices
    time = MapTime(0.01, False, 1.0, "p", (DeviceTime("gpu[0]", 0.004, 0.4),), (), (), ())
    half = evolve(placement, devices=(cpu, evolve(gpu, memory_bytes=1024)), time=time)
    head, first, second, whole, _ = [line.split() for line in device_table(half, View())]
    assert (head[4], head[-1]) == ("memory", "busy")
    assert first[6] == "?"
    assert (second[4:6], second[-1]) == (["1.00", "KiB"], "40%")
    assert whole[-1] != "40%"


def test_a_name_without_room_has_a_line_of_its_own() -> None:
    """A name may be as wide as the figures leave room for; one that is wider stands above them."""
    placement = make_map(2)
    name = "worker[0].gpu[123456789]"
    ops = tuple(
        evolve(op, requested=name if op.requested == "gpu[0]" else op.requested) for op in placement.ops
    )
    cpu, first, second = placement.devices
    long = evolve(placement, devices=(cpu, evolve(first, ref=name), second), ops=ops, transfers=())
    wide = max(map(len, device_table(long, View(width=200))))
    assert len(device_table(long, View(width=wide))) == 5
    narrow = device_table(long, View(width=wide - 1))
    assert narrow[2] == name
    assert narrow[3].startswith(" ")
    assert len(narrow) == 6
