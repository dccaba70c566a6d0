"""What an engine makes of the values that a session returns, its steps, and how it leaves a session."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import grammar
from compiler.graph.build import compile_graph
from compiler.graph.compiled import CompiledGraph
from compiler.graph.session_options import session_config
from compiler.graph.storage.saving import add_saving
from compiler.pipeline import make_plan
from compiler.plan import WorkerPlan
from tests.support import refusal
from tfdeploy.data import Stream
from tfdeploy.runtime.cluster.server import loopback_server
from tfdeploy.runtime.session.data import open_stream, splits_of
from tfdeploy.runtime.session.engine import Engine, StepReport, close_session, named
from tfdeploy.runtime.session.steps import MOST_SKIPPED, AsyncSteps, StepResult, SyncSteps, make_steps

SPEC = """
tfdeploy = 1
model "m" {{
  x = input(float32, [3])
  y = input(float32, [2])
  z = x -> Dense(4, name = "a") -> Dense(2, name = "b")
  loss = [y, z] -> MeanSquaredError()
  metrics {{
    near = [y, z] -> MeanAbsoluteError()
    far = [y, z] -> R2Score(class_aggregation = none)
  }}
  regularize = L2(0.1)
}}
data {{ train = npz("{data}.npz", x = "x", y = "y") }}
{devices}
clones {{ batch = {batch} }}
update {{ {update} }}
train {{ seed = 1, summaries = {summaries} }}
"""
STILL = """
  optimizer {
    "a/*" -> SGD(0.0)
    "*" -> SGD(ExponentialDecay(0.0, 4, 0.5))
  }
