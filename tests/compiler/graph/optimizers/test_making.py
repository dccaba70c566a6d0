"""The rules that calls of a spec make: learning rates, what is refused, constraints on pieces of a weight."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest
import tensorflow as tf

from compiler.graph.optimizers import make_optimizer
from compiler.graph.optimizers.divisible import _keeps_pieces
from compiler.graph.optimizers.groups import tables_dominate
from compiler.graph.optimizers.making import make_groups
from compiler.graph.tower.template import WeightInfo
from compiler.shards import cut
from dsl import ir
from tests.compiler.graph.optimizers.test_optimizers import SPEC
from tests.support import refusal_of, spec_of

OWN = """
import keras

SCHEDULE = keras.optimizers.schedules.PiecewiseConstantDecay([1, 2], [0.5, 0.25, 0.125])


def plain(rate = 0.75):
    return keras.optimizers.SGD(rate)


def scheduled():
    return keras.optimizers.Adam(SCHEDULE)


def called():
    return keras.optimizers.SGD(lambda: 0.375)


def given(rate):
    return keras.optimizers.SGD(rate)


def clipped(name):
    return keras.optimizers.SGD(0.1, **{name: 1.0})


def averaged():
    return keras.optimizers.SGD(0.1, use_ema=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with functions that make optimizers."""
    made = tmp_path_factory.mktemp("own")
    (made / "making_own.py").write_text(OWN)
    return made


def update_of(text: str) -> ir.Update:
    """Return the block `update` with an optimizer."""
    return spec_of(SPEC, update__optimizer=text).update


def rates(text: str, base: Path) -> list[float]:
    """Return the learning rate at the steps 0 to 3."""
    call = update_of(text).optimizer
    assert call is not None
    rule = make_optimizer(call, str(base))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.placeholder(tf.int64, ())
        rate = rule.scalars(step)["learning_rate"]
        return [float(session.run(rate, {step: each})) for each in range(4)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SGD()", [0.01] * 4),
        ("Adam()", [0.001] * 4),
        ("SGD(0.5)", [0.5] * 4),
        ("SGD(1)", [1.0] * 4),
        ("Adam(learning_rate = 0.25)", [0.25] * 4),
        ("SGD(PiecewiseConstantDecay([1, 2], [0.5, 0.25, 0.125]))", [0.5, 0.5, 0.25, 0.125]),
        ('python("making_own:plain")', [0.75] * 4),
        ('python("making_own:plain", rate = 0.5)', [0.5] * 4),
        ('python("making_own:scheduled")', [0.5, 0.5, 0.25, 0.125]),
        ('python("making_own:called")', [0.375] * 4),
        (
            'python("making_own:given", rate = PiecewiseConstantDecay([0], [1.0, 0.5]))',
            [1.0, 0.5, 0.5, 0.5],
        ),
    ],
)
def test_the_learning_rate_of_each_step(text: str, expected: list[float], folder: Path) -> None:
    """A number, a schedule, or what the user's own optimizer has, which may be a function too."""
    assert rates(text, folder) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('python("making_own:clipped", name = "clipnorm")', "it sets `clipnorm`"),
        ('python("making_own:clipped", name = "clipvalue")', "it sets `clipvalue`"),
        ('python("making_own:clipped", name = "global_clipnorm")', "it sets `global_clipnorm`"),
        ('python("making_own:averaged")', "it sets `use_ema`"),
        (
            'python("making_own:given", rate = Dense(3))',
            "an argument of it may be a schedule, and `Dense` is none",
        ),
    ],
)
def test_what_the_block_update_says_is_not_said_by_an_optimizer(text: str, said: str, folder: Path) -> None:
    """It would be done twice, or for each clone."""
    call = update_of(text).optimizer
    assert call is not None
    found = refusal_of(lambda: make_optimizer(call, str(folder)))
    assert said in f"{found.message} {found.text} {' '.join(found.notes)}"
    assert found.code == "TFD552"


