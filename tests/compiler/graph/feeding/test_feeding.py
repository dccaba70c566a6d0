"""What towers get from the iterator: pieces, micro-batches, batches of their own, and one ahead for GPUs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.feeding import (
    InputPipe,
    _of_one_size,
    cut_micro_batches,
    draw_batches,
    open_pipe,
    split_batch,
    time_after,
)
from compiler.graph.finished import Finished
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.ledger import Ledger
from compiler.pipeline import make_plan
from compiler.plan import Plan
from compiler.reasons import Placed, Reason
from compiler.step.record import Op, Run
from tests.models import data, model
from tests.support import Training, classifier, examples, largest_difference, rounding


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


@pytest.mark.parametrize(("dtype", "filled"), [(tf.float32, 7.0), (tf.string, b"")])
def test_batches_are_filled_up_to_the_longest(dtype: tf.DType, filled: object) -> None:
    """What is behind is the padding, or empty texts; sizes that all examples share stay known."""
    with tf.Graph().as_default():
        given = [tf.compat.v1.placeholder(dtype, [None, None, 2]) for _ in range(2)]
        made = _of_one_size(given, 7.0)
        assert [each.shape.as_list() for each in made] == [[None, None, 2]] * 2
        number = b"x" if dtype == tf.string else 1.0
        batches = [np.full((1, 3, 2), number), np.full((2, 1, 2), number)]
        with tf.compat.v1.Session() as session:
            first, second = session.run(made, dict(zip(given, batches, strict=True)))
    np.testing.assert_array_equal(first, batches[0])
    assert second.shape == (2, 3, 2)
    assert (second[:, :1] == number).all()
    assert (second[:, 1:] == filled).all()


GPUS = {"devices__cpu": "1", "devices__gpu": "2"}


def inputs_of(training: Training) -> set[tuple[str, str, int | None, str]]:
    """Return name, type, clone and device of what stands between the batch and the towers."""
    ops = map_placement(training.compiled).ops
    return {
        (op.name, op.type, op.clone, op.requested)
        for op in ops
        if op.type in {"Stage", "Unstage", "StageClear"}
    }


def test_each_tower_on_a_gpu_has_an_area_beside_it() -> None:
    """Pictures wait on the tower's GPU, labels on the host; each goes to its GPU once, to the area."""
    with Training(classifier(clones=2, **GPUS), examples(64), emulate=True) as training:
        kinds = {"put": "Stage", "take": "Unstage", "clear": "StageClear"}
        assert inputs_of(training) == {
            (f"clone_{clone}/input/{area}/{verb}", kind, owner, device)
            for clone in (0, 1)
            for area, owner, device in (("ahead", clone, f"gpu[{clone}]"), ("tickets", None, "cpu[0]"))
            for verb, kind in kinds.items()
        }
        graph = training.compiled.graph
        for clone in (0, 1):
            put = graph.get_operation_by_name(f"clone_{clone}/input/ahead/put")
            assert [each.name for each in put.inputs] == [f"input/split/image:{clone}"]
        sent = {
            (each.from_device, each.to_device): [tensor.name for tensor in each.largest]
            for each in map_placement(training.compiled).transfers
        }
        assert "input/split/image:0" in sent["cpu[0]", "gpu[0]"]
        assert not any("input" in name for name in sent["gpu[0]", "cpu[0]"])


def test_towers_on_the_host_have_none() -> None:
    """Nothing would be gained there, and nothing is spent."""
    with Training(classifier(clones=2, devices__cpu="2"), examples(64), emulate=True) as training:
        assert inputs_of(training) == set()
        assert training.compiled.train_input.puts == []


