"""Which case is compared with which reference, in which order, and where what TensorFlow refuses is told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from attrs import evolve

from compiler.graph.tower.traces import Traces
from dsl import ir
from dsl.diagnostics import RunError
from tests.support import classifier, spec_of
from tfdeploy.runtime.verify import session as module
from tfdeploy.runtime.verify.cases import GLOBAL_BATCH, SLOTS_SHARDED, Case
from tfdeploy.runtime.verify.compare import Differences, Trajectory
from tfdeploy.runtime.verify.session import THREADED_UPDATES, Options, Verification, _count_in_threads, _group
from tfdeploy.runtime.verify.trial import LocatedSession, Trial, TrialSetup

ADD = ir.Call("add_n")
SYNC = Case("sync", ADD, "shared", (12, 12))
CASES = {
    "one": Case("sync", ADD, "shared", (24,)),
    "sync": SYNC,
    "unequal": evolve(SYNC, batches=(15, 9)),
    "ring": evolve(SYNC, aggregate=ir.Call("ring"), variables="sharded"),
    "local": evolve(SYNC, mode="local"),
    "slots": evolve(SYNC, mode="local", average_slots=True),
    "async": evolve(SYNC, mode="async"),
    "other async": evolve(SYNC, mode="async", batches=(15, 9)),
    "workers": evolve(SYNC, mode="async", batches=(6, 6, 6, 6), workers=2, between=True),
}


def verification(*, depends: bool = False, **more: Any) -> Any:
    """Return what methods of a verification need, without a graph."""
    made: Any = SimpleNamespace(
        spec="spec",
        setup="setup",
        options=Options(steps=3),
        depends_on_clones=depends,
        _references={},
        **more,
    )
    made._cut = lambda case: Verification._cut(made, case)
    made._compressed = lambda _: False
    made._key = lambda case: Verification._key(made, case)
    made._reference = lambda case, setup: Verification._reference(made, case, setup)
    made._compare = lambda *given: Verification._compare(made, *given)
    return made


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Return a list of the references that are made, with what they are made of."""
    found: list[tuple[object, ...]] = []

    def note(name: str) -> Callable[..., str]:
        def make(setup: object, spec: object, *given: object, **named: object) -> str:
            assert (setup, spec) == ("setup", "spec")
            found.append((name, *given, *named.values()))
            return f"{name} {len(found)}"

        return make

    for name in ("one_tower", "same_clones", "alternating_towers", "averaged_towers"):
        monkeypatch.setattr(module, name, note(name))
    return found


@pytest.mark.parametrize("depends", [False, True])
def test_each_case_has_the_reference_that_it_can_agree_with(
    made: list[tuple[object, ...]], *, depends: bool
) -> None:
    """Cases share references; if a step depends on how it is cut, clones are compared with clones."""
    run = verification(depends=depends)
    found = {name: Verification._expected(run, case) for name, case in CASES.items()}
    assert {name: Verification._expected(run, case) for name, case in CASES.items()} == found
    one: list[tuple[object, ...]] = [("one_tower", 3)]
    clones: list[tuple[object, ...]] = [("same_clones", (12, 12), 3), ("same_clones", (15, 9), 3)]
    assert made == [
        *(one + clones if depends else one),
        ("averaged_towers", (12, 12), 3, False),
        ("averaged_towers", (12, 12), 3, True),
        ("alternating_towers", (12, 12), 3),
        ("alternating_towers", (15, 9), 3),
        *([("alternating_towers", (12, 12), 3)] if depends else []),
    ]
    assert (found["async"] == found["workers"]) is not depends
    assert found["async"] != found["other async"]
    assert found["ring"] == found["sync"]
    assert (found["one"] == found["sync"]) is not depends
    assert (found["unequal"] == found["sync"]) is not depends


def test_clones_that_update_alone_take_turns() -> None:
    """Each as often as there are steps; others make their steps together."""
    turns: list[int] = []
    trial: Any = SimpleNamespace(
        update=lambda clone: turns.append(clone) or 10.0 + clone, step=lambda: 5.0, values=lambda: {"w": 1}
    )
    run = verification()
    run.setup = SimpleNamespace(servers=SimpleNamespace(disturb=lambda: turns.append(-1)))
    alone = Verification._trajectory(run, CASES["workers"], trial)
    assert turns == [0, -1, 1, 0, 1, 0, 1]  # what disturbs comes after the first step
    assert alone == Trajectory((10.0, 11.0) * 3, {"w": 1})
    assert Verification._trajectory(run, CASES["local"], trial).losses == (5.0,) * 3


