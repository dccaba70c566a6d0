"""What an engine makes of the values that a session returns, its steps, and how it leaves a session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support import classifier, refusal
from tfdeploy.runtime.session import engine
from tfdeploy.runtime.session.engine import Engine, StepReport, close_session, named
from tfdeploy.runtime.session.steps import MOST_SKIPPED, AsyncSteps, StepResult, SyncSteps, make_steps


def engine_on(compiled: Any = None, session: Any = None, **more: Any) -> Engine:
    """Return an engine on a graph and a session that only pretend."""
    saving: Any = None
    return Engine(compiled, session, saving, **more)


def test_metrics_with_several_values_have_numbered_names() -> None:
    """In the order of their elements; a metric with one value has its name, also if it is no number."""
    found = named([("a", np.float32(0.5)), ("b", np.array([[1, 2], [3, 4]])), ("c", [7]), ("d", np.nan)])
    assert list(found)[:-1] == ["a", "b[0]", "b[1]", "b[2]", "b[3]", "c[0]"]
    assert list(found.values())[:-1] == [0.5, 1.0, 2.0, 3.0, 4.0, 7.0]
    assert np.isnan(found["d"])


def graph(*, applied: bool, summary: bool) -> Any:
    """Return a graph with two metrics and two groups of weights."""
    result = SimpleNamespace(result="tensor")
    return SimpleNamespace(
        train_op="train",
        total_loss="total",
        data_loss="data",
        metrics={"near": result, "far": result},
        learning_rates={"a/*": "rate", "b/*": "rate"},
        summary_op="summary" if summary else None,
        applied="applied" if applied else None,
        train_inputs=(SimpleNamespace(waits=("wait", "wait")), SimpleNamespace(waits=("wait",))),
    )


@pytest.mark.parametrize("summary", [False, True])
@pytest.mark.parametrize("applied", [None, False, True])
def test_a_report_has_every_value_at_its_place(*, applied: bool | None, summary: bool) -> None:
    """Whatever else is fetched with it; of all waits the longest counts, and none is below zero."""
    given = {
        "train": None, "total": np.float32(3), "data": np.float32(2), "tensor": np.array([0.5, 0.25]),
        "rate": 0.125, "summary": b"s", "applied": applied,
    }  # fmt: skip
    waits = iter([-1.0, 0.5, 0.25])

    def value_of(fetch: Any) -> Any:
        if isinstance(fetch, dict):
            return {name: value_of(each) for name, each in fetch.items()}
        if isinstance(fetch, list):
            return [value_of(each) for each in fetch]
        return next(waits) if fetch == "wait" else given[fetch]

    def callable_of(fetches: Any) -> Any:
        values = value_of(fetches)
        return lambda: values

    own = engine_on(
        graph(applied=applied is not None, summary=summary), SimpleNamespace(make_callable=callable_of)
    )
    for _ in range(2):
        assert own.step(logged=True) == StepReport(
            3.0,
            2.0,
            {"near[0]": 0.5, "near[1]": 0.25, "far[0]": 0.5, "far[1]": 0.25},
            {"a/*": 0.125, "b/*": 0.125},
            b"s" if summary else None,
            0.5,
            applied is not False,
        )


@pytest.mark.parametrize(("applied", "waits", "waited"), [(False, [-1.0], 0.0), (True, [], None)])
def test_a_plain_step_gives_the_loss_of_the_data(
    *, applied: bool, waits: list[float], waited: float | None
) -> None:
    """It is skipped if any part of it was, and waits as long as its longest wait."""
    values = {"data_loss": np.float32(2), "waits": waits, "applied": [True, applied], "returned": None}
    own = engine_on(
        graph(applied=True, summary=False), SimpleNamespace(make_callable=lambda _: lambda: values)
    )
    assert own.step(logged=False) == StepReport(2.0, 2.0, waited=waited, applied=applied)


def test_weights_and_their_averages_start_from_new_values() -> None:
    """As far as there are averages, and workers do not keep them apart; copies follow."""
    done: list[Any] = []
    averages = {"a/ExponentialMovingAverage": 0, "b/ExponentialMovingAverage": 0}
    compiled = SimpleNamespace(
        saved={"a": 0, "b": 0, "c": 0, **averages},
        kept_apart=("b/ExponentialMovingAverage",),
        after_restore_op="after",
    )

    class Own(Engine):
        def assign(self, values: Any) -> None:
            done.append(dict(values))

    saving: Any = None
    own = Own(compiled, SimpleNamespace(run=done.append), saving)  # type: ignore[arg-type]
    own.start_from({"a": 1, "b": 2, "c": 3})
    assert done == [{"a": 1, "b": 2, "c": 3, "a/ExponentialMovingAverage": 1}, "after"]


@pytest.mark.parametrize(("size", "batch"), [(None, 16), (5, 5)])
@pytest.mark.parametrize("training", [False, True])
def test_a_stream_is_attached_once_and_started_whenever_it_is_fed(
    size: int | None, batch: int, *, training: bool
) -> None:
    """In batches of the pipe, or of a tower; only training repeats it, in batches that are full."""
    asked: list[Any] = []
    run: list[Any] = []

    class Data:
        def batches(self, size: int, **options: bool) -> None:
            asked.append((size, options))

    stream: Any = Data()
    pipe: Any = SimpleNamespace(size=size, puts="puts", attach=lambda make: make() or "start")
    compiled = SimpleNamespace(plan=SimpleNamespace(towers=[SimpleNamespace(batch=16)]))
    own = engine_on(compiled, SimpleNamespace(run=lambda op, *_: run.append(op)))
    for _ in range(2):
        own.feed(pipe, stream, training=training)
    assert asked == [(batch, {"repeat": training, "drop_remainder": training})]
    assert run == ["start", "puts"] * 2


class Session:
    """A session whose server does not let it go."""

    def __init__(self, target: str, *, raises: bool = False) -> None:
        self.sess_str, self.raises = target, raises
        self.closed_by: list[str] = []
        self.may_end = threading.Event()

    def close(self) -> None:
        """Wait until the server lets go."""
        self.closed_by.append(threading.current_thread().name)
        if self.raises:
            raise tf.errors.UnavailableError(None, None, "gone")
        if self.sess_str:
            self.may_end.wait(60)


def test_a_session_at_a_server_that_is_gone_is_left_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thread of its own, which does not keep the process; one in this process is closed at once."""
    monkeypatch.setattr(engine, "PATIENCE", 0.01)
    session = Session("grpc://p:1")
    close_session(session)
    (left,) = [each for each in threading.enumerate() if each.name == "close"]
    assert left.daemon
    session.may_end.set()
    left.join()
    for raises in (False, True):
        own = Session("", raises=raises)
        close_session(own)
        assert own.closed_by == [threading.current_thread().name]


