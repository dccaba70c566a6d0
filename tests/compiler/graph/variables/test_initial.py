"""First values: of whole variables and of pieces, and the nodes that graphs of one plan share for them."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.build import compile_graph
from compiler.graph.tower.template import WeightInfo
from compiler.graph.tower.traces import Traces
from compiler.graph.variables.initial import FirstValue
from compiler.pipeline import make_plan
from compiler.shards import cut
from dsl import ir
from tests.models import regression

COUNTS = (1, 2, 3, 5, 7, 8, 16)
SHAPES = [((37, 5), 0), ((50, 37), 1), ((33,), 0), ((4, 5, 19), 1), ((3000, 70), 1)]
"""Shapes with the axis of the cut: pieces that begin within a group of random numbers, and in blocks."""

WHOLLY = ("uniform", "truncated")
"""The initializers for which all of these are tried; others have the same way through."""

FOLLOWED: dict[str, Any] = {
    "glorot_uniform": keras.initializers.GlorotUniform(seed=2),
    "uniform": keras.initializers.RandomUniform(seed=1),
    "he_uniform": keras.initializers.HeUniform(seed=2),
    "truncated": keras.initializers.TruncatedNormal(stddev=2.0, seed=5),
    "normal": keras.initializers.RandomNormal(mean=1.0, seed=3),
    "he_normal": keras.initializers.HeNormal(seed=4),
    "zeros": keras.initializers.Zeros(),
    "constant": keras.initializers.Constant(0.25),
    "own": lambda shape, dtype: 2.0 * keras.initializers.RandomUniform(seed=6)(shape, dtype) + [0.5],
}
MADE_WHOLE: dict[str, Any] = {
    "orthogonal": keras.initializers.Orthogonal(seed=7),
    "identity": keras.initializers.Identity(),
    "sorted": lambda shape, dtype: tf.sort(keras.initializers.RandomUniform(seed=8)(shape, dtype), axis=0),
}


def first_values(info: WeightInfo, axis: int, counts: tuple[int, ...]) -> tuple[Any, list[Any], list[bool]]:
    """Return the value of the whole, that of its pieces joined for each count, and whether it was cut."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        whole = tf.cast(info.initializer(info.shape, dtype=info.dtype), info.dtype)
        joined, cuts = [], []
        for count in counts:
            shards = cut("w", info.shape, 0, count, axis=axis)
            first = FirstValue(info, shards)
            pieces = [first.piece(each.number) for each in shards]
            for shard, piece in zip(shards, pieces, strict=True):
                assert tuple(piece.shape.as_list()) == shard.shape
            joined.append(tf.concat(pieces, axis) if pieces else whole)
            cuts.append(first.made_whole)
        value, found = session.run([whole, joined])
        return value, found, cuts


@pytest.mark.family(every=2)
@pytest.mark.parametrize("name", FOLLOWED)
def test_pieces_are_drawn_where_they_are_in_the_whole(name: str) -> None:
    """All counts and shapes, whatever the rows are divided into; the whole is never made."""
    for shape, axis in SHAPES if name in WHOLLY else SHAPES[:2]:
        info = WeightInfo("w", shape, "float32", trainable=True, bytes=0, initializer=FOLLOWED[name])
        counts = COUNTS if name in WHOLLY else COUNTS[3:4]
        whole, found, cuts = first_values(info, axis, counts)
        assert cuts == [False] * len(counts)
        for count, value in zip(counts, found, strict=True):
            assert np.array_equal(value, whole), (name, shape, count)


@pytest.mark.parametrize("name", MADE_WHOLE)
def test_what_looks_at_the_whole_is_made_whole_and_cut(name: str) -> None:
    """Initializers whose elements depend on each other give the same values, and the record says so."""
    info = WeightInfo("w", (37, 8), "float32", trainable=True, bytes=0, initializer=MADE_WHOLE[name])
    whole, found, cuts = first_values(info, 0, (3, 8))
    assert cuts == [True, True]
    assert all(np.array_equal(value, whole) for value in found)