"""
"""Groups of weights, of which no step changes any: the values of a step are those of any other."""

EXAMPLES = 10
Begin = Callable[..., tuple[Engine, Stream]]


def on_server(compiled: CompiledGraph, servers: list[Any]) -> Engine:
    """Open a session for the graph of a worker, at a server of this process with the devices of all tasks.

    The server lasts as long as the list that it is put into.
    """
    config = session_config(compiled.plan, served=True)
    servers.append(server := loopback_server(config))
    session = tf.compat.v1.Session(server.target, graph=compiled.graph, config=config)
    found = Engine(compiled, session, add_saving(compiled))
    found.initialise()
    return found


@pytest.fixture(name="begin", scope="module")
def fixture_begin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Begin]:
    """Return a function that opens a session on a spec, with its data; one session for each spec."""
    folder, generator = tmp_path_factory.mktemp("engine"), np.random.default_rng(0)
    given = {
        "x": generator.random((EXAMPLES, 3), np.float32),
        "y": generator.random((EXAMPLES, 2), np.float32),
    }
    np.savez(folder / "plain.npz", **given)
    np.savez(folder / "large.npz", x=given["x"], y=given["y"] + np.float32(1e4))
    np.savez(folder / "infinite.npz", x=given["x"] * np.float32(np.inf), y=given["y"])
    servers: list[Any] = []
    with ExitStack() as stack:

        @cache
        def begin(update: str = STILL, *, data: str = "plain", **more: str) -> tuple[Engine, Stream]:
            given = {"devices": "devices { cpu = 2 }", "batch": "4", "summaries": "none", **more}
            path = Path(folder / f"{len(list(folder.iterdir()))}.tfdeploy")
            path.write_text(SPEC.format(update=update, data=data, **given))
            plan = make_plan(grammar.load(path), emulate="job" in given["devices"])
            compiled = compile_graph(plan)
            of_worker = isinstance(plan, WorkerPlan)
            found = on_server(compiled, servers) if of_worker else Engine.start(compiled)
            stack.callback(found.close)
            stream = open_stream(plan, splits_of(plan.spec)["train"], plan.model.inputs, training=True)
            for pipe in found.compiled.train_inputs:
                found.feed(pipe, stream, training=True)
            return found, stream

        yield begin


def test_metrics_with_several_values_have_numbered_names() -> None:
    """In the order of their elements; a metric with one value has its name, also if it is no number."""
    found = named([("a", np.float32(0.5)), ("b", np.array([[1, 2], [3, 4]])), ("c", [7]), ("d", np.nan)])
    assert list(found)[:-1] == ["a", "b[0]", "b[1]", "b[2]", "b[3]", "c[0]"]
    assert list(found.values())[:-1] == [0.5, 1.0, 2.0, 3.0, 4.0, 7.0]
    assert np.isnan(found["d"])


@pytest.mark.parametrize(
    ("update", "summaries"),
    [(STILL, "none"), (STILL, "scalars"), (f"{STILL}precision = mixed_float16", "none")],
)
def test_a_report_has_every_value_at_its_place(begin: Begin, update: str, summaries: str) -> None:
    """Whatever else is fetched with it; a step that is not logged has the loss of the data alone."""
    own, _ = begin(update, summaries=summaries)
    for _ in range(2):
        logged, plain = own.step(logged=True), own.step(logged=False)
        for found in (logged, plain):
            assert found.applied
            assert found.waited >= 0
        assert plain == StepReport(plain.data_loss, plain.data_loss, waited=plain.waited)
        penalty = own.session.run(own.compiled.evaluation.regularization)
        assert penalty > 0
        assert logged.loss == pytest.approx(logged.data_loss + penalty, rel=1e-3)
        assert list(logged.metrics) == ["near", "far[0]", "far[1]"]
        assert 0 < logged.metrics["near"] < logged.data_loss + 1
        assert logged.learning_rates == {"a/*": 0.0, "*": 0.0}
        tags = ["loss", "learning_rate", "near", "far/0", "far/1"] if summaries == "scalars" else []
        summary = tf.compat.v1.Summary.FromString(logged.summary or b"")
        assert [each.tag for each in summary.value] == [f"summary/{each}" for each in tags]


def test_a_step_is_applied_if_all_of_it_is_and_waits_as_long_as_its_longest_wait() -> None:
    """No wait is below zero, and none is known if none is measured."""
    values = {
        "data_loss": np.float32(2),
        "waits": [-1.0, 0.5, 0.25],
        "applied": [True, True],
        "returned": None,
    }
    assert StepReport.of(values) == StepReport(2.0, 2.0, waited=0.5)
    assert StepReport.of({**values, "waits": [-1.0]}).waited == 0.0
    skipped = StepReport.of({**values, "waits": [], "applied": [True, False]})
    assert skipped == StepReport(2.0, 2.0, waited=None, applied=False)


CUT = """devices { job "worker" { tasks = 2 } }
place {
  variables -> replicated
  slots -> sharded(clones)
}
"""


@pytest.mark.parametrize(
    ("mode", "devices", "follows"),
    [
        ("", "", True),
        (", mode = local, average_every = 2", "", True),
        (", replication = between_graph", CUT, False),
    ],
)
def test_weights_and_their_averages_start_from_new_values(
    begin: Begin, mode: str, devices: str, *, follows: bool
) -> None:
    """So do all copies of them. Averages that workers keep apart follow the weights that these take."""
    own, _ = begin(f"optimizer = SGD(0.0), ema = 0.5{mode}", **({"devices": devices} if devices else {}))
    average, new = "a/kernel/ExponentialMovingAverage", np.full((3, 4), 2.0, np.float32)
    own.start_from({"a/kernel": new})
    found = own.values(["a/kernel", "b/kernel"])
    assert (found["a/kernel"] == new).all()
    assert (found["b/kernel"] != 2.0).all()
    if follows:
        assert (own.values([average])[average] == new).all()
        own.start_from({"b/bias": np.full((2,), 100.0, np.float32)})
        assert own.step(logged=False).data_loss > 1000
    else:  # the part of the other worker, which is not there, has been given none
        with pytest.raises(tf.errors.FailedPreconditionError):
            own.values([average])


def test_a_stream_is_attached_once_and_started_whenever_it_is_fed(begin: Begin) -> None:
    """In training it is repeated, in batches that are full; else it ends with what is left."""
    own, _ = begin()
    plan = own.compiled.plan
    stream = open_stream(plan, splits_of(plan.spec)["train"], plan.model.inputs)
    sizes: list[list[int]] = []
    made: list[int] = []
    for _ in range(2):
        own.feed(own.compiled.evaluation.pipe, stream, training=False)
        sizes.append([own.evaluate_batch()[0] for _ in range(3)])
        with pytest.raises(tf.errors.OutOfRangeError):
            own.evaluate_batch()
        made.append(len(own.compiled.graph.get_operations()))
    assert sizes == [[4, 4, 2]] * 2
    assert made[0] == made[1]
    losses = [own.step(logged=False).data_loss for _ in range(2 * EXAMPLES)]
    assert np.isfinite(losses).all()


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


def test_a_session_at_a_server_that_is_gone_is_left_to_itself() -> None:
    """By a thread of its own, which does not keep the process; one in this process is closed at once."""
    session = Session("grpc://p:1")
    close_session(session, 0.01)
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


STEP = 8  # examples


def test_the_first_step_is_traced_and_others_are_as_they_are_asked_for(begin: Begin) -> None:
    """While a step is profiled, each is run so that its times are taken."""
    own, _ = begin()
    made = make_steps(own)
    assert isinstance(made, SyncSteps)
    assert made.stride == 1
    own.assigned.clear()
    found = [made.next(logged=logged, until=9) for logged in (False, False, True, False)]
    assert own.assigned[own.compiled.train_op.name].endswith("CPU:0")
    taken: list[Any] = []
    own.on_run_metadata = taken.append
    found.append(made.next(logged=False, until=9))
    own.on_run_metadata = None
    assert len(taken) == 1
    assert taken[0].step_stats.dev_stats
    assert [each.report is not None for each in found] == [True, False, True, False, True]
    assert {(each.examples, each.steps) for each in found} == {(STEP, 1)}
    assert [each.loss for each in found if each.report] == [each.report.loss for each in found if each.report]
    assert made.settle() == []


def test_a_step_that_is_skipped_is_made_again(begin: Begin) -> None:
    """The result is that of the step that was applied, with the examples of all."""
    own, _ = begin("optimizer = SGD(1e-9), precision = mixed_float16", data="large")
    scale = float(own.session.run(own.compiled.loss_scale))
    found = make_steps(own).next(logged=False, until=9)
    skipped = np.log2(scale / float(own.session.run(own.compiled.loss_scale)))
    assert found.applied
    assert 0 < skipped < MOST_SKIPPED
    assert found.examples == (1 + skipped) * STEP
    assert own.global_step() == 1


@pytest.mark.parametrize(
    ("waits", "together"), [((0.5, 0.25), 0.75), ((None, 1.0), None), ((1.0, None), None)]
)
def test_the_waits_of_steps_that_were_skipped_add_up(
    waits: tuple[float | None, float | None], together: float | None
) -> None:
    """If all of them are known; all else is that of the later one."""
    before, after = (
        StepResult(STEP, loss, waited=each) for loss, each in zip((1.0, 2.0), waits, strict=True)
    )
    assert after.made_after(before) == StepResult(2 * STEP, 2.0, waited=together)


def test_not_more_than_so_many_steps_in_a_row_are_skipped(begin: Begin) -> None:
    """Then no scale of the loss helps, which is said at the precision that has a scale."""
    own, _ = begin("optimizer = SGD(0.1), precision = mixed_float16", data="infinite")
    found = refusal(make_steps(own).next, logged=False, until=9)
    assert found.message == f"the gradients of {MOST_SKIPPED} steps in a row were not finite"
    assert found.span is not None
    assert own.global_step() == 0


def test_clones_that_update_alone_wait_side_by_side(begin: Begin) -> None:
    """What one of two clones waits holds up half of the training; the first update of each is traced."""
    own, _ = begin("optimizer = SGD(0.0), mode = async, staleness = 1", batch="[4, 8]")
    made, count = make_steps(own), 40
    assert isinstance(made, AsyncSteps)
    assert made.stride == 1
    own.assigned.clear()
    found = [made.next(logged=False, until=count) for _ in range(count)]
    assert made.settle() == []
    made.close()
    assert {name.partition("/")[0] for name in own.assigned} >= {"clone_0", "clone_1"}
    assert own.global_step() == count
    ahead = np.cumsum([1 if each.examples == 4 else -1 for each in found])
    assert np.abs(ahead).max() == 1  # neither is ahead by more than one
    for each in found:
        assert each.report.waited is not None
        assert (each.loss, each.waited) == (each.report.loss, each.report.waited / 2)