def test_a_session_at_a_server_is_closed_before_anything_else_happens() -> None:
    """Its server lets go after a moment, which is waited for."""
    session = Session("grpc://p:1")
    threading.Timer(0.1, session.may_end.set).start()
    close_session(session)
    assert session.may_end.is_set()
    assert session.closed_by == ["close"]


Graph = tuple[tf.compat.v1.Session, tf.Tensor, dict[str, Any]]


@pytest.fixture(name="graph", scope="module")
def fixture_graph() -> Iterator[Graph]:
    """Yield a session, a tensor to feed, and what can be fetched."""
    with tf.Graph().as_default() as graph:
        given = tf.compat.v1.placeholder(tf.int64, (2,), name="given")
        total = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=(2,), shared_name="total")
        init = tf.raw_ops.AssignVariableOp(resource=total, value=tf.zeros((2,), tf.int64))
        fetches = {
            "add": tf.raw_ops.AssignAddVariableOp(resource=total, value=given),
            "double": given * 2,
            "words": tf.strings.as_string(given[0]),
            "total": tf.raw_ops.ReadVariableOp(resource=total, dtype=tf.int64),
            "refuse": tf.gather(tf.constant([1.0]), given[0], name="refuse"),
        }
    with tf.compat.v1.Session(graph=graph) as session:
        session.run(init)
        yield session, given, fetches


def fed(graph: Graph, fetches: Any) -> Callable[..., Any]:
    """Return the function that an engine makes."""
    session, given, _ = graph
    return Engine(None, session, None).fed_callable(fetches, [given])  # type: ignore[arg-type]


def test_values_have_the_structure_of_what_is_fetched(graph: Graph) -> None:
    """Ops give None, and what is fetched twice is given twice; each call feeds other values."""
    add, double, words = (graph[2][each] for each in ("add", "double", "words"))
    run = fed(graph, {"op": add, "twice": [double, double], "rest": {"words": words}})
    for value in ((1, 2), (3, 4)):
        found = run(value)
        assert found["op"] is None
        assert [each.tolist() for each in found["twice"]] == [[2 * each for each in value]] * 2
        assert found["rest"] == {"words": str(value[0]).encode()}
    assert fed(graph, graph[2]["total"])((0, 0)).tolist() == [4, 6]  # ops run once in each call


