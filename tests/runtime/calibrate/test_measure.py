"""What a process that measures asks of TensorFlow, and what it makes of the times of steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from compiler.time.work import Signature, TimedOp
from compiler.topology import Device
from dsl.diagnostics import RunError
from tests.support import classifier
from tfdeploy.runtime.calibrate import measure
from tfdeploy.runtime.calibrate.measure import time_to_start_an_op
from tfdeploy.runtime.calibrate.processes import MeasureRequest
from tfdeploy.runtime.calibrate.rounds import Round, TracedSteps, cores_used, typical


@pytest.mark.family(every=2)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_session_has_the_threads_that_are_measured(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """TensorFlow gives a process the pool for which its first session asks, and no later one changes it."""
    import tensorflow as tf

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


def test_what_tensorflow_refuses_is_an_error_in_the_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an assertion of a layer that made-up examples do not satisfy."""
    import tensorflow as tf

    compiled = SimpleNamespace(ledger=SimpleNamespace(entries={}), step=None)
    monkeypatch.setattr(measure, "graph_of", lambda _: compiled)
    monkeypatch.setattr("compiler.step.read.work.graph_step", lambda _: None)

    @contextmanager
    def ready(_: Any) -> Iterator[None]:
        raise tf.errors.InvalidArgumentError(None, None, "assertion failed: too large")
        yield

    monkeypatch.setattr(measure._Measurement, "ready", ready)
    request = MeasureRequest(False, 1, True, 2, 0.1, 2)
    with pytest.raises(RunError, match="a step on made-up examples failed: assertion failed: too large"):
        measure.measure(classifier(), request, lambda: None)


def test_the_lower_quartile_counts() -> None:
    """Half of the rounds were disturbed, and one was luckier than others. Of cores the upper counts."""
    rounds = [
        Round(seconds, cores) for seconds, cores in ((9, 1), (3, 2), (1, 1.5), (3, 1.5), (8, 1), (7, 2))
    ]
    assert typical(rounds) == 3
    assert cores_used(rounds) == 2
    assert cores_used(rounds[:5]) == 1.5
    assert typical(rounds[:1]) == 9


def test_the_fastest_half_of_the_turns_counts() -> None:
    """Ops are as fast as in the turns whose plain steps were fastest, whatever traced ones took."""

    def made(plain: float, *traced: float) -> measure._Turn:
        steps = [{"op": (seconds, 1)} for seconds in traced]
        return measure._Turn(Round(plain, 1.0), TracedSteps(frozenset({"op"}), steps))

    turns = [made(9.0, 0.5, 0.5, 0.5), made(5.0, 2.0, 3.0), made(7.0, 0.25), made(6.0, 4.0)]
    assert measure._fastest(turns) == {"op": (3.0, 1)}
    assert measure._fastest(turns[:1]) == {"op": (0.5, 1)}


def test_every_session_makes_steps_before_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow learns from the first steps which ops are short, so they do not count."""
    made: list[str] = []

    @contextmanager
    def session(_: Any, threads: int) -> Iterator[Any]:
        yield SimpleNamespace(make_callable=lambda what: lambda: made.append(f"{threads} {what}"))

    monkeypatch.setattr(measure, "time_to_start_an_op", lambda _: 0.0)
    monkeypatch.setattr(measure, "ratios_by_rows", lambda *_: ())
    monkeypatch.setattr("compiler.process.cores", lambda: 2)
    for name, replaced in (("_session", session), ("_on_rows", lambda _: ()), ("_fetches", lambda _: "step")):
        monkeypatch.setattr(measure._Measurement, name, replaced)
    start = SimpleNamespace(handle=SimpleNamespace(op="start"))
    request: Any = SimpleNamespace(inner_threads=1, beside=True, seconds=0.0)
    compiled: Any = SimpleNamespace(train_inputs=(), global_step=start)
    work: Any = None
    with measure._Measurement(request, compiled, work).ready():
        pass
    assert {each: made.count(each) > measure.LEAST_STEPS for each in ("1 step", "2 step")} == {
        "1 step": True,
        "2 step": True,
    }
    first = made.index("1 ['start']")
    assert set(made[:first]) == {"1 step"}


@pytest.mark.parametrize(
    ("loops", "exchange", "hand_over"), [((), None, 0.0), (((0, 1),), None, 7e-6), ((), "exchange", 7e-6)]
)
def test_steps_that_are_not_simulated_alone_hand_over_as_ops_start(
    monkeypatch: pytest.MonkeyPatch, loops: Any, exchange: str | None, hand_over: float
) -> None:
    """Such have loops, or exchange gradients with other workers; to others a simulation is fitted."""
    monkeypatch.setattr(measure, "crossings", lambda _: ())
    monkeypatch.setattr(measure, "fitted", lambda found, *_: found)
    turns = [
        measure._Turn(Round(seconds, 1.5), TracedSteps(frozenset({"op"}), [{"op": (traced, 1)}]))
        for seconds, traced in ((5.0, 2.0), (4.0, 3.0))
    ]
    op = TimedOp("op", Signature("Exp", ("float32[9]",)), Device("cpu", 0), flops=9, bytes=72, times=2)
    measurement: Any = SimpleNamespace(
        alone=turns[:1],
        beside=turns[1:],
        start=0.5,
        op_start=7e-6,
        tower=[],
        work=SimpleNamespace(loops=loops, ops=[op]),
        rows=(),
        compiled=SimpleNamespace(exchange=exchange),
        _cores=lambda: 2,
    )
    measurement._costs = partial(measure._Measurement._costs, measurement)
    found = measure._Measurement.result(measurement)
    (cost,) = found.ops
    factor = (5.0 - 0.5 - 7e-6) / 2.0  # of a step without the start of its ops, to what is traced
    assert (cost.type, cost.inputs, cost.flops, cost.bytes, cost.ops) == ("Exp", ("float32[9]",), 9, 72, 1)
    assert (cost.runs, cost.alone, cost.crowded) == (0.5, pytest.approx(factor), pytest.approx(1.5 * factor))
    assert (found.step_start, found.op_start, found.serial, found.parallel) == (0.5, 7e-6, 5.0, 4.0)
    assert (found.hand_over, found.awake, found.tower_awake) == (hand_over, 1.5, None)
