"""What towers get from the iterator: pieces, micro-batches, batches of their own, and one ahead for GPUs."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from compiler.graph.inspect.placement_map import map_placement
from tests.models import data, model
from tests.support import Training, classifier, examples, largest_difference, rounding

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
