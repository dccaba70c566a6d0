"""Replicated variables: a copy on every clone's device, the same bits in all of them."""

import numpy as np
import pytest

from compiler.graph import saved
from dsl import ir
from tests.graphs import graph_of
from tests.support import CLASSIFIER, Training, examples, spec_of

LAYERS = '-> Conv2D(4, 3, activation = relu, name = "conv1") -> BatchNormalization(name = "norm")'


def replicated(aggregate: str, layers: str = LAYERS, **overrides: str) -> ir.Spec:
    """Return the classifier on three devices with a copy of every variable on each."""
    text = CLASSIFIER.format(clones=3, batch=[5, 4, 7], optimizer="Adam(1e-2)", layers=layers)
    text += "place { variables -> replicated }\n"
    return spec_of(text, update__aggregate=aggregate, **overrides)


ALONE: dict[str, str] = {}
PACKED = {"update__pack": "2KiB"}
AGGREGATIONS = ["add_n", "tree", "hierarchical", "ring", "shuffle(shards = 2)", "collective"]
TURNS = [
    pytest.param(
        aggregate,
        pack,
        id=f"{aggregate.partition('(')[0]}-{'packed' if pack else 'alone'}",
    )
    for aggregate in AGGREGATIONS
    for pack in (ALONE, PACKED)
]
"""Aggregations with and without packing."""


@pytest.mark.family(every=15)
@pytest.mark.parametrize(("aggregate", "pack"), TURNS)
def test_copies_are_equal_bit_for_bit_after_50_steps(aggregate: str, pack: dict[str, str]) -> None:
    """Weights, statistics and slots of all three clones have the same bits, each on its clone's device."""
    with Training(replicated(aggregate, **pack), examples(160)) as training:
        training.steps(50)
        for name, variable in training.compiled.variables.items():
            assert [variable.device_of(copy).ref for copy in range(3)] == ["cpu[0]", "cpu[1]", "cpu[2]"]
            for family in (variable.copies, *variable.slots.values()):
                first, *others = training.session.run(family)
                for each in others:
                    np.testing.assert_array_equal(each, first, err_msg=name)


def test_an_op_waits_for_many_others_by_way_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Initializers of a device are joined there, as is what makes copies equal; each is waited for."""
    monkeypatch.setattr(saved, "MOST_ELSEWHERE", 8)
    monkeypatch.setattr(saved, "MOST_AT_STEP", 12)
    compiled = graph_of(replicated("add_n"))
    init, restored = compiled.init_op, compiled.after_restore_op
    assert sorted(each.name for each in init.control_inputs if "parts" in each.name) == [
        f"init_parts/at_cpu_{device}/{part}" for device in range(3) for part in range(2)
    ]
    assert {each.device[-5:] for each in init.control_inputs if "at_cpu_2" in each.name} == {"CPU:2"}
    assert all("parts" in each.name for each in restored.control_inputs)
    assigned = [op.name for op in compiled.graph.get_operations() if op.type == "AssignVariableOp"]
    for end, whose in (init, "/Assign"), (restored, "restore/"):
        ends = {each.name for one in end.control_inputs for each in (one, *one.control_inputs)}
        wanted = {name for name in assigned if name.endswith(whose) or name.startswith(whose)}
        assert ends & set(assigned) == wanted
        assert compiled.ledger.entries[end.name].role == "init"


def test_restoring_makes_copies_equal() -> None:
    """Values that are given to copy 0 are in every copy after `after_restore_op`, slots included."""
    with Training(replicated("add_n"), examples(16)) as training:
        training.steps(1)
        compiled = training.compiled
        assert (compiled.init_op.name, compiled.after_restore_op.name) == ("init", "after_restore")
        names = {op.name for op in compiled.graph.get_operations() if op.name.startswith("restore/")}
        ends = [f"{slot}{copy}" for slot in ("", "_Adam") for copy in ("", "_replica_1", "_replica_2")]
        assert {f"restore/logits_kernel{each}" for each in ends} <= names
        known = {each.name for each in compiled.graph.get_collection("variables")}
        assert {each.name for each in compiled.variables["logits/kernel"].copies} <= known
        saved = training.values()
        training.assign({name: value + 1 for name, value in saved.items() if name != "global_step"})
        for name, variable in training.compiled.variables.items():
            for copy in training.session.run(variable.copies):
                np.testing.assert_array_equal(copy, saved[name] + 1)
            for suffix, slots in variable.slots.items():
                for copy in training.session.run(slots):
                    np.testing.assert_array_equal(copy, saved[f"{name}/{suffix}"] + 1)
