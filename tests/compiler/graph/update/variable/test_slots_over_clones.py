"""Weight-update sharding: replicated variables, of whose slots each clone keeps a part.

Gradients are reduced and scattered, each clone updates its part, and the new parts are gathered (Xu et al.,
2020, "Automatic Cross-Replica Sharding of Weight Update in Data-Parallel Training").
"""

from functools import cache
from typing import Any

import numpy as np
import pytest

from compiler.graph.build import compile_graph
from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.one_step import run_one_step
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.inspect.verify_placement import verify_placement
from compiler.mapping.records import PlacementMap
from compiler.pipeline import for_worker, make_plan
from compiler.step.read.why import explain_placement
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from tests.graphs import graph_of, map_of
from tests.specs import LINE
from tests.support import Training, cloned, largest_difference, refusal_of, spec_of

MODEL = """
  word = input(int32, [3])
  image = input(float32, [5, 5, 1])
  label = input(int32, [])
  rows = word -> Embedding(23, 3, name = "table"{table}) -> Flatten()
  seen = image -> Conv2D(3, 2, activation = tanh, name = "conv") -> Flatten()
  both = [rows, seen] -> Concatenate()
  logits = both -> Dense(3, name = "logits"{dense})
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
"""
OVER_CLONES = "variables -> replicated\n  slots -> sharded(clones)"
ONE = "variables -> cpu[0]"
STEPS = 3


def small(
    batches: tuple[int, ...] = (2, 6, 3, 5),
    rules: str = OVER_CLONES,
    *,
    optimizer: str = "Adam(0.01)",
    table: str = "",
    dense: str = "",
    update: str | None = None,
    **overrides: str,
) -> ir.Spec:
    """Return the spec of a model with a clone for each batch, and weights that do not divide by 4 or 3."""
    update, place = update or f"optimizer = {optimizer}", f"clones -> cpu[*]\n{rules}"
    text = MODEL.format(table=table, dense=dense)
    return spec_of(cloned(text, len(batches), batch=batches, place=place, update=update, seed=7), **overrides)


@cache
def examples() -> dict[str, Any]:
    """Return examples of which some have the same word several times."""
    generator = np.random.default_rng(3)
    return {
        "word": generator.integers(0, 23, (32, 3)).astype(np.int32) // 3 * 3,
        "image": generator.random((32, 5, 5, 1), dtype=np.float32),
        "label": generator.integers(0, 3, 32).astype(np.int32),
    }


def trained(spec: ir.Spec) -> dict[str, Any]:
    """Return all variables of a checkpoint after some steps, in which all copies must have the same bits."""
    with Training(spec, examples()) as training:
        training.steps(STEPS)
        for variable in training.compiled.variables.values():
            first, *others = training.session.run(variable.copies)
            assert all((each == first).all() for each in others), variable.name
        return training.values()


def differs(batches: tuple[int, ...], **options: Any) -> float:
    """Return how far what clones with parts of the slots have trained is from what one tower has."""
    micro = int(options.get("update__accumulate", 1))
    one = trained(small((sum(batches) * micro,), ONE, **{**options, "update__accumulate": "1"}))
    found = trained(small(batches, **options))
    assert found.keys() == one.keys()
    return largest_difference(found, one)


OPTIMIZERS = [
    *("SGD(0.1)", "Momentum(0.1, nesterov = true)", "AdamW(0.01, weight_decay = 0.1, amsgrad = true)"),
    *("Adam(0.01, lazy = true)", "RMSprop(0.01, momentum = 0.9, centered = true)", "Adagrad(0.1)"),
    *("Adadelta(0.5)", "Ftrl(0.1)", "Adamax(0.01)", "Lion(0.001)", "Nadam(0.01)"),
]
AGGREGATIONS = ("add_n", "tree", "hierarchical", "ring", "shuffle")


@pytest.mark.family(every=12)
@pytest.mark.parametrize("number", range(len(OPTIMIZERS)))
def test_every_optimizer_ends_with_the_weights_and_slots_of_one_tower(number: int) -> None:
    """Dense gradients and rows, by every aggregation, with and without buckets, for unequal batches."""
    packed = {"update__pack": "300B"} if number % 2 else {}
    batches = ((2, 6, 3, 5), (7, 9), (5, 4, 7))[number % 3]
    aggregate = AGGREGATIONS[number % len(AGGREGATIONS)]
    found = differs(batches, optimizer=OPTIMIZERS[number], update__aggregate=aggregate, **packed)
    assert found < 1e-5


