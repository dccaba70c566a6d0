"""The speed of links, in a spec in which nothing is sent over any."""

from __future__ import annotations

import pytest

from compiler.checks import check_spec
from tests.compiler.placement.places import MODEL
from tests.support import marked, spec_of


def test_devices_that_are_not_declared_may_have_links() -> None:
    """Without `cpu`, `gpu` and jobs they are those of the machine of a run, which `check` does not know."""
    found = check_spec(spec_of(f"{MODEL}devices {{ link = 1GiB }}\ntrain {{ steps = 1 }}\n"))
    assert "TFD516" not in [each.code for each in found]


@pytest.mark.parametrize(
    ("devices", "warned"),
    [
        ("cpu = 2\n link = 1GiB", True),
        ("cpu = 2", False),
        ("cpu = 1\n gpu = 1\n link = 1GiB", False),
        ('job "worker" { tasks = 2 }\n link = 1GiB', False),
    ],
)
def test_a_link_is_between_gpus_or_tasks(devices: str, *, warned: bool) -> None:
    """CPU devices of one process share its memory; after the warning, other checks go on."""
    found = check_spec(spec_of(f"{MODEL}devices {{\n {devices}\n}}\ntrain {{ steps = 1 }}\n"))
    assert [each.code for each in found] == [*["TFD516"] * warned, "TFD509"]
    assert not any(each.is_error for each in found)
    for each in found[:warned]:
        assert marked(each) == "1GiB"