def test_cases_are_in_the_order_of_the_table() -> None:
    """By mode, aggregation with its settings, and placement."""
    sized = ir.Call("hierarchical", (), {"size": 3})
    cases = [
        evolve(SYNC, mode="local"),
        evolve(SYNC, mode="async"),
        evolve(SYNC, aggregate=sized),
        evolve(SYNC, aggregate=ir.Call("hierarchical")),
        evolve(SYNC, variables=SLOTS_SHARDED),
        evolve(SYNC, variables="spread"),
        SYNC,
    ]
    found = sorted(cases, key=_group)
    assert [(each.mode, each.aggregation, each.variables) for each in found] == [
        ("sync", "add_n", "shared"),
        ("sync", "add_n", "spread"),
        ("sync", "add_n", SLOTS_SHARDED),
        ("sync", "hierarchical", "shared"),
        ("sync", "hierarchical(size = 3)", "shared"),
        ("async", "add_n", "shared"),
        ("local", "add_n", "shared"),
    ]


@pytest.mark.parametrize(
    ("name", "in_threads"), [("sync", False), ("local", False), ("async", True), ("workers", False)]
)
@pytest.mark.parametrize("miscounted", [None, Differences(float("inf"), 0.0, 0.0, "global_step")])
def test_a_case_is_compared_and_its_evaluation_too(
    monkeypatch: pytest.MonkeyPatch, name: str, miscounted: Differences | None, *, in_threads: bool
) -> None:
    """With what is exported, on the first batch; clones of one process also update at the same time."""
    batches: list[list[int]] = []
    trial = SimpleNamespace(
        exported=lambda: {"w": 7}, evaluate=lambda batch: batches.append(batch["x"].tolist()) or 2.0
    )
    assigned: list[object] = []
    exported: Any = SimpleNamespace(
        assign=assigned.append, evaluate=lambda batch: batches.append(batch["x"].tolist()) or 1.0
    )
    run = verification(weights=frozenset({"w"}))
    run.spec, run.tolerance = classifier(), 0.5
    arrays = {"x": np.arange(2 * GLOBAL_BATCH)}
    again: list[bool] = []

    def verify(attempt: Callable[[], Differences], *, needs_servers: bool) -> Differences:
        again.append(needs_servers)
        return attempt()

    run.setup = SimpleNamespace(arrays=arrays, servers=SimpleNamespace(verify=verify))
    run._expected = lambda case: ("expected", case)
    run._trajectory = lambda case, of: ("found", case, of)
    compared: list[tuple[object, ...]] = []
    counted: list[object] = []

    def compare(*given: object) -> Differences:
        compared.append(given)
        return Differences(0.1, 0.2, 0.3, "w")

    monkeypatch.setattr(module, "make_trial", lambda *_: nullcontext(trial))
    monkeypatch.setattr(module, "compare", compare)
    monkeypatch.setattr(module, "_count_in_threads", lambda of: counted.append(of) or miscounted)
    case = CASES[name]
    found = Verification._verify(run, case, exported)
    assert compared == [(("found", case, trial), ("expected", case), {"w"})]
    assert assigned == [{"w": 7}]
    assert again == ([True] if name == "workers" else [])
    assert batches == [list(range(GLOBAL_BATCH))] * 2
    assert counted == ([trial] if in_threads else [])
    agrees = Differences(0.1, 0.2, 0.3, "loss evaluated", 1.0)
    assert found == (miscounted if in_threads and miscounted is not None else agrees)


