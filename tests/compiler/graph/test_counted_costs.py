"""What costs time is counted, not timed: these figures may fall, and must not grow unnoticed."""

from collections import Counter
from typing import Any

import pytest

from compiler.graph.adapters import tensorflow_private
from compiler.graph.build import compile_graph
from compiler.graph.stamp import lookups
from compiler.graph.storage.saving import add_saving
from compiler.graph.tower.template import Template
from compiler.graph.tower.traces import Traces
from compiler.pipeline import make_plan
from tests.graphs import graph_of
from tests.support import Training, classifier, examples, spec_of
from tfdeploy.runtime.session.engine import Engine

RESNET = """
tfdeploy = 1
model "resnet" {
  image = input(float32, [64, 64, 3])
  label = input(int32, [])
  logits = image -> applications.ResNet50(weights = none, classes = 1000, input_shape = [64, 64, 3])
  loss = [label, logits] -> SparseCategoricalCrossentropy()
}
clones { batch = 2 }
devices { cpu = 1 }
update { optimizer = Momentum(0.1) }
"""


@pytest.fixture(scope="module")
def resnet() -> tuple[Any, Template]:
    """Three clones of ResNet-50, and their tower."""
    plan = make_plan(spec_of(RESNET, clones__count="3", devices__cpu="3"))
    traces = Traces()
    compiled = compile_graph(plan, seed=1, traces=traces)
    (template,) = traces.of(plan, 1).templates.values()
    return compiled, template


@pytest.mark.full
def test_the_tower_of_resnet50_is_simplified(resnet: tuple[Any, Template]) -> None:
    """1,227 nodes, a quarter of them ports: batch normalisation is one op, constants are shared."""
    _, template = resnet
    kinds = Counter(node.op for node in template.graph_def.node)
    assert len(template.graph_def.node) <= 1227
    assert kinds["Const"] <= 53
    assert (kinds["FusedBatchNormV3"], kinds["FusedBatchNormGradV3"], kinds["ShapeN"]) == (53, 53, 0)


@pytest.mark.full
def test_only_the_first_clone_makes_statistics_that_only_its_are_kept_of(
    resnet: tuple[Any, Template],
) -> None:
    """A further clone of ResNet-50 has 794 ops, reads of weights included, and clone 0 has 431 more."""
    compiled, _ = resnet
    ops = Counter(entry.clone for entry in compiled.ledger.entries.values())
    assert ops[1] == ops[2] <= 794
    assert ops[0] - ops[1] <= 431


def test_nodes_are_imported_six_times_whatever_the_number_of_clones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handles of variables, first values, towers, sums, updates and the evaluation: not once per clone."""
    counted = Counter[str]()
    original = tensorflow_private.TF_GraphImportGraphDefWithResults

    def count(*arguments: Any) -> Any:
        counted["imports"] += 1
        return original(*arguments)

    monkeypatch.setattr(tensorflow_private, "TF_GraphImportGraphDefWithResults", count)
    found = []
    for clones in (2, 5):
        counted.clear()
        graph_of(classifier(clones=clones))
        found.append(counted["imports"])
    assert found[0] == found[1] <= 6


def test_each_template_is_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of clone 0, that without statistics and that of the evaluation, also for the size of the graph."""
    read: list[Template] = []
    original = lookups._Reader.read

    def note(reader: Any) -> Any:
        read.append(reader.template)
        return original(reader)

    monkeypatch.setattr(lookups._Reader, "read", note)
    layers = '-> BatchNormalization(name = "norm")'
    spec, traces = classifier(clones=3, layers=layers), Traces(".")
    first = graph_of(spec, seed=1, traces=traces)
    assert len({id(each) for each in read}) == len(read) == 3
    again = graph_of(spec, seed=1, traces=traces)
    assert len(read) == 3
    assert [op.name for op in again.graph.get_operations()] == [
        op.name for op in first.graph.get_operations()
    ]


class _Counting:
    """A session that counts what is asked of it."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.made = self.calls = 0

    def make_callable(self, fetches: Any) -> Any:
        self.made += 1
        made = self._session.make_callable(fetches)

        def call() -> Any:
            self.calls += 1
            return made()

        return call

    def run(self, *arguments: Any, **more: Any) -> Any:
        self.calls += 1
        return self._session.run(*arguments, **more)


def test_a_step_of_a_run_is_one_call_of_a_callable_made_once() -> None:
    """Between two steps nothing is asked of the session, logged or not."""
    with Training(classifier(), examples(64)) as training:
        session = _Counting(training.session)
        engine = Engine(training.compiled, session, add_saving(training.compiled))
        for _ in range(3):
            engine.step(logged=False)
        assert (session.made, session.calls) == (1, 3)
        for _ in range(2):
            engine.step(logged=True)
        assert (session.made, session.calls) == (2, 5)
