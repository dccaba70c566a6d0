"""Switching how gradients are joined or conditioned moves nothing that the spec has placed."""

from __future__ import annotations

import pytest

from dsl import ir
from tests.graphs import graph_of
from tests.support import spec_of

TEXT = """
tfdeploy = 1

model "small" {
  image = input(float32, [6, 6, 2])
  digit = input(int32, [])
  logits = image
    -> Conv2D(4, 3, name = "conv")
    -> BatchNormalization(name = "norm")
    -> Flatten()
    -> Dense(10, name = "logits")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}

devices { cpu = 4 }
clones { count = 3, batch = 4 }

place {
  clones -> cpu[1..3]
  variables -> cpu[0]
  variables("logits/*") -> cpu[2]
  slots("conv/*") -> cpu[0]
  inputs -> cpu[3]
  ops("norm/*") -> cpu[1]
}

update { optimizer = Momentum(0.1) }
train { seed = 1 }
"""

SWITCHES = [
    {"update__aggregate": "tree"},
    {"update__aggregate": "hierarchical"},
    {"update__aggregate": "ring"},
    {"update__aggregate": "shuffle(shards = 2)"},
    {"update__aggregate": "collective"},
    {"update__pack": "1KiB"},
    {"update__clip": "global_norm(1.0)"},
    {"update__batch_norm": "mean"},
    {"update__ema": "0.9"},
    {"update__mode": "async"},
    {"update__mode": "local", "update__average_every": "2"},
]


def placed(spec: ir.Spec) -> dict[str, str]:
    """Return the devices of variables, slots, inputs and of all ops of the towers, by name."""
    compiled = graph_of(spec)
    found = {
        name: entry.device.ref
        for name, entry in compiled.ledger.entries.items()
        if entry.role in {"forward", "gradient"} and entry.clone is not None and "/seed/" not in name
    }
    for name, variable in compiled.variables.items():
        found[f"variable {name}"] = variable.device_of(0).ref
        if variable.slots:
            found[f"slots {name}"] = variable.slot_place(0).device.ref
    found["inputs"] = compiled.train_input.placed.device.ref
    return found


@pytest.fixture(scope="module")
def fixed() -> dict[str, str]:
    """Return where everything is with `add_n` and nothing else said."""
    return placed(spec_of(TEXT))


@pytest.mark.family(every=6)
@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: "-".join(switch.values()))
def test_what_the_spec_has_placed_stays(switch: dict[str, str], fixed: dict[str, str]) -> None:
    """Variables, slots, inputs and the ops of every tower are where they were.

    Statistics of a layer may be made by all clones, and not by the first alone.
    """
    found = placed(spec_of(TEXT, **switch))
    assert fixed.keys() <= found.keys()
    assert {name: (device, found[name]) for name, device in fixed.items() if found[name] != device} == {}
    more = {name: device for name, device in found.items() if name not in fixed}
    assert all(name.startswith(("clone_1/norm/", "clone_2/norm/")) for name in more)
    assert set(more.values()) <= {"cpu[1]"}  # as the rule for the layer says


def test_the_rules_of_the_spec_were_followed(fixed: dict[str, str]) -> None:
    """What stays is what the spec says."""
    assert fixed["variable conv/kernel"] == "cpu[0]"
    assert fixed["variable logits/kernel"] == "cpu[2]"
    assert fixed["slots conv/kernel"] == "cpu[0]"
    assert fixed["inputs"] == "cpu[3]"
    assert {device for name, device in fixed.items() if "/norm/" in name and name.startswith("clone_")} == {
        "cpu[1]"
    }