def test_groups_have_their_numbers_and_exceptions(folder: Path) -> None:
    """In the order of the spec, by which a rule finds the numbers of its group."""
    text = """{ "a/*" -> SGD(0.5), "b/*" -> AdamW(0.1, exclude_from_weight_decay = ["*/bias", "b/c"]),
      "c/*" -> python("making_own:plain") }"""
    spec = spec_of(SPEC + f"update {{ optimizer {text} }}\n")
    groups: Any = make_groups(spec.update, str(folder))
    assert [each.optimizer.group for each in groups] == [0, 1, 2]
    assert [each.excluded for each in groups] == [(), ("*/bias", "b/c"), ()]
    assert [each.rule.pattern for each in groups] == ["a/*", "b/*", "c/*"]


@pytest.mark.parametrize(
    ("text", "whole", "rows"),
    [
        ("SGD()", True, True),
        ("Adam()", True, False),
        ("Adam(weight_decay = 0.1)", False, False),
        ("Adagrad()", False, False),
    ],
)
def test_an_update_of_one_op_needs_no_turn(text: str, *, whole: bool, rows: bool) -> None:
    """One op holds the lock of its variable; with more of them, updates that can meet take turns."""
    call = update_of(text).optimizer
    assert call is not None
    rule = make_optimizer(call)
    with tf.Graph().as_default():
        dense = tf.constant([[1.0]])
        gradients = [dense, tf.IndexedSlices(dense, tf.constant([0]))]
        assert [bool(rule.is_one_op(each)) for each in gradients] == [whole, rows]


@pytest.mark.parametrize(
    ("constraint", "axis", "kept"),
    [
        (keras.constraints.NonNeg(), 0, True),
        (keras.constraints.UnitNorm(axis=0), 0, False),
        (keras.constraints.UnitNorm(axis=0), 1, True),
        (keras.constraints.MaxNorm(2.0, axis=-1), 2, False),  # counted from the last axis
        (keras.constraints.MaxNorm(2.0, axis=-1), 0, True),
        (keras.constraints.MinMaxNorm(0.0, 1.0, axis=[0, 1]), 1, False),
        (keras.constraints.MinMaxNorm(0.0, 1.0, axis=(0, 1)), 2, True),
        (keras.constraints.MinMaxNorm(0.0, 1.0, axis=[0, -1]), 2, False),
        (lambda weight: weight, 0, False),  # nobody knows what code of the user's does
    ],
)
def test_a_norm_is_kept_unless_its_axis_is_cut(constraint: Any, axis: int, *, kept: bool) -> None:
    """What looks at single elements is kept however a weight is cut."""
    first = cut("w", (4, 4, 4), 0, 2, axis=axis)[0]
    assert _keeps_pieces(constraint, first) == kept


@pytest.mark.parametrize(
    ("table", "other", "examples", "by_rows", "dominate"),
    [
        (1000, 9, 100, False, True),
        (1000, 10, 100, False, False),  # as much is not more
        (1000, 11, 100, False, False),
        (1000, 9, 100, True, False),  # an update writes the rows of a batch only
        (1000, 0, 100, False, True),
    ],
)
def test_bytes_of_tables_are_compared_with_those_of_towers(
    table: int, other: int, examples: int, *, by_rows: bool, dominate: bool
) -> None:
    """A tower goes through its other weights for every example, and an update once through its table."""
    sizes = {"table": table, "kernel": other}
    weights = {
        name: WeightInfo(name, (size,), "int8", trainable=True, bytes=size, initializer=None)
        for name, size in sizes.items()
    }
    rules: Any = SimpleNamespace(of=lambda name: SimpleNamespace(by_rows=by_rows and name == "table"))
    assert tables_dominate(weights, {"table"}, rules, examples) == dominate
    assert not tables_dominate(weights, set(), rules, examples)
