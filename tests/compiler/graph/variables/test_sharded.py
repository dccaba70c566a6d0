"""Variables in pieces: the arithmetic of whole ones, with only the rows that are needed on their way."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from attrs import evolve

from compiler.graph.inspect.one_step import run_one_step
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.inspect.verify_placement import verify_placement
from compiler.graph.session_options import session_config
from compiler.mapping.records import PlacementMap
from compiler.report.view import Ink
from compiler.report.why import why_text
from compiler.step.read.why import explain_placement
from dsl.diagnostics import SpecError
from tests.graphs import graph_of, map_of
from tests.support import CLASSIFIER, Training, cloned, largest_difference, refusal_of, spec_of

MODEL = """
  word = input(int32, [5])
  label = input(int32, [])
  rows = word -> Embedding(100, 6, name = "table"{table}) -> Flatten()
  logits = rows -> BatchNormalization(name = "norm") -> Dense(3, name = "logits"{dense})
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
"""
TABLE = 'variables("table/*") -> sharded(cpu[1..3])'
ALL = "variables -> sharded(cpu[*])"


def words(
    rules: str = ALL,
    *,
    optimizer: str = "SGD(0.1)",
    clones: int = 2,
    batch: object = 4,
    table: str = "",
    dense: str = "",
    **overrides: str,
) -> Any:
    """Return the spec of a model with a table of 100 rows."""
    if not optimizer.startswith("optimizer {"):
        optimizer = f"optimizer = {optimizer}"
    update, place = f"{optimizer}, batch_norm = mean", f"clones -> cpu[0..1]\n{rules}"
    text = MODEL.format(table=table, dense=dense)
    text = cloned(text, clones, batch=batch, devices=4, place=place, update=update, seed=7)
    return spec_of(text, **overrides)


def examples() -> dict[str, Any]:
    """Return examples with words that come several times, from all pieces."""
    generator = np.random.default_rng(3)
    return {
        "word": generator.integers(0, 100, (8, 5)).astype(np.int32) // 7 * 7,
        "label": generator.integers(0, 3, 8).astype(np.int32),
    }


def trained(spec: Any, base: str = ".") -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all variables of a checkpoint before and after three steps."""
    with Training(spec, examples(), emulate=True, base=base) as training:
        before = training.values()
        training.steps(3)
        return before, training.values()


def differs(spec: Any, whole: Any, base: str = ".") -> float:
    """Return how far the variables of a spec differ after three steps; they must be equal before."""
    before, after = trained(spec, base)
    wanted_before, wanted = trained(whole, base)
    assert before.keys() == wanted_before.keys()
    assert all(np.array_equal(before[name], wanted_before[name]) for name in before)
    return largest_difference(after, wanted)


ONE = "variables -> cpu[0]"
KINDS: dict[str, dict[str, Any]] = {
    "columns": {
        "rules": 'variables("*e*s") -> sharded(cpu[*], axis = 1)',
        "table": ", embeddings_constraint = MaxNorm(0.01, axis = 0)",
    },
    "packed": {"rules": ALL, "update__aggregate": "shuffle", "update__pack": "1KiB"},
    "unequal": {"rules": ALL, "optimizer": "Adam(0.01)", "batch": [5, 3], "update__aggregate": "ring"},
    "tree": {"rules": ALL, "optimizer": "RMSprop(0.01, momentum = 0.9)", "update__aggregate": "tree"},
    "slots elsewhere": {"rules": f"{ALL}\n slots -> cpu[3]", "optimizer": "Adam(0.01)"},
    "averages": {"rules": ALL, "optimizer": "Adam(0.01)", "update__ema": "0.9"},
    "global norm": {"rules": ALL, "update__clip": "global_norm(0.1)"},
    "own norm": {"rules": ALL, "update__clip": "norm(0.05)"},
    "micro-batches": {"rules": ALL, "update__accumulate": "2", "batch": 2},
    "async": {"rules": ALL, "update__mode": "async", "update__batch_norm": "first", "clones": 1, "batch": 8},
    "local": {
        "rules": ALL,
        "update__mode": "local",
        "update__average_every": "1",
        "update__batch_norm": "first",
    },
    "float16": {"rules": ALL, "update__precision": "mixed_float16"},
    "regularized": {
        "rules": ALL,
        "table": ", embeddings_regularizer = L2(0.1), embeddings_constraint = MaxNorm(0.01, axis = 1)",
        "dense": ", kernel_regularizer = L2(0.01), kernel_constraint = NonNeg()",
    },
    "looked at whole": {"rules": ALL, "dense": ", kernel_initializer = Orthogonal()"},
}


