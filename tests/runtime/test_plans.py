"""What a plan takes from this machine: the GPUs that there are, of which a spec may want more."""

import pytest

from tests.specs import LINE
from tests.support import refusal_of, spec_of
from tfdeploy.runtime import plans
from tfdeploy.runtime.plans import plan_of, require_devices

SPEC = f"""{LINE}
DEVICES
clones {{ batch = 2 }}
"""


@pytest.fixture(autouse=True)
def _two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let TensorFlow find two GPUs."""
    monkeypatch.setattr(plans, "count_gpus", lambda **_: 2)


@pytest.mark.parametrize(
    ("devices", "missing", "there"),
    [
        ("cpu = 1, gpu = 2", None, ""),
        ("cpu = 1, gpu = 4", "`gpu[2..3]`", "`cpu[0]`, `gpu[0]`, `gpu[1]`"),
        ("gpu = 2, visible = [1, 0]", None, ""),
        ("gpu = 2, visible = [1, 2]", "`gpu[1]`", "`cpu[0]`, `gpu[0]`"),
        ("gpu = 4, soft_placement = true", None, ""),
        ('job "worker" { gpu = 4 }', None, ""),
    ],
)
def test_gpus_that_are_missing_are_named(devices: str, missing: str | None, there: str) -> None:
    """With those that there are, unless others may be used in their place, or those of tasks are meant."""
    spec = spec_of(SPEC.replace("DEVICES", f"devices {{ {devices} }}"))
    require_devices(plan_of(spec, emulate=True))
    plan = plan_of(spec)
    if missing is None:
        require_devices(plan)
        return
    found = refusal_of(lambda: require_devices(plan))
    assert (found.code, found.message) == ("TFD504", f"this machine has no {missing}")
    assert found.notes == (f"devices found: {there}",)


@pytest.mark.parametrize(
    ("devices", "used"), [("", ["gpu[0]", "gpu[1]"]), ("devices { cpu = 1 }", ["cpu[0]"])]
)
def test_all_gpus_are_used_unless_devices_are_declared(devices: str, used: list[str]) -> None:
    """A clone for each."""
    towers = plan_of(spec_of(SPEC.replace("DEVICES", devices))).towers
    assert [each.device.ref for each in towers] == used