KINDS: dict[str, dict[str, str]] = {
    "averages": {"update__ema": "0.9"},
    "global norm": {"update__clip": "global_norm(0.1)"},
    "own norm": {"update__clip": "norm(0.05)", "update__ema": "EMA(0.9, warm_up = true)"},
    "by element": {"update__clip": "value(0.001)", "optimizer": "Momentum(0.1)"},  # Adam enlarges last bits
    "regularized": {
        "table": ", embeddings_regularizer = L2(0.1), embeddings_constraint = MaxNorm(0.01, axis = 1)",
        "dense": ", kernel_regularizer = OrthogonalRegularizer(0.01), kernel_constraint = UnitNorm()",
        "update__ema": "0.9",
    },
    "groups": {"update": 'optimizer { "table/*" -> SGD(0.1), "*" -> Adam(0.01) }'},
    "frozen": {"update__freeze": '["conv/*"]'},
    "micro-batches": {"update__accumulate": "2"},
}


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_done_to_gradients_and_weights_is_done_as_by_one_tower(kind: str) -> None:
    """Norms are those of whole gradients, constraints and regularizers see whole weights."""
    batches = (8, 8) if kind == "micro-batches" else (5, 4, 7)
    assert differs(batches, **KINDS[kind]) < 1e-5


def test_a_step_whose_gradients_are_not_finite_leaves_all_parts_as_they_were() -> None:
    """Behind the gate of a loss scale neither slots and averages nor copies change; in good steps they do."""
    spec = small((8, 8), update__precision="mixed_float16", update__ema="0.9")
    images = examples()["image"].copy()
    images[16:] = np.nan
    with Training(spec, {**examples(), "image": images}) as training:
        first = training.values()
        training.steps(1)
        before = training.values()
        training.steps(1)
        after = training.values()
    names = [name for name in before if "/" in name and "loss_scale" not in name]
    assert len(names) == 5 * 4
    assert not any(np.array_equal(first[name], before[name]) for name in names)
    assert all(np.array_equal(before[name], after[name]) for name in names)


TINY = """
  word = input(int32, [])
  y = input(float32, [1])
  z = word -> Embedding(1, 2, name = "table") -> Dense(1, name = "z")
  loss = [y, z] -> MeanSquaredError()
"""


def test_variables_with_fewer_elements_than_clones_have_fewer_parts() -> None:
    """A bias of one element and a table of one row are single parts; their averages are evaluated."""
    arrays = {"word": np.zeros(4, np.int32), "y": np.ones((4, 1), np.float32)}
    found = []
    for clones, batch, rules in ((1, 4, ONE), (4, 1, OVER_CLONES)):
        text = cloned(TINY, clones, batch=batch, place=rules, update="optimizer = Adam(0.1), ema = 0.9")
        with Training(spec_of(text), arrays) as training:
            training.steps(STEPS)
            evaluated = training.evaluated(arrays, training.compiled.evaluation.loss)
            found.append({**training.values(), "evaluated": evaluated})
    one, parts = found
    assert parts.keys() == one.keys()
    assert largest_difference(parts, one) < 1e-5


# --- the map ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled() -> CompiledGraph:
    """The graph of four clones that pass parts on in a ring."""
    return graph_of(small(update__ema="0.9", update__aggregate="ring"))


@pytest.fixture(scope="module")
def mapped(compiled: CompiledGraph) -> PlacementMap:
    """Its map, after a step."""
    return map_placement(compiled, run_one_step(compiled))


