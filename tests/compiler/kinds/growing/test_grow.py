"""What has ends at several clones is of one of them, and of the first."""

from __future__ import annotations

import pytest

from compiler.kinds.deployment.grid import NotAlikeError, Spot
from compiler.kinds.growing.grow import joined, tensorflow_name


@pytest.mark.parametrize(
    ("spots", "expected"),
    [
        ([], Spot(None, None)),
        ([Spot(0, 0), Spot(0, 1), Spot()], Spot(0, 1)),
        ([Spot(1, 2), Spot(0, 0)], Spot(1, 2)),
    ],
)
def test_ends_at_one_clone_and_the_first(spots: list[Spot], expected: Spot) -> None:
    """The first task and the first clone may be at the other end."""
    assert joined(spots, "a transfer") == expected


@pytest.mark.parametrize("other", [Spot(0, 2), Spot(2, 0)])
def test_ends_at_several_clones_have_no_kind(other: Spot) -> None:
    """Then the graph of all clones has to be built."""
    with pytest.raises(NotAlikeError, match="a transfer is of several tasks or clones"):
        joined([Spot(1, 1), other], "a transfer")


@pytest.mark.parametrize(
    ("ref", "emulate", "name"),
    [
        ("worker[3].gpu[1]", False, "/job:worker/replica:0/task:3/device:GPU:1"),
        ("worker[{host}].gpu[{group}]", False, "/job:worker/replica:0/task:{host}/device:GPU:{group}"),
        ("cpu[0]", False, "/job:localhost/replica:0/task:0/device:CPU:0"),
        ("worker[3].gpu[1]", True, "/job:localhost/replica:0/task:0/device:CPU:{ordinal}"),
    ],
)
def test_names_of_devices_in_tensorflow(ref: str, name: str, *, emulate: bool) -> None:
    """Emulated devices are processors of this process, which are numbered later."""
    assert tensorflow_name(ref, emulate=emulate) == name