@pytest.mark.parametrize("lost", [0, 1])
def test_updates_of_threads_are_counted(lost: int) -> None:
    """So many for each clone, and each of them must count."""
    counted = [100]

    def run(op: str) -> None:
        assert op in {"op 0", "op 1"}
        counted[0] += 1

    loops = [SimpleNamespace(clone=at, train_op=f"op {at}") for at in range(2)]
    trial: Any = SimpleNamespace(
        values=lambda: {"global_step": counted[0] - (lost if counted[0] > 100 else 0)},
        compiled=SimpleNamespace(train_loops=loops),
        session=SimpleNamespace(run=run),
    )
    found = _count_in_threads(trial)
    assert counted[0] == 100 + 2 * THREADED_UPDATES
    if not lost:
        assert found is None
    else:
        assert found is not None
        assert (found.weights, found.slots, found.losses) == (float("inf"), 0.0, 0.0)
        assert found.worst == "global_step counts 9 of 10 updates"


@pytest.mark.parametrize("synthetic", [True, False])
def test_examples_are_those_of_all_steps(monkeypatch: pytest.MonkeyPatch, *, synthetic: bool) -> None:
    """Of all micro-batches; made-up ones have as many classes as the model predicts."""
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(module, "read_examples", lambda *given: asked.append(given) or "read")
    monkeypatch.setattr(module, "make_examples", lambda *given: asked.append(given) or "made")
    monkeypatch.setattr(module, "count_classes", lambda *given: given)
    run = verification()
    run.spec = SimpleNamespace(update=SimpleNamespace(accumulate=2))
    run.options = Options(steps=3, synthetic=synthetic)
    model = SimpleNamespace(outputs=tuple(SimpleNamespace(value=at) for at in (5, 6, 7)))
    outputs = {
        name: SimpleNamespace(shape=shape)
        for name, shape in (
            ("a", tf.TensorShape((8, 10))),
            ("b", tf.TensorShape(())),
            ("c", tf.TensorShape((8, None))),
        )
    }
    compiled: Any = SimpleNamespace(
        plan=SimpleNamespace(model=model), clones=[SimpleNamespace(outputs=outputs)]
    )
    count = GLOBAL_BATCH * 2 * 3
    assert Verification._examples(run, compiled, 4) == ("made" if synthetic else "read")
    assert asked == [(model, (model, {5: 10}), count, 4) if synthetic else (run.spec, model, count, 4)]
    if synthetic:
        asked.clear()
        compiled.clones[0].outputs = SimpleNamespace(shape=tf.TensorShape((8, 3)))
        model.outputs = model.outputs[:1]
        Verification._examples(run, compiled, 4)
        assert asked == [(model, (model, {5: 3}), count, 4)]


SPEC = """
tfdeploy = 1

model "small" {
  x = input(float32, [4])
  label = input(int32, [])
  y = x -> Dense(2, name = "logits")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
}

devices { cpu = 1 }
clones { batch = 4 }
update { optimizer = SGD(0.1) }
"""

COMPILED: Any = SimpleNamespace(ledger=SimpleNamespace(entries={}))


def test_a_label_that_the_model_does_not_know_is_named_with_the_loss() -> None:
    """The op is one of the loss, to which the message points."""
    arrays = {"x": np.ones((4, 4), np.float32), "label": np.array([0, 1, 2, 3], np.int32)}
    with Trial(TrialSetup(Traces(), 1, arrays), spec_of(SPEC)) as trial:
        with pytest.raises(
            RunError, match="a combination failed, in clone 0: Received a label value"
        ) as caught:
            trial.step()
        found = caught.value.diagnostic
        assert found.code == "TFD738"
        assert found.span is not None
        assert found.span.source.text[found.span.start : found.span.end].startswith("[label, y] ->")


def test_the_error_of_a_server_that_was_lost_is_left_to_others() -> None:
    """Some errors mean that, others only if the tasks say so. In this process, no task can be lost."""

    def session(fault: type[tf.errors.OpError], lost: Callable[[], bool] | None = None) -> LocatedSession:
        def run(*_: Any) -> None:
            raise fault(None, None, "gone")

        return LocatedSession(SimpleNamespace(run=run), COMPILED, lost)

    for fault, lost in ((tf.errors.UnavailableError, False), (tf.errors.InternalError, True)):
        with pytest.raises(fault):
            session(fault, lambda lost=lost: lost).run("fetches")
    for there in (session(tf.errors.UnavailableError), session(tf.errors.InternalError, lambda: False)):
        with pytest.raises(RunError, match="a combination failed: gone"):
            there.run("fetches")