def test_each_clone_has_its_part_of_the_slots_and_averages(mapped: PlacementMap) -> None:
    """The parts are all slots; tables are cut by rows, and of all else no clone has an element more."""
    assert mapped.misplaced == ()
    for variable in mapped.variables:
        parts = [slot for slot in variable.slots if slot.name.endswith("/Adam")]
        assert sum(slot.bytes for slot in parts) == variable.bytes
        assert {slot.bytes for slot in parts} <= (
            {5 * 12, 6 * 12}
            if variable.name == "table/embeddings"
            else {variable.bytes // 16 * 4, -(variable.bytes // -16) * 4}
        )
        devices = [slot.device for slot in parts]
        assert devices == sorted(set(devices))
        assert len(devices) == min(4, variable.bytes // 4)
        assert variable.copies == ("cpu[0]", "cpu[1]", "cpu[2]", "cpu[3]")
    total = sum(each.bytes for each in mapped.variables)
    assert sum(each.slot_bytes for each in mapped.devices) == 3 * total
    assert sum(each.other_bytes for each in mapped.devices) == total + 8
    assert {each.variable_bytes for each in mapped.devices} == {total}


def test_an_update_is_made_by_the_clone_that_has_the_slots(
    compiled: CompiledGraph, mapped: PlacementMap
) -> None:
    """Fused ops run beside the slots, and `why` leads to the rules for slots and for variables."""
    applied = {each.name: each.assigned for each in mapped.ops if each.type == "ResourceApplyAdam"}
    slots = {slot.name: slot.device for each in mapped.variables for slot in each.slots}
    for name, device in applied.items():
        part = name.removeprefix("update/").rpartition("/")[0]
        assert slots[f"{part}/Adam"] == device
    assert len(applied) == len([name for name in slots if name.endswith("/Adam")])
    (why,) = explain_placement(compiled.step, "conv/kernel/shard_1/Adam")
    assert why.requested == "cpu[1]"
    assert why.chain[-1].reason.text == "slots -> sharded(clones)"
    (gathered,) = explain_placement(compiled.step, "update/conv/kernel/replica_2/gathered")
    assert gathered.chain[-1].reason.text == "variables -> replicated"
    assert gathered.requested == "cpu[2]"


def test_a_part_that_is_missing_is_found(compiled: CompiledGraph) -> None:
    """A clone whose part nobody updates would leave it as it was, so that the graph is refused."""
    variable = compiled.variables["conv/kernel"]
    parts = variable.parts
    try:
        variable.parts = parts[:2] + parts[3:]
        found = refusal_of(lambda: verify_placement(compiled))
    finally:
        variable.parts = parts
    assert found.code == "TFD512"
    assert "its 3 parts are not the whole weight" in found.message
    verify_placement(compiled)


# --- what is refused --------------------------------------------------------------------------------------


def refused(spec: ir.Spec) -> list[Diagnostic]:
    """Return the diagnostics of a spec that cannot be compiled."""
    with pytest.raises(SpecError) as fault:
        graph_of(spec)
    return list(fault.value.diagnostics)


def test_slots_of_a_variable_without_copies_are_refused() -> None:
    """Each is named, with the rules for its slots and for itself."""
    rules = 'variables -> replicated\n variables("table/*") -> cpu[1]\n slots -> sharded(clones)'
    (found,) = refused(small(rules=rules))
    assert (found.code, found.span and found.span.text) == ("TFD549", "sharded(clones)")
    assert "`table/embeddings` is not replicated" in found.message
    assert [each.span.text for each in found.labels] == ['variables("table/*") -> cpu[1]']


@pytest.mark.family(every=2)
@pytest.mark.parametrize("optimizer", ["Muon(0.1)", "Adafactor(0.1)"])
def test_an_optimizer_that_needs_a_whole_variable_is_refused_for_it(optimizer: str) -> None:
    """In a group of its own it is found when the weights are known; Muon takes matrices whole."""
    update = f'optimizer {{ "logits/*" -> {optimizer}, "*" -> Adam(0.01) }}'
    found = refused(small(update=update))
    assert {each.code for each in found} == {"TFD548"}
    assert {each.span.text for each in found if each.span is not None} == {optimizer}
    assert ["logits/bias" in each.message for each in found] == [False] + [True] * (len(found) - 1)
    assert len(found) == (1 if optimizer.startswith("Muon") else 2)
    left_out = 'variables -> replicated\n slots("[ct]*") -> sharded(clones)'
    graph_of(small(rules=left_out, update=update))


def test_one_clone_has_whole_slots() -> None:
    """The rule changes nothing if there is nothing to share out."""
    names = [
        [each.name for each in map_of(small((4,), rules)).ops]
        for rules in (OVER_CLONES, "variables -> replicated")
    ]
    assert names[0] == names[1]


def test_workers_agree_on_what_they_send_of_a_weight_with_one_part() -> None:
    """A single bias is all of one worker, to whom no part of it is another's. First values are waited for."""
    text = f"""{LINE}
devices {{ job "worker" {{ tasks = 3 }} }}
clones {{ batch = 4 }}
place {{
  variables -> replicated
  slots -> sharded(clones)
}}
update {{ replication = between_graph, optimizer = Adam(0.01) }}
train {{ seed = 1 }}
"""
    plan = make_plan(spec_of(text))
    put, taken, waits = set[str](), set[str](), dict[str, list[str]]()
    for number in range(plan.worker.count):
        nodes = compile_graph(for_worker(plan, number)).graph.as_graph_def().node
        named = {each.name: each for each in nodes}
        for each in nodes:
            if each.op == "ReadVariableOp" and each.name.startswith("init/"):
                waits[each.name] = [name for name in each.input if name.startswith("^")]
            if each.op in {"QueueEnqueueV2", "QueueDequeueV2"}:
                queue = named[each.input[0].partition(":")[0]].attr["shared_name"].s.decode()
                (put if each.op == "QueueEnqueueV2" else taken).add(queue)
    assert taken
    assert taken == put
    assert {name.removesuffix("/ReadVariableOp"): each for name, each in waits.items()} == {
        **{f"init/z/kernel/shard_{at}": ["^z/kernel/Assign"] for at in range(3)},
        "init/z/bias/shard_0": ["^z/bias/Assign"],
    }
