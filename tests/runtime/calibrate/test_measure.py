"""What a process that measures asks of TensorFlow, and what it makes of the times of steps."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import grammar
from compiler.process import cores
from compiler.step.read.work import graph_step
from compiler.time.work import crossings
from dsl.diagnostics import RunError
from tests.support import spec_of
from tfdeploy.runtime.calibrate import measure as module
from tfdeploy.runtime.calibrate.measure import (
    LEAST_STEPS,
    Measurement,
    Turn,
    fastest,
    measure,
    time_to_start_an_op,
)
from tfdeploy.runtime.calibrate.processes import MeasureRequest
from tfdeploy.runtime.calibrate.rounds import Round, TracedSteps, cores_used, typical
from tfdeploy.runtime.plans import graph_of, plan_of

SPEC = """
tfdeploy = 1
model "m" {{
  x = input(float32, [4])
  y = x -> {layer} -> Dense(2)
  loss = [y, y] -> MeanSquaredError()
}}
devices {{ {devices} }}
clones {{ batch = 4 }}
update {{ optimizer = SGD(0.1){update} }}
"""
PLAIN = {"layer": "Dense(3)", "devices": "cpu = 2", "update": ""}
LOOPS = PLAIN | {"update": ", mode = async, accumulate = 2"}
WORKERS = PLAIN | {"devices": 'job "worker" { tasks = 2 }'}
REQUEST = MeasureRequest(False, 1, True, 2, 0.0, 2)


@cache
def compiled(**spec: str) -> Any:
    """Return the graph of a spec."""
    read = spec_of(SPEC.format(**spec))
    return graph_of(plan_of(read, emulate=bool(read.devices.jobs)))


@pytest.mark.family(every=2)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_session_has_the_threads_that_are_measured(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """TensorFlow gives a process the pool for which its first session asks, and no later one changes it."""
    asked = []

    class Refused(Exception):  # noqa: N818
        """Raised in place of opening a session, so that this process gets no pool."""

    def session(*, graph: Any, config: Any) -> None:
        assert graph is not None
        asked.append(config.intra_op_parallelism_threads)
        raise Refused

    monkeypatch.setattr(tf.compat.v1, "Session", session)
    with pytest.raises(Refused):
        time_to_start_an_op(threads)
    assert asked == [threads]


REFUSING = """
import keras
import tensorflow as tf


class Small(keras.layers.Layer):
    def call(self, x):
        tf.debugging.assert_less(x, -1e9, message="too large")
        return x
"""


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what needs no steps of a spec be measured with few of its own."""
    monkeypatch.setattr(module, "MOST_STEPS", 10)
    monkeypatch.setattr(module, "CHAINS", (5, 25))


@pytest.mark.usefixtures("few_steps")
def test_what_tensorflow_refuses_is_an_error_in_the_spec(tmp_path: Path) -> None:
    """As an assertion of a layer that made-up examples do not satisfy."""
    path = tmp_path / "spec.tfdeploy"
    path.write_text(SPEC.format(**PLAIN | {"layer": 'python("refusing:Small")'}))
    (tmp_path / "refusing.py").write_text(REFUSING)
    with pytest.raises(RunError, match=r"a step on made-up examples failed.*: .*too large"):
        measure(grammar.load(path, allow_python=True), REQUEST, lambda: None)


def test_the_lower_quartile_counts() -> None:
    """Half of the rounds were disturbed, and one was luckier than others. Of cores the upper counts."""
    rounds = [
        Round(seconds, cores) for seconds, cores in ((9, 1), (3, 2), (1, 1.5), (3, 1.5), (8, 1), (7, 2))
    ]
    assert typical(rounds) == 3
    assert cores_used(rounds) == 2
    assert cores_used(rounds[:5]) == 1.5
    assert typical(rounds[:1]) == 9


def turn(plain: float, used: float, name: str, *traced: float) -> Turn:
    """Return a turn whose steps without a trace took so long, and an op in its traced steps."""
    return Turn(Round(plain, used), TracedSteps(frozenset({name}), [{name: (each, 1)} for each in traced]))