def test_faults_name_their_op_as_those_of_a_session_do(graph: Graph) -> None:
    """Messages about faults say which layer has failed, which they know by the op."""
    with pytest.raises(tf.errors.InvalidArgumentError) as fault:
        fed(graph, graph[2]["refuse"])((5, 5))
    assert fault.value.op is graph[2]["refuse"].op


BATCH = 32


class Scripted:
    """An engine whose steps are applied, and wait for their examples, as a test says beforehand."""

    def __init__(self, *script: tuple[bool, float | None]) -> None:
        plan = SimpleNamespace(global_batch=BATCH, spec=classifier(update__precision="mixed_float16"))
        self.compiled = SimpleNamespace(plan=plan, train_loops=())
        self.script = list(script)
        self.made: list[str] = []
        self.on_run_metadata = None

    def step(self, *, logged: bool, traced: bool = False) -> StepReport:
        """Make a step, whose loss is its number."""
        self.made.append("traced" if traced else "logged" if logged else "plain")
        applied, waited = self.script.pop(0) if self.script else (True, None)
        return StepReport(float(len(self.made)), 0.0, waited=waited, applied=applied)


def steps(engine: Any) -> SyncSteps:
    """Return what makes the steps of an engine."""
    made = make_steps(engine)
    assert isinstance(made, SyncSteps)
    assert made.stride == 1
    return made


def test_the_first_step_is_traced_and_others_are_as_they_are_asked_for() -> None:
    """While a step is profiled, each is run so that its times are taken."""
    engine: Any = Scripted()
    made = steps(engine)
    found = [made.next(logged=logged, until=9) for logged in (False, False, True, False)]
    engine.on_run_metadata = print
    found.append(made.next(logged=False, until=9))
    assert engine.made == ["traced", "plain", "logged", "plain", "logged"]
    assert [each.report is not None for each in found] == [True, False, True, False, True]
    assert [(each.loss, each.examples, each.steps) for each in found] == [(n, BATCH, 1) for n in range(1, 6)]
    assert made.settle() == []


@pytest.mark.parametrize(
    ("waits", "together"), [((0.5, 0.25, 1.0), 1.75), ((None, 1.0, 1.0), None), ((1.0, None, 1.0), None)]
)
def test_a_step_that_is_skipped_is_made_again(
    waits: tuple[float | None, ...], together: float | None
) -> None:
    """The result is that of the step that was applied, with the examples and the waits of all."""
    engine = Scripted((True, 9.0), *zip((False, False, True), waits, strict=True))
    made = steps(engine)
    assert made.next(logged=False, until=9).waited == 9.0
    assert made.next(logged=False, until=9) == StepResult(3 * BATCH, 4.0, waited=together)
    assert engine.made == ["traced", "plain", "plain", "plain"]


@pytest.mark.parametrize("skipped", [MOST_SKIPPED - 1, MOST_SKIPPED])
def test_not_more_than_so_many_steps_in_a_row_are_skipped(skipped: int) -> None:
    """Then no scale of the loss helps, which is said at the precision that has a scale."""
    made = steps(Scripted(*[(False, None)] * skipped))
    if skipped < MOST_SKIPPED:
        assert made.next(logged=False, until=9).examples == MOST_SKIPPED * BATCH
        return
    found = refusal(made.next, logged=False, until=9)
    assert found.message == f"the gradients of {MOST_SKIPPED} steps in a row were not finite"
    assert found.span is not None


def test_clones_that_update_alone_wait_side_by_side() -> None:
    """What one of two clones waits holds up half of the training; the first update of each is traced."""
    loops = [SimpleNamespace(clone=clone, batch=8 * (1 + clone)) for clone in range(2)]
    kept: dict[int, list[bool]] = {0: [], 1: []}

    def update(loop: Any, *, traced: bool) -> StepReport:
        kept[loop.clone].append(traced)
        return StepReport(3.0, 2.0, {}, {}, waited=0.5 if loop.clone else None)

    plan = SimpleNamespace(update=SimpleNamespace(staleness=1))
    engine: Any = SimpleNamespace(compiled=SimpleNamespace(train_loops=loops, plan=plan), loop_step=update)
    made = make_steps(engine)
    assert isinstance(made, AsyncSteps)
    assert made.stride == 1
    found = [made.next(logged=False, until=6) for _ in range(6)]
    assert made.settle() == []
    made.close()
    assert kept == {0: [True, False, False], 1: [True, False, False]}  # neither is ahead by more than one
    assert {(each.examples, each.loss, each.waited) for each in found} == {(8, 3.0, None), (16, 3.0, 0.25)}
    assert all(each.report is not None for each in found)
