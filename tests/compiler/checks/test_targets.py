"""Rules and defaults that name no device, groups of devices, and the speed of links."""

import pytest

from compiler.checks import check_spec
from compiler.checks.devices import groups_fit_devices, targets_name_devices
from compiler.topology import declare
from dsl.diagnostics import Diagnostic
from tests.compiler.placement.places import places
from tests.specs import CLASSES
from tests.support import marked, spec_of


def told(rule: str, devices: str = "") -> list[Diagnostic]:
    """Return what is wrong with the targets of a rule, on a machine without GPUs if nothing is declared."""
    place = f"place {{\n {rule}\n}}\n"
    spec = spec_of(f"{CLASSES}devices {{\n {devices}\n}}\nclones {{ count = 1, batch = 2 }}\n{place}")
    return list(targets_name_devices(spec, declare(spec.devices, 0)))


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        ("variables -> gpu[*]", "`variables`"),
        ("variables -> balanced(gpu[*])", "`variables`"),
        ("variables -> sharded(gpu[0..1])", "`variables`"),
        ("variables -> round_robin(gpu[*])", "`variables`"),
        ('ops("a/*") -> gpu[0]', "`ops`"),
        ("clones -> gpu[*]", "`clones`"),
        ("clones -> groups(gpu[*], size = 2)", "`clones`"),
    ],
)
def test_a_rule_names_a_device(rule: str, what: str) -> None:
    """Whatever the function is that takes the set, the target is marked and the rule shown."""
    (fault,) = told(rule)
    assert (fault.code, fault.message) == ("TFD503", f"there is no device for {what}")
    assert marked(fault) == rule.partition(" -> ")[2]
    assert fault.notes == (f"the placement is `{rule}`",)


@pytest.mark.parametrize("rule", ["variables -> [gpu[*], cpu[0]]", "variables -> replicated"])
def test_a_set_needs_one_device(rule: str) -> None:
    """Targets without a set of their own are on the devices of the clones."""
    assert told(rule) == []


def test_clones_without_a_rule_need_a_worker() -> None:
    """By default clones are never on parameter servers."""
    (fault,) = told("variables -> ps[0]", 'job "ps" { tasks = 2 }')
    assert (fault.code, fault.message) == ("TFD503", "there is no device for `clones`")
    assert fault.notes == ("the placement is `clones -> cpu[*]`",)
    assert told("clones -> ps[*]", 'job "ps" { tasks = 2 }') == []


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


def test_devices_that_are_not_declared_may_have_links() -> None:
    """Without `cpu`, `gpu` and jobs they are those of the machine of a run, which `check` does not know."""
    found = check_spec(spec_of(f"{CLASSES}devices {{ link = 1GiB }}\ntrain {{ steps = 1 }}\n"))
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
    found = check_spec(spec_of(f"{CLASSES}devices {{\n {devices}\n}}\ntrain {{ steps = 1 }}\n"))
    assert [each.code for each in found] == [*["TFD516"] * warned, "TFD509"]
    assert not any(each.is_error for each in found)
    for each in found[:warned]:
        assert marked(each) == "1GiB"