@pytest.mark.family(every=3)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_types_have_the_values_of_the_whole_too(dtype: str) -> None:
    """Numbers of two bytes come in groups of four; those of eight bytes do not, and are made whole."""
    for initializer in (FOLLOWED["uniform"], FOLLOWED["normal"], FOLLOWED["truncated"]):
        info = WeightInfo("w", (37, 5), dtype, trainable=True, bytes=0, initializer=initializer)
        whole, found, cuts = first_values(info, 0, (3, 7))
        assert cuts == [dtype == "float64"] * 2
        assert all(np.array_equal(value, whole) for value in found)


def test_draws_with_a_state_are_made_once() -> None:
    """If every call of an initializer draws other numbers, all pieces are of one call."""
    info = WeightInfo(
        "w",
        (10, 3),
        "float32",
        trainable=True,
        bytes=0,
        initializer=lambda shape, dtype: tf.random.uniform(shape, dtype=dtype),
    )
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        first = FirstValue(info, cut("w", (10, 3), 0, 3))
        pieces = [first.piece(number) for number in range(3)]
        draws = [op for op in graph.get_operations() if op.type == "RandomUniform"]
        assert len(draws) == 1
        whole, found = session.run([draws[0].outputs[0], pieces])
        assert np.array_equal(np.concatenate(found), whole)


@pytest.mark.parametrize(("shape", "axis"), [((7, 3), 0), ((3, 7), 1), ((2, 7, 3), 1)])
def test_numbers_that_are_written_down_are_cut(shape: tuple[int, ...], axis: int) -> None:
    """Each piece has its own of them in the graph; what all rows have in common is there as it is."""

    def initializer(shape: Any, dtype: Any) -> Any:
        numbers = np.arange(np.prod(shape)).reshape(shape)
        return tf.constant(numbers, dtype) + tf.constant(np.arange(shape[-1]) / 8, dtype)

    info = WeightInfo("w", shape, "float32", trainable=True, bytes=0, initializer=initializer)
    whole, found, cuts = first_values(info, axis, (2, 3))
    assert cuts == [False, False]
    assert all(np.array_equal(value, whole) for value in found)


OWN = """
import numpy as np
import tensorflow as tf

CALLS = []

def drawn(shape, dtype):
    CALLS.append("drawn")
    return tf.random.normal(shape, dtype=dtype)

def counted(shape, dtype):
    CALLS.append("counted")
    return tf.reshape(tf.range(shape[0] * shape[1], dtype=dtype), shape)

def large(shape, dtype):
    CALLS.append("large")
    return tf.constant(np.ones(shape), dtype)
"""


def spec_with(initializer: str, inputs: int) -> ir.Spec:
    """Return the spec of two layers whose kernels begin with what a function of the user's makes."""
    begun = f'kernel_initializer = python("own_values:{initializer}")'
    one, two = (f'-> Dense({inputs}, {begun}, name = "{name}")' for name in ("one", "two"))
    return regression(f"{one} {two}", inputs, inputs)


def shared_values(compiled: Any) -> list[Any]:
    """Return the first values of both kernels."""
    with tf.compat.v1.Session(graph=compiled.graph) as session:
        session.run(compiled.init_op)
        return [np.array(session.run(compiled.variables[f"{each}/kernel"].kept)) for each in ("one", "two")]


@pytest.mark.parametrize(
    ("initializer", "inputs", "calls"), [("counted", 3, 0), ("drawn", 3, 2), ("large", 600, 2)]
)
def test_a_second_graph_of_a_plan_has_the_nodes_of_the_first(
    tmp_path: Path, initializer: str, inputs: int, calls: int
) -> None:
    """But for random numbers with a state, which are others for each weight, and for many numbers."""
    (tmp_path / "own_values.py").write_text(OWN)
    plan, traces = make_plan(spec_with(initializer, inputs)), Traces(str(tmp_path))
    first = compile_graph(plan, base=str(tmp_path), traces=traces)
    info = first.variables["one/kernel"].info
    made: list[str] = info.initializer.__wrapped__.__globals__["CALLS"]
    before = len(made)
    second = compile_graph(plan, base=str(tmp_path), traces=traces)
    assert len(made) - before == calls
    one, two = shared_values(first)
    assert [each.tolist() for each in shared_values(second)] == [one.tolist(), two.tolist()]
    assert (initializer == "drawn") == (one.tolist() != two.tolist())
