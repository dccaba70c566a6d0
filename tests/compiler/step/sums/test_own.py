"""The aggregation that CONTRIBUTING adds in its example, after which all that there is works with it."""

import re

import numpy as np
import pytest
from attrs import evolve

import grammar
from compiler.graph.inspect.placement_map import map_placement
from compiler.step import sums
from compiler.step.read.work import timed_step
from compiler.suggest import variations
from compiler.suggest.outcome import Goal
from dsl import ir
from dsl.schema import functions, notation
from tests.folders import ROOT
from tests.support import CLASSIFIER, CONVOLUTION, Training, classifier, examples
from tfdeploy.runtime.verify import Options, Verification
from tfdeploy.runtime.verify.cases import Case
from tfdeploy.suggesting.trials import Trials

MORE = """place { variables -> replicated }
data { train = synthetic(48, image = feature(float32, [8, 8, 1]), digit = feature(int32, classes = 10)) }
"""
TEXT = CLASSIFIER.format(clones=3, batch=4, optimizer="SGD(0.1)", layers=CONVOLUTION) + MORE


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add it as the example does: a function, and its rows in the two tables."""
    blocks = dict(
        re.findall(r'```python title="([^"]*)"\n(.*?)```', (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    )
    names = {"functions": notation.functions}
    exec(blocks["compiler/step/sums/chain.py"], names)  # noqa: S102 our own text
    own = eval(blocks["AGGREGATIONS of compiler/step/sums/__init__.py"], names)  # noqa: S307
    rows = eval(blocks["AGGREGATIONS of dsl/schema/functions.py"], names)  # noqa: S307
    monkeypatch.setitem(functions.FUNCTIONS, "aggregation", (*functions.AGGREGATIONS, *rows))
    monkeypatch.setattr(sums, "AGGREGATIONS", {**sums.AGGREGATIONS, **own})


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