def test_the_fastest_half_of_the_turns_counts() -> None:
    """Ops are as fast as in the turns whose plain steps were fastest, whatever traced ones took."""
    turns = [
        turn(9.0, 1.0, "op", 0.5, 0.5, 0.5),
        turn(5.0, 1.0, "op", 2.0, 3.0),
        turn(7.0, 1.0, "op", 0.25),
        turn(6.0, 1.0, "op", 4.0),
    ]
    assert fastest(turns) == {"op": (3.0, 1)}
    assert fastest(turns[:1]) == {"op": (0.5, 1)}


@pytest.mark.usefixtures("few_steps")
def test_every_session_makes_steps_before_it_is_measured() -> None:
    """TensorFlow learns from the first steps which ops are short, so they do not count."""
    graph = compiled(**PLAIN)
    measurement = Measurement(REQUEST, graph, graph_step(graph.step))
    with measurement.ready():
        sessions = [measurement.one, *([measurement.several] if cores() > 1 else [])]
        for each in sessions:
            assert each.session.run(graph.global_step.read_value()) > LEAST_STEPS
        assert [each.session._config.inter_op_parallelism_threads for each in sessions] == [1, cores()][
            : len(sessions)
        ]
        measurement.take_turn()
    assert measurement.start > 0
    assert len(measurement.alone) == 1
    assert len(measurement.beside) == len(sessions) - 1
    found = measurement.result()
    assert {each.type for each in found.ops} == {each.type for each in graph.step.run}


STARTS, ONE = 0.5, 7e-6


@pytest.mark.parametrize(
    ("spec", "hands_over"),
    [(PLAIN, False), (LOOPS, True), (WORKERS, True)],
    ids=["plain", "loops", "workers"],
)
def test_steps_that_are_not_simulated_alone_hand_over_as_ops_start(
    spec: dict[str, str], *, hands_over: bool
) -> None:
    """Such have loops, or exchange gradients with other workers; to others a simulation is fitted."""
    graph = compiled(**spec)
    work = graph_step(graph.step)
    op = max((each for each in work.ops if each.signature.type == "MatMul"), key=lambda each: each.times)
    assert op.times == (2 if spec is LOOPS else 1)
    measurement = Measurement(
        REQUEST,
        graph,
        work,
        op_start=ONE,
        start=STARTS,
        alone=[turn(5.0, 1.5, op.name, 2.0)],
        beside=[turn(4.0, 1.5, op.name, 3.0)],
    )
    found = measurement.result()
    cost = next(each for each in found.ops if each.inputs == op.signature.inputs and each.type == "MatMul")
    alike = [each for each in work.ops if each.signature == op.signature]
    # of a step without the start of its ops, and of those that send, to what is traced
    factor = (5.0 - STARTS - ONE * (1 + 2 * len(crossings(work)))) / 2.0
    assert (cost.flops, cost.bytes, cost.ops) == (op.flops, op.bytes, len(alike))
    assert cost.runs == 1 / op.times / len(alike)
    assert cost.alone == pytest.approx(2.0 * factor / op.times / len(alike))
    assert (found.step_start, found.op_start, found.serial, found.parallel) == (STARTS, ONE, 5.0, 4.0)
    assert (found.awake, found.tower_awake) == (1.5, None)
    if hands_over:
        assert found.hand_over == ONE
        assert cost.crowded == pytest.approx(1.5 * cost.alone)
    else:
        assert found.hand_over != ONE
        assert cost.crowded >= cost.alone


def test_what_is_not_measured_beside_others_is_as_fast_as_alone() -> None:
    """If a process measures with several threads, or the machine has one core."""
    graph = compiled(**PLAIN)
    work = graph_step(graph.step)
    name = next(each.name for each in work.ops if each.signature.type == "MatMul")
    found = Measurement(REQUEST, graph, work, alone=[turn(5.0, 1.5, name, 2.0)]).result()
    assert (found.serial, found.parallel, found.hand_over) == (5.0, 5.0, 0.0)
    assert all(each.crowded == each.alone for each in found.ops)