@pytest.mark.family(every=2)
@pytest.mark.parametrize("accumulate", ["1", "2"])
def test_steps_are_those_of_towers_without_an_area(accumulate: str) -> None:
    """Losses and weights are the same with a batch ahead and without, filled beforehand or not."""
    losses, weights = [], []
    for settings, filled in ((GPUS, True), (GPUS, False), ({"devices__cpu": "2"}, False)):
        spec = classifier(clones=2, update__accumulate=accumulate, **settings)
        with Training(spec, examples(160), emulate=True) as training:
            if filled:
                training.session.run(training.compiled.train_input.puts)
            losses.append(training.steps(5))
            weights.append(training.values())
    apart = rounding(16 * 8 * 8, steps=5)  # a gradient is a sum over the pixels of a clone's batch
    assert losses[0] == pytest.approx(losses[2], rel=apart)
    assert losses[1] == pytest.approx(losses[2], rel=apart)
    assert max(largest_difference(each, weights[2]) for each in weights[:2]) < apart


def test_whatever_is_asked_for_puts_the_next_batch_in() -> None:
    """No handle on the graph leaves the areas empty: each can be asked for again and again by itself."""
    with Training(classifier(clones=2, **GPUS), examples(64), emulate=True) as training:
        compiled = training.compiled
        (waited,) = compiled.train_input.waits  # for the next batch, which is asked for after the update
        assert compiled.train_op in waited.op.inputs[1].op.control_inputs
        alone = [
            compiled.total_loss,
            compiled.data_loss,
            compiled.metrics["accuracy"].result,
            compiled.train_op,
        ]
        alone += [handle for clone in compiled.clones for handle in (clone.loss, clone.outputs)]
        for handle in alone:
            for _ in range(3):
                training.session.run(handle)


def test_data_that_is_attached_again_begins_at_its_beginning() -> None:
    """What was put in before is thrown away."""
    with Training(
        classifier(clones=2, **GPUS, optimizer="SGD(0.0)"), examples(160), emulate=True
    ) as training:
        pipe = training.compiled.train_input
        training.session.run(pipe.puts)
        first = training.steps(3)
        assert len({*first}) == 3
        training.session.run(training.start)
        training.session.run(pipe.puts)
        assert training.steps(3) == first


def test_clones_that_update_by_themselves_have_their_own() -> None:
    """In async training every clone's update takes its own piece and puts the next in."""
    with Training(classifier(clones=2, update__mode="async", **GPUS), examples(64), emulate=True) as training:
        training.session.run(training.compiled.train_input.puts)
        for loop in training.compiled.train_loops:
            assert loop.waited is not None
            assert loop.train_op in loop.waited.op.inputs[1].op.control_inputs
            for _ in range(3):
                training.session.run([loop.train_op, loop.loss])
        for loop in training.compiled.train_loops:
            for handle in (loop.train_op, loop.loss, loop.metrics["accuracy"].result):
                for _ in range(3):
                    training.session.run(handle)


def test_indices_stay_with_the_table() -> None:
    """Where rows of an embedding on the host are looked up, no index goes to a GPU and back."""
    spec = model("words", clones=2, batch=4, optimizer="SGD(0.1)", **GPUS)
    with Training(spec, data("words", 64), emulate=True) as training:
        assert not any(
            op.type == "Stage" and op.requested != "cpu[0]" for op in map_placement(training.compiled).ops
        )
        assert np.isfinite(training.steps(2)).all()


def test_every_example_comes_once() -> None:
    """The stream through the areas is the one that was put in: nothing comes twice or is left out."""
    spec = classifier(clones=4, batch=(1, 2, 3, 4), devices__cpu="1", devices__gpu="4")
    arrays = examples(40)
    with Training(spec, arrays, emulate=True) as training:
        compiled = training.compiled
        pieces: list[Any] = [
            compiled.graph.get_tensor_by_name(f"clone_{clone}/input/ahead/take:0") for clone in range(4)
        ]
        training.session.run(compiled.train_input.puts)
        seen = [training.session.run([*pieces, compiled.train_op])[:-1] for _ in range(4)]
        whole = np.concatenate([piece for step in seen for piece in step])
        np.testing.assert_array_equal(whole, arrays["image"])
        assert Counter(len(piece) for step in seen for piece in step) == dict.fromkeys((1, 2, 3, 4), 4)
