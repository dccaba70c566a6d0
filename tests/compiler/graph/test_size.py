"""A graph that TensorFlow cannot hold is refused before it is built, and the spec says why it is so large.

The limit is set to what small graphs have, so that it is met by each of them.
"""

import re
from typing import Any

import pytest

from compiler.graph import size
from compiler.graph.build import compile_graph
from compiler.graph.many_clones import map_many
from compiler.graph.tower.traces import Traces
from compiler.pipeline import make_plan
from compiler.plan import Plan
from dsl.diagnostics import Diagnostic, SpecError
from tests.support import cloned, spec_of

MODEL = """
  x = input(float32, [6])
  words = input(int32, [3])
  label = input(int32, [])
  table = words -> Embedding(40, 4, name = "table") -> Flatten()
  hidden = [x, table] -> Concatenate() -> Dense(5, name = "fc1") -> BatchNormalization(name = "norm")
  y = hidden -> Dense(3, name = "fc2")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
"""
COPIED = "variables -> replicated"
SHARED = "variables -> balanced(cpu[0..1])"
PARTS = "variables -> replicated\n  slots -> sharded(clones)"
CLUSTER = 'job "ps" { tasks = 2 }\n  job "worker" {\n    tasks = 6\n    gpu = 2\n  }'


def plan_of(devices: str, place: str, update: str, model: str = MODEL) -> Plan:
    """Return the plan of a model on some devices."""
    update = f"optimizer = Momentum(0.1)\n{update}"
    return make_plan(spec_of(cloned(model, None, devices=devices, place=place, update=update)))


def refused(plan: Plan, monkeypatch: pytest.MonkeyPatch, most: int, traces: Any = None) -> Diagnostic | None:
    """Return what is said of the graph of a plan if graphs may have so many bytes, or None if it is built."""
    monkeypatch.setattr(size, "MOST", most)
    try:
        compile_graph(plan, seed=0, traces=traces)
    except SpecError as fault:
        (found,) = fault.diagnostics
        assert (found.code, found.is_error) == ("TFD517", True)
        return found
    return None


def require_near(plan: Plan, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    """Check that a graph is built if it may be as large as it is, and refused if only a part of that."""
    traces = Traces(".")
    real = compile_graph(plan, seed=0, traces=traces).graph.as_graph_def().ByteSize()
    assert refused(plan, monkeypatch, real, traces) is None
    assert refused(plan, monkeypatch, real // part, traces) is not None


@pytest.mark.family(every=8)
@pytest.mark.parametrize(
    ("devices", "place", "update", "part"),
    [
        ("cpu = 12", SHARED, "aggregate = ring", 2),
        ("cpu = 8", COPIED, "aggregate = ring\n  pack = 100B", 2),
        ("cpu = 12", COPIED, "aggregate = shuffle\n  pack = 1MB", 2),
        ("cpu = 12", SHARED, "aggregate = tree", 2),
        ("cpu = 6", "variables -> sharded(cpu[0..3])", "aggregate = ring", 2),
        ("cpu = 12", COPIED, "mode = local\n  average_every = 2\n  aggregate = ring", 2),
        ("cpu = 8", SHARED, "mode = async", 2),
        (CLUSTER, "variables -> balanced(ps[*])", "aggregate = ring\n  batch_norm = mean", 2),
        # Cutting gradients in parts, loops over micro-batches, and most of a worker's own graph are left out.
        ("cpu = 12", PARTS, "aggregate = ring", 4),
        ("cpu = 12", SHARED, "accumulate = 2\n  aggregate = shuffle", 4),
        (CLUSTER, "variables -> balanced(ps[*])", "replication = between_graph", 4),
    ],
)
def test_the_estimate_is_below_the_real_size(
    devices: str, place: str, update: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not below a half or a quarter: a graph that fits is built, and a few times the limit is refused."""
    require_near(plan_of(devices, place, update), monkeypatch, part)


@pytest.mark.family(every=2)
@pytest.mark.parametrize("place", [SHARED, COPIED])
def test_sums_of_some_clones_stand_for_those_of_more(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the pieces of a ring are for more clones follows from those of some."""
    monkeypatch.setattr(size, "_WRITTEN", 4)
    require_near(plan_of("cpu = 12", place, "aggregate = ring"), monkeypatch, 2)


def said(plan: Plan, monkeypatch: pytest.MonkeyPatch, most: int = 50_000) -> tuple[str, str, str]:
    """Return the place, the text beside it and the help of what is said of a graph that is too large."""
    found = refused(plan, monkeypatch, most)
    assert found.help is not None
    return found.span.text, found.text, found.help


def test_an_aggregation_with_too_many_ops_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With those that can be used instead: `collective` sums no rows, and none is told if none is enough."""
    ring = plan_of("cpu = 12", SHARED, "aggregate = ring")
    place, beside, help_ = said(ring, monkeypatch, 300_000)
    assert place == "ring"
    assert re.fullmatch(r"about 1,\d00 ops that sum the gradients of 12 clones", beside)
    assert help_ == "use `aggregate = hierarchical` or `aggregate = add_n`"
    dense = MODEL.replace('name = "table"', 'name = "table", trainable = false')
    plan = plan_of("cpu = 12", SHARED, "aggregate = ring", dense)
    assert "`aggregate = collective`, " in said(plan, monkeypatch, 250_000)[2]
    assert said(ring, monkeypatch)[2] == "use fewer clones, with larger batches"


def test_clones_with_too_many_ops_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are workers, each may have a graph of its own, also with copies on all clones."""
    place, beside, help_ = said(plan_of(CLUSTER, "variables -> balanced(ps[*])", ""), monkeypatch)
    assert place == "clones"
    assert re.fullmatch(r"about \d,\d00 ops of 12 clones", beside)
    assert help_.startswith("use `update.replication = between_graph`")
    for devices, advice in ((CLUSTER, "use `update.replication"), ("cpu = 12", "use fewer clones")):
        assert said(plan_of(devices, COPIED, ""), monkeypatch)[2].startswith(advice)


def test_workers_that_fill_the_graph_of_the_first_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has mailboxes of all workers, which has nothing to do with its own clones."""
    devices = 'job "ps" { tasks = 2 }\n  job "worker" { tasks = 200 }'
    plan = plan_of(devices, "variables -> balanced(ps[*])", "replication = between_graph")
    place, beside, help_ = said(plan, monkeypatch)
    assert (place, help_[:18]) == ("between_graph", "use fewer workers,")
    assert re.fullmatch(r"about \d,\d00 ops with which .* takes the gradients of 200", beside)


def test_clones_whose_graph_is_not_built_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their map is made from the graphs of a few, which are small enough."""
    plan = plan_of("gpu = 64", "variables -> cpu[0]", "")
    assert not map_many(plan).warnings
    few = compile_graph(plan_of("gpu = 9", "variables -> cpu[0]", ""), seed=0).graph.as_graph_def().ByteSize()
    monkeypatch.setattr(size, "MOST", few)
    (warning,) = map_many(plan).warnings
    assert (warning.code, warning.is_error) == ("TFD517", False)
    assert warning.text.endswith("ops of 64 clones")
    assert "it cannot be run" in warning.notes[-1]
