"""Groups of devices, and rules for their members."""

from __future__ import annotations

import pytest

from compiler.checks.devices import groups_fit_devices
from tests.compiler.placement.places import places


@pytest.mark.parametrize(
    ("size", "index", "codes"),
    [(2, 1, []), (2, 2, ["TFD514"]), (5, 4, ["TFD513"]), (4, 3, []), (1, 0, []), (2, 3, ["TFD514"])],
)
def test_a_group_has_its_devices_and_members(size: int, index: int, codes: list[str]) -> None:
    """Members are counted from 0; a group cannot be larger than the devices it is made of."""
    found = places(
        f"""devices {{ cpu = 4 }}
clones {{ batch = 2 }}
place {{
  clones -> groups(cpu[*], size = {size})
  ops("dense/*") -> group[{index}]
}}"""
    )
    assert [each.code for each in groups_fit_devices(found.spec, found.topology)] == codes


def test_without_groups_a_clone_has_one_device() -> None:
    """Its only member is that device."""
    rules = 'ops("a/*") -> group[0]\n ops("b/*") -> group[1]'
    found = places(f"devices {{ cpu = 2 }}\nclones {{ batch = 2 }}\nplace {{\n {rules}\n}}\n")
    (fault,) = groups_fit_devices(found.spec, found.topology)
    assert (fault.code, fault.span and fault.span.text) == ("TFD514", "group[1]")