@pytest.mark.family(every=14)
@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_trained_as_the_whole_is(kind: str) -> None:
    """First values have the same bits, and three steps of two clones end with the same variables."""
    whole = {**KINDS[kind], "rules": ONE}
    assert differs(words(**KINDS[kind]), words(**whole)) < (2e-2 if kind == "float16" else 1e-5)


@pytest.mark.family(every=5)
@pytest.mark.parametrize(
    "optimizer",
    [
        "Momentum(0.1)",
        "Adam(0.01, lazy = true)",
        "RMSprop(0.01, centered = true)",
        "Nadam(0.01)",
        "Ftrl(0.1)",
        "Adadelta(0.5)",
        "Adamax(0.01)",
        "Lion(0.001)",
        "Adam(0.01, amsgrad = true)",
        'optimizer { "table/*" -> Adamax(0.01), "*" -> Lion(0.001) }',
    ],
)
def test_every_optimizer_updates_pieces_as_the_whole(optimizer: str) -> None:
    """Sparse and dense gradients, slots of every shape, weight decay included."""
    assert differs(words(optimizer=optimizer), words(ONE, optimizer=optimizer)) < 1e-5


OWN = """
import keras

class Table(keras.layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(100, 6), name="table")

class Tied(Table):
    def call(self, words):
        rows = keras.ops.take(self.table, words, axis=0)
        return keras.ops.matmul(keras.ops.mean(rows, axis=1), keras.ops.transpose(self.table))

class Twice(Table):
    def call(self, words):
        first, second = words, words // 2
        return keras.ops.take(self.table, first, axis=0) - 2 * keras.ops.take(self.table, second, axis=0)
"""


@pytest.mark.parametrize("kind", ["Tied", "Twice"])
def test_a_table_with_several_uses_gets_the_gradients_of_all(kind: str, tmp_path: Path) -> None:
    """Rows for a look-up and all pieces for a product, as in tied weights, or rows of two look-ups."""
    (tmp_path / "own.py").write_text(OWN)
    optimizer = "optimizer = Adam(0.01)" if kind == "Tied" else "optimizer = SGD(0.1)"
    update, place = f"{optimizer}, batch_norm = mean", f"clones -> cpu[0..1]\n{TABLE}"
    text = cloned(MODEL.format(table="", dense=""), devices=4, place=place, update=update, seed=7)
    text = text.replace('Embedding(100, 6, name = "table")', f'python("own:{kind}", name = "table")')
    if kind == "Tied":
        begin, end = text.index("  rows ="), text.index("  loss =")
        text = f'{text[:begin]}  logits = word -> python("own:Tied", name = "table")\n{text[end:]}'
    assert differs(spec_of(text), spec_of(text.replace(TABLE, ONE)), str(tmp_path)) < 1e-5


@pytest.fixture(scope="module")
def table() -> Iterator[Any]:
    """Return the graph of a model whose table is in three pieces, which are not on the clones' device."""
    return graph_of(words(TABLE, clones=1, batch=8), emulate=True)


def test_each_piece_is_asked_once_for_the_rows_that_it_has(table: Any) -> None:
    """Only distinct rows are sent: what goes between the tower and each piece is counted in a step."""
    gathers = [f"table/GatherV2/rows/shard_{number}" for number in range(3)]
    ops = {each.name: each for each in map_placement(table).ops}
    assert [ops[each].requested for each in gathers] == ["cpu[1]", "cpu[2]", "cpu[3]"]
    assert "table/embeddings/read" not in ops
    given = examples()["word"]

    with tf.compat.v1.Session(graph=table.graph, config=session_config(table.plan)) as session:
        session.run(table.init_op)
        session.run(table.train_input.attach(lambda: tf.data.Dataset.from_tensors(examples()).repeat()))
        wanted = [table.graph.get_tensor_by_name(f"{each}:0") for each in gathers]
        asked = [each.op.inputs[1] for each in wanted]
        rows, ids = session.run([wanted, asked])
    pieces = [each.info.shard for each in table.variables.values() if each.weight == "table/embeddings"]
    for shard, sent, local in zip(pieces, rows, ids, strict=True):
        own = np.unique(given[(given >= shard.start) & (given < shard.stop)])
        assert sorted(local + shard.start) == list(own)
        assert sent.shape == (len(own), 6)


