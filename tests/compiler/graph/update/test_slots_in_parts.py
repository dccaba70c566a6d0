"""Weight-update sharding by variables in pieces on the devices of the clones.

Each clone keeps a part of the slots, sums the gradients of its part alone, and updates it; the towers read
the joined weights (Xu et al., 2020, "Automatic Cross-Replica Sharding of Weight Update in Data-Parallel
Training").
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from compiler.graph.build import compile_graph
from compiler.graph.inspect.placement_map import map_placement
from compiler.pipeline import make_plan
from dsl import ir
from tests.support import CLASSIFIER, Training, examples, largest_difference, spec_of

LAYERS = '-> Flatten() -> Dense(400, activation = relu, name = "wide")'
IN_PARTS = "variables -> sharded(cpu[*])"
STEPS = 5


def spec(batches: list[int], optimizer: str, rule: str = IN_PARTS, **overrides: str) -> ir.Spec:
    """Return the spec of a classifier with a clone for each batch, on a device of its own."""
    text = CLASSIFIER.format(clones=len(batches), batch=batches, optimizer=optimizer, layers=LAYERS)
    return spec_of(f"{text}place {{ {rule} }}\n", **overrides)


def trained(made: ir.Spec) -> dict[str, Any]:
    """Return the variables of a checkpoint, slots included, after some steps on 16 examples each."""
    with Training(made, examples(64)) as training:
        training.steps(STEPS)
        return training.values()


@cache
def one_tower(optimizer: str) -> dict[str, Any]:
    """Return the variables that one tower ends with, which has the whole batch and whole variables."""
    return trained(spec([16], optimizer, "variables -> cpu[0]"))


@pytest.mark.family(every=6)
@pytest.mark.parametrize(
    ("batches", "optimizer", "aggregate"),
    [
        ([5, 4, 7], "Adam(0.01)", "add_n"),
        ([16], "Adam(0.01)", "add_n"),
        ([5, 4, 7], "Momentum(0.1)", "ring"),
        ([8, 8], "AdamW(0.01)", "ring"),
        ([2, 6, 3, 5], "Adam(0.01)", "shuffle"),
        ([4, 4, 4, 4], "RMSprop(0.01, momentum = 0.9)", "tree"),
    ],
)
def test_parts_end_with_the_weights_and_slots_of_one_tower(
    batches: list[int], optimizer: str, aggregate: str
) -> None:
    """Whatever the number of clones and their batches, a checkpoint has the same whole tensors."""
    found = trained(spec(batches, optimizer, update__aggregate=aggregate))
    assert largest_difference(found, one_tower(optimizer)) < 1e-5


@pytest.mark.family(every=2)
@pytest.mark.parametrize("clones", [2, 4])
def test_each_clone_has_its_part_of_the_slots(clones: int) -> None:
    """The parts are all slots, and none is more than 1 % from an equal share where the rows divide."""
    made = map_placement(compile_graph(make_plan(spec([4] * clones, "Adam(0.01)"))))
    whole = map_placement(compile_graph(make_plan(spec([16], "Adam(0.01)", "variables -> cpu[0]"))))
    held = [each.slot_bytes for each in made.devices]
    total = sum(each.slot_bytes for each in whole.devices)
    assert len(held) == clones
    assert sum(held) == total
    assert all(abs(each - total / clones) <= 0.01 * total / clones for each in held)
    slots = {slot.name: slot.bytes for variable in whole.variables for slot in variable.slots}
    parts = [each for variable in made.variables for each in variable.slots if each.shard is not None]
    ends: dict[str, int] = {}
    for each in parts:
        cut = each.shard
        assert cut is not None
        before = slots[cut.of] * cut.start // cut.whole[cut.axis]
        assert before == ends.get(cut.of, 0)  # where the part before it ends
        ends[cut.of] = before + each.bytes
    assert {name: slots[name] for name in ends} == ends
    assert ends.keys() == {name for name in slots if name.endswith(("/Adam", "/Adam_1"))}


def test_a_clone_is_sent_the_gradients_of_its_part_and_the_weights_of_the_others() -> None:
    """From clone 1 to clone 2 go the gradient of the part of 2, and the weights of the part of 1."""
    made = map_placement(compile_graph(make_plan(spec([5, 4, 7], "Adam(0.01)"))))
    part = {each.ref: each.variable_bytes for each in made.devices}
    (sent,) = [each for each in made.transfers if (each.from_device, each.to_device) == ("cpu[1]", "cpu[2]")]
    assert sent.bytes == part["cpu[1]"] + part["cpu[2]"]


def test_as_much_is_sent_as_by_a_ring_of_copies() -> None:
    """Parts that are sent to where they are updated, and weights that come back, are a ring's two rounds."""
    copies = spec([5, 4, 7], "Adam(0.01)", "variables -> replicated", update__aggregate="ring")
    sent = [
        sum(each.bytes for each in map_placement(compile_graph(make_plan(made))).transfers)
        for made in (spec([5, 4, 7], "Adam(0.01)"), copies)
    ]
    assert sent[0] == sent[1]
