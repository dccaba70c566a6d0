"""An aggregation is added by the places that ARCHITECTURE lists, and then all that there is works with it."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve

import grammar
from compiler.graph.inspect.placement_map import map_placement
from compiler.step import sums
from compiler.step.read.work import timed_step
from compiler.step.record import Value
from compiler.step.sums import Reduction
from compiler.suggest import variations
from compiler.suggest.outcome import Goal
from dsl import ir
from dsl.schema import functions
from dsl.schema.types import Function
from tests.support import CLASSIFIER, CONVOLUTION, Training, classifier, examples
from tfdeploy.runtime.verify import Options, Verification
from tfdeploy.runtime.verify.cases import Case
from tfdeploy.suggesting.trials import Trials

MORE = """place { variables -> replicated }
data { train = synthetic(48, image = feature(float32, [8, 8, 1]), digit = feature(int32, classes = 10)) }
"""
TEXT = CLASSIFIER.format(clones=3, batch=4, optimizer="SGD(0.1)", layers=CONVOLUTION) + MORE


def chain(reduction: Reduction) -> list[Value]:
    """Pass the sum from clone to clone; the last one sends it to all that need it."""
    total, last = reduction.values[0], reduction.one_destination or reduction.homes[-1]
    for rank, value in enumerate(reduction.values[1:], 1):
        here = last if rank == len(reduction.values) - 1 else reduction.homes[rank]
        total = reduction.add(here, [total, value], f"link_{rank}")
    return [reduction.copy(each, total, last, "copy") for each in reduction.destinations]


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add it: a function, and its row in the language."""
    row = Function("chain", doc="the sum is passed from clone to clone")
    monkeypatch.setitem(functions.FUNCTIONS, "aggregation", (*functions.AGGREGATIONS, row))
    monkeypatch.setitem(sums.AGGREGATIONS, "chain", chain)


def test_it_trains_and_is_mapped_and_timed() -> None:
    """With the losses of another aggregation, and its ops where it has put them."""
    losses = {}
    for name in ("add_n", "chain"):
        spec = classifier(clones=3, batch=4, update__aggregate=name)
        with Training(spec, examples(24)) as training:
            losses[name] = training.steps(2)
    np.testing.assert_allclose(losses["chain"], losses["add_n"], rtol=1e-5)
    name = "aggregate/conv1/kernel/link_1"
    ops = {each.name: each.requested for each in map_placement(training.compiled).ops}
    assert ops[name] == "cpu[1]"
    timed = {each.name: each for each in timed_step(training.compiled.step).ops}
    assert (timed[name].signature.type, timed[name].flops) == ("AddN", 3 * 3 * 8)


def test_it_is_suggested_and_verified() -> None:
    """As the others are."""
    reading = grammar.read("own.tfdeploy", text=TEXT)
    assert reading.spec is not None, reading.diagnostics
    trials = Trials(reading.spec, reading.trees[0], Goal.STEP_TIME)
    first = trials.begin()
    tried = [trials.compare(each) for each in variations.aggregations(first.plan)]
    assert [None if each is None else each.plan.update.aggregate.name for each in tried][-1] == "chain"
    case = Case("sync", ir.Call("chain"), "replicated", (9, 8, 7))
    verification = Verification(reading.spec, Options(steps=2))
    verification.selected = evolve(verification.selected, cases=(case,))
    (outcome,) = verification.outcomes()
    assert outcome.differences.largest < 1e-4