def test_a_number_that_no_row_has_is_refused(table: Any) -> None:
    """It is not taken for a row of another piece."""
    for wrong in (-101, 100):
        given = {**examples(), "word": np.full((8, 5), wrong, np.int32)}
        with tf.compat.v1.Session(graph=table.graph, config=session_config(table.plan)) as session:
            session.run(table.init_op)
            session.run(table.train_input.attach(lambda: tf.data.Dataset.from_tensors(given)))  # noqa: B023
            with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
                session.run(table.train_op)


def test_the_map_has_every_piece_where_its_rule_put_it(table: Any) -> None:
    """A row for each piece with its part of the whole, and the pieces of one variable are all of it."""
    found = map_placement(table, run_one_step(table))
    assert found.misplaced == ()
    pieces = [each for each in found.variables if each.shard is not None]
    assert [(each.name, each.device, each.shape) for each in pieces] == [
        ("table/embeddings/shard_0", "cpu[1]", (34, 6)),
        ("table/embeddings/shard_1", "cpu[2]", (33, 6)),
        ("table/embeddings/shard_2", "cpu[3]", (33, 6)),
    ]
    assert [each.shard.start for each in pieces if each.shard] == [0, 34, 67]
    assert {each.shard.whole for each in pieces if each.shard} == {(100, 6)}
    assert {each.rule.text for each in pieces} == {TABLE}
    held = {each.ref: each.variable_bytes for each in found.devices}
    assert [held[f"cpu[{at}]"] for at in (1, 2, 3)] == [34 * 24, 33 * 24, 33 * 24]


@pytest.mark.parametrize("gone", ["table/embeddings/shard_1", "table/embeddings/shard_2"])
def test_a_missing_piece_is_found(table: Any, gone: str) -> None:
    """The variables of a weight must be all of it, or the build fails."""
    verify_placement(table)
    left = {name: each for name, each in table.variables.items() if name != gone}
    found = refusal_of(lambda: verify_placement(evolve(table, variables=left)))
    assert "`table/embeddings`" in found.message
    assert "2 variables are not the whole weight" in found.message


def test_why_names_the_pieces_of_a_variable(table: Any) -> None:
    """The name of the whole means all pieces; that of a piece tells its rows."""
    ink = Ink(color=False)
    text = why_text(explain_placement(table.step, "table/embeddings"), ink)
    assert "cpu[2]  table/embeddings/shard_1 piece 1 of 3: rows 34..66" in text
    (one,) = explain_placement(table.step, "table/embeddings/shard_2")
    assert "piece 2 of 3: rows 67..99 of table/embeddings" in why_text([one], ink)


def test_small_variables_have_fewer_pieces_and_the_map_says_why() -> None:
    """Three rows make three pieces; a variable below the least size stays whole. So do slots."""
    few = "variables -> sharded(cpu[*], min_size = 100B)"
    compiled = graph_of(words(few, optimizer="Momentum(0.1)"), emulate=True)
    found = {each.name: each for each in map_placement(compiled).variables}
    assert found["logits/bias"].fewer == "1 piece for 4 devices, because a piece has at least 100 B"
    assert (
        found["logits/kernel/shard_2"].fewer == "3 pieces for 4 devices, because a piece has at least 100 B"
    )
    assert found["table/embeddings/shard_3"].fewer is None
    assert [each.shard for each in found["logits/bias"].slots] == [None]
    cut = [each for each in found.values() if each.shard is not None and each.trainable]
    assert len(cut) >= 3 + 4
    for each in cut:
        (slot,) = each.slots
        assert (slot.device, slot.bytes) == (each.device, each.bytes)
        assert slot.shard == evolve(each.shard, of=f"{each.shard.of}/Momentum", made_whole=False)
    whole = graph_of(words(ALL), emulate=True)
    bias = [each for each in map_placement(whole).variables if each.name.startswith("logits/bias")]
    assert [each.fewer for each in bias] == ["3 pieces for 4 devices, because it has 3 rows"] * 3
    assert len({each.device for each in bias}) == 3


