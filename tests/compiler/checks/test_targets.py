"""Rules and defaults that name no device."""

from __future__ import annotations

import pytest

from compiler.checks.devices import targets_name_devices
from compiler.topology import declare
from dsl.diagnostics import Diagnostic
from tests.compiler.placement.places import MODEL
from tests.support import marked, spec_of


def told(rule: str, devices: str = "") -> list[Diagnostic]:
    """Return what is wrong with the targets of a rule, on a machine without GPUs if nothing is declared."""
    place = f"place {{\n {rule}\n}}\n"
    spec = spec_of(f"{MODEL}devices {{\n {devices}\n}}\nclones {{ count = 1, batch = 2 }}\n{place}")
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
