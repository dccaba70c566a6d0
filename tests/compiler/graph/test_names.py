"""The ops that a graph has beside its towers, by the names with which maps, traces and errors speak of them.

A change of a name, a type, a role or a device shows in the golden files.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.graphs import graph_of
from tests.support import spec_of

MODEL = """
tfdeploy = 1
model "m" {{
  x = input(float32, [3])
  label = input(int32, [])
  y = x -> Dense(2, name = "first") -> BatchNormalization(name = "norm") -> Dense(2, name = "last")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
  metrics {{ accuracy = [label, y] -> SparseCategoricalAccuracy() }}
  regularize = L2(0.1)
}}
devices {{ {devices} }}
clones {{ batch = 4 }}
place {{ {place} }}
update {{ {update} }}
train {{ seed = 1, summaries = {summaries} }}
"""
SERVERS = 'job "ps" { tasks = 1 }\n job "worker" { tasks = 2 }'
CASES = {
    "copies": (
        "cpu = 1\n gpu = 2",
        "variables -> replicated",
        "optimizer = Adam(0.1), aggregate = ring",
        "all",
    ),
    "local": (
        "cpu = 2",
        "clones -> cpu[*]",
        "mode = local, average_every = 2, average_slots = true, optimizer = Momentum(0.1)",
        "none",
    ),
    "workers": (
        SERVERS,
        "",
        "replication = between_graph, backup = 1, optimizer = AdamW(0.1), ema = 0.9, clip = global_norm(1)",
        "none",
    ),
}


@pytest.mark.family(every=3)
@pytest.mark.parametrize("name", CASES)
def test_ops_beside_the_towers(name: str, golden: Callable[[str, str], None]) -> None:
    """All of them but the first values of variables, with their types, roles and devices."""
    devices, place, update, summaries = CASES[name]
    text = MODEL.format(devices=devices, place=place, update=update, summaries=summaries)
    compiled = graph_of(spec_of(text), emulate=True)
    found = [
        f"{op.name} {op.type} {entry.role} {entry.device.ref}\n"
        for op in compiled.graph.get_operations()
        if "/Initializer/" not in op.name
        and (
            (entry := compiled.ledger.entries[op.name]).clone is None
            or entry.role not in {"forward", "gradient"}
        )
    ]
    golden(f"names/{name}.txt", "".join(sorted(found)))
