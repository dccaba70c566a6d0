"""What an engine makes of the values that a session returns, and how it leaves a session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tfdeploy.runtime.session.engine import Engine, StepReport, named


def engine(compiled: Any = None, session: Any = None, **more: Any) -> Engine:
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

    own = engine(
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
    own = engine(graph(applied=True, summary=False), SimpleNamespace(make_callable=lambda _: lambda: values))
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
    own = engine(compiled, SimpleNamespace(run=lambda op, *_: run.append(op)))
    for _ in range(2):
        own.feed(pipe, stream, training=training)
    assert asked == [(batch, {"repeat": training, "drop_remainder": training})]
    assert run == ["start", "puts"] * 2