@pytest.mark.parametrize(
    ("code", "said", "arguments"),
    [
        (
            "TFD547",
            "`norm/gamma` has no axis 1",
            {"rules": 'variables("norm/*") -> sharded(cpu[*], axis = 1)'},
        ),
        (
            "TFD548",
            "`Muon`",
            {"optimizer": "Muon(0.01)", "rules": 'variables("logits/kernel") -> sharded(cpu[*])'},
        ),
        (
            "TFD548",
            "`Adafactor`",
            {
                "optimizer": "SGD(0.1)",
                "update__freeze": '["logits/bias"]',
                "update__optimizer": "Adafactor(0.01)",
            },
        ),
        ("TFD548", "`UnitNorm`", {"dense": ", kernel_constraint = UnitNorm(axis = 0)"}),
        ("TFD548", "`MinMaxNorm`", {"dense": ", kernel_constraint = MinMaxNorm(0.0, 1.0, axis = [-2, 1])"}),
        ("TFD548", "`OrthogonalRegularizer`", {"dense": ", kernel_regularizer = OrthogonalRegularizer()"}),
    ],
)
def test_what_cannot_be_cut_is_refused(code: str, said: str, arguments: dict[str, str]) -> None:
    """An axis that is not there, and what needs the whole, at the place that asks for it."""
    with pytest.raises(SpecError) as error:
        graph_of(words(**arguments), emulate=True)  # type: ignore[arg-type]
    first = error.value.diagnostics[0]
    assert first.code == code
    assert said in first.message
    assert first.span is not None


LAYERS = '-> Flatten() -> Dense(400, activation = relu, name = "wide")'


def beside_clones(batches: list[int], rule: str = ALL, **overrides: str) -> PlacementMap:
    """Return the map of a classifier with a clone for each batch, on a device of its own."""
    text = CLASSIFIER.format(clones=len(batches), batch=batches, optimizer="Adam(0.01)", layers=LAYERS)
    return map_of(spec_of(f"{text}place {{ {rule} }}\n", **overrides))


@pytest.mark.family(every=2)
@pytest.mark.parametrize("clones", [2, 4])
def test_each_clone_has_its_part_of_the_slots(clones: int) -> None:
    """The parts are all slots, and none is more than 1 % from an equal share where the rows divide.

    This is the sharding of the weight update of Xu et al. (2020), "Automatic Cross-Replica Sharding of Weight
    Update in Data-Parallel Training".
    """
    made, whole = beside_clones([4] * clones), beside_clones([16], ONE)
    held = [each.slot_bytes for each in made.devices]
    total = sum(each.slot_bytes for each in whole.devices)
    assert len(held) == clones
    assert sum(held) == total
    assert all(abs(each - total / clones) <= 0.01 * total / clones for each in held)
    slots = {slot.name: slot.bytes for variable in whole.variables for slot in variable.slots}
    ends: dict[str, int] = {}
    for each in (slot for variable in made.variables for slot in variable.slots):
        if cut := each.shard:
            before = slots[cut.of] * cut.start // cut.whole[cut.axis]
            assert before == ends.get(cut.of, 0)  # where the part before it ends
            ends[cut.of] = before + each.bytes
    assert {name: slots[name] for name in ends} == ends
    assert ends.keys() == {name for name in slots if name.endswith(("/Adam", "/Adam_1"))}


def test_a_clone_is_sent_the_gradients_of_its_part_and_the_weights_of_the_others() -> None:
    """From clone 1 to clone 2 go the gradient of the part of 2, and the weights of the part of 1.

    So as much is sent as in the two rounds of a ring of copies.
    """
    made = beside_clones([5, 4, 7])
    part = {each.ref: each.variable_bytes for each in made.devices}
    (sent,) = [each for each in made.transfers if (each.from_device, each.to_device) == ("cpu[1]", "cpu[2]")]
    assert sent.bytes == part["cpu[1]"] + part["cpu[2]"]
    copies = beside_clones([5, 4, 7], "variables -> replicated", update__aggregate="ring")
    assert sum(each.bytes for each in made.transfers) == sum(each.bytes for each in copies.transfers)
