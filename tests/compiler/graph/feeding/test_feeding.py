"""What towers get from the iterator: consecutive pieces, micro-batches of these, and batches of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.feeding import (
    InputPipe,
    cut_micro_batches,
    draw_batches,
    open_pipe,
    split_batch,
    time_after,
)
from compiler.graph.finished import Finished
from compiler.graph.ledger import Ledger
from compiler.pipeline import make_plan
from compiler.plan import Plan
from compiler.reasons import Placed, Reason
from compiler.step.record import Op, Run
from tests.support import classifier


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A plan whose inputs are pictures and digits."""
    return make_plan(classifier(clones=2))


def pipe_of(plan: Plan, batch: int | None, *, timed: bool = False) -> InputPipe:
    """Return an iterator on the second device."""
    placed = Placed(plan.topology.devices[1], Reason("test", "default"))
    return open_pipe(plan.model.inputs, batch, placed, Ledger(plan), "input", timed=timed)


def values(pipe: InputPipe, tensors: Any, times: int = 1) -> list[Any]:
    """Return the values of tensors, again and again, if the digits of examples are their numbers."""
    numbers = np.arange(60, dtype=np.int32)
    pictures = np.broadcast_to(numbers[:, None, None, None], (60, 8, 8, 1)).astype(np.float32)
    graph = pipe.ledger.finish()
    finished = Finished(graph)
    start = finished.of(pipe).attach(
        lambda: tf.data.Dataset.from_tensor_slices({"image": pictures, "digit": numbers}).batch(
            pipe.size or 7, drop_remainder=True
        )
    )
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        session.run(start)
        return [session.run(finished.of(tensors)) for _ in range(times)]


@pytest.mark.parametrize("sizes", [(3, 1, 2), (6,)])
def test_pieces_are_consecutive(plan: Plan, sizes: tuple[int, ...]) -> None:
    """Each clone has the examples after those of the clone before it, with all inputs of each."""
    pipe = pipe_of(plan, sum(sizes))
    pieces = split_batch(pipe, sizes)
    assert [piece["image"].shape for piece in pieces] == [(size, 8, 8, 1) for size in sizes]
    for step, found in enumerate(values(pipe, pieces, 2)):
        assert np.concatenate([each["digit"] for each in found]).tolist() == [*range(6 * step, 6 * step + 6)]
        assert [len(each["digit"]) for each in found] == list(sizes)
        for each in found:
            assert (each["image"][:, 0, 0, 0] == each["digit"]).all()
    assert {each.device.ref for each in pipe.ledger.entries.values()} == {"cpu[1]"}
    assert {each.role for each in pipe.ledger.entries.values()} == {"input"}


def test_micro_batches_are_consecutive_too(plan: Plan) -> None:
    """Along a new first axis; shapes stay known."""
    pipe = pipe_of(plan, 6)
    cut = cut_micro_batches(pipe, 0, dict(pipe.batch), 3)
    assert cut["image"].shape == (3, 2, 8, 8, 1)
    (found,) = values(pipe, cut)
    assert found["digit"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert (found["image"][..., 0, 0, 0] == found["digit"]).all()


def test_clones_draw_batches_of_their_own(plan: Plan) -> None:
    """As many as fill the size of each, so that no example is given twice, and each is whole."""
    pipe = pipe_of(plan, 2, timed=True)
    drawn = draw_batches(pipe, (4, 2, 6))
    assert drawn[1]["digit"].shape == (2,)
    assert len(pipe.waits) == 3
    (rows,) = values(pipe, drawn)
    assert [len(each["digit"]) for each in rows] == [4, 2, 6]
    given = np.concatenate([each["digit"] for each in rows])
    assert sorted(given.tolist()) == list(range(12))
    for each in rows:
        assert (each["image"][:, 0, 0, 0] == each["digit"]).all()
        assert (each["digit"].reshape(-1, 2)[:, 1] - each["digit"].reshape(-1, 2)[:, 0] == 1).all()
        assert (np.diff(each["digit"]) > 0).all()  # a clone draws one batch after the other


@pytest.mark.parametrize("timed", [True, False])
def test_waiting_is_measured_once_for_all_pieces(plan: Plan, *, timed: bool) -> None:
    """And only if that is wanted."""
    pipe = pipe_of(plan, 4, timed=timed)
    split_batch(pipe, (2, 2))
    assert len(pipe.waits) == int(timed)
    assert (pipe.asked is not None) == timed


def test_waiting_begins_when_an_update_is_done(plan: Plan) -> None:
    """Each clone waits after its own update, or all after the only one; it is said once."""
    pipe = pipe_of(plan, 2, timed=True)
    draw_batches(pipe, (4, 2))
    asked = [begin for begin, _ in pipe.asks]
    updates = [Run(f"update_{clone}") for clone in range(2)]
    for _ in range(2):
        time_after(pipe.ledger, {**dict(enumerate(asked)), 2: None}, updates)
    ops = {each.name: each for each in pipe.ledger.written if isinstance(each, Op)}
    assert [ops[each.op].waits for each in asked] == [("update_0",), ("update_1",)]
    time_after(pipe.ledger, dict(enumerate(asked)), [Run("update_of_all")])
    ops = {each.name: each for each in pipe.ledger.written if isinstance(each, Op)}
    assert [ops[each.op].waits[1:] for each in asked] == [("update_of_all",)] * 2
    begun = [[each.op for each in ops[waited.op].inputs][1] for waited in pipe.waits]
    assert begun == [each.op for each in asked]


def test_evaluation_takes_batches_of_any_size(plan: Plan) -> None:
    """Their number of examples is not known before."""
    pipe = pipe_of(plan, None)
    assert pipe.batch["image"].shape == (None, 8, 8, 1)
    assert values(pipe, pipe.batch["digit"])[0].tolist() == list(range(7))
