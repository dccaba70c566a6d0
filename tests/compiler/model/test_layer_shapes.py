"""Shapes that are followed without Keras, held against Keras itself."""

from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import grammar
from compiler.checks import check_spec
from compiler.graph.tower.network.network import make, spread
from compiler.model.shapes import RULES, ShapeError, shape_after
from dsl import ir
from dsl.diagnostics import SpecError
from tests.folders import ROOT

SMALL = st.integers(1, 4)
PADDING = st.sampled_from(["valid", "same"])


def _call(name: str, **kwargs: Any) -> st.SearchStrategy[ir.Call]:
    """Return calls of a layer, each argument drawn from its strategy."""
    return st.fixed_dictionaries(kwargs).map(lambda drawn: ir.Call(name, (), drawn))


def _sizes(rank: int, low: int = 1, high: int = 3) -> st.SearchStrategy[Any]:
    return st.integers(low, high) | st.tuples(*[st.integers(low, high)] * rank)


def _window(name: str, rank: int, size: str, **more: Any) -> st.SearchStrategy[ir.Call]:
    return _call(name, **{size: _sizes(rank)}, strides=_sizes(rank, 1, 2), padding=PADDING, **more)


def _of_rank(rank: int) -> list[st.SearchStrategy[ir.Call]]:
    return [
        _window(f"Conv{rank}D", rank, "kernel_size", filters=SMALL),
        _call(f"Conv{rank}D", filters=SMALL, kernel_size=_sizes(rank), dilation_rate=_sizes(rank, 1, 2)),
        _call(f"Conv{rank}D", filters=st.just(4), kernel_size=st.just(1), groups=st.sampled_from([1, 2, 4])),
        _window(f"Conv{rank}DTranspose", rank, "kernel_size", filters=SMALL),
        _window(f"MaxPooling{rank}D", rank, "pool_size"),
        _call(f"AveragePooling{rank}D", pool_size=_sizes(rank), padding=PADDING),
        _call(f"GlobalMaxPooling{rank}D", keepdims=st.booleans()),
        _call(f"GlobalAveragePooling{rank}D", keepdims=st.booleans()),
        _call(f"SpatialDropout{rank}D", rate=st.just(0.5)),
        _call(f"ZeroPadding{rank}D", padding=_sizes(rank, 0, 2)),
        _call(f"Cropping{rank}D", cropping=st.integers(0, 2)),
        _call(f"UpSampling{rank}D", size=_sizes(rank, 1, 2) if rank > 1 else SMALL),
    ]


RECURRENT = [
    _call(name, units=SMALL, return_sequences=st.booleans()) for name in ("LSTM", "GRU", "SimpleRNN")
]
CALLS = st.one_of(
    *(each for rank in (1, 2, 3) for each in _of_rank(rank)),
    *(
        _window(name, rank, "kernel_size", depth_multiplier=SMALL)
        for rank in (1, 2)
        for name in (f"DepthwiseConv{rank}D",)
    ),
    *(_window(f"SeparableConv{rank}D", rank, "kernel_size", filters=SMALL) for rank in (1, 2)),
    *RECURRENT,
    _call("Bidirectional", layer=st.one_of(RECURRENT), merge_mode=st.sampled_from(["concat", "sum"])),
    _call("Dense", units=SMALL),
    _call("Embedding", input_dim=SMALL, output_dim=SMALL),
    _call("Flatten"),
    _call("Reshape", target_shape=st.lists(st.sampled_from([-1, 1, 2, 3, 4, 6]), max_size=3).map(tuple)),
    _call("Permute", dims=st.integers(0, 3).flatmap(lambda n: st.permutations(range(1, n + 1))).map(tuple)),
    _call("RepeatVector", n=SMALL),
    *(
        _call(name)
        for name in sorted(RULES)
        if RULES[name] is RULES["Identity"] and name not in {"Activation", "ELU", "LeakyReLU"}
    ),
    _call("Activation", activation=st.just("relu")),
    _call("Rescaling", scale=st.just(0.5)),
)
SHAPES = st.lists(st.integers(1, 7), max_size=4).map(tuple)


def by_keras(call: ir.Call, shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the shape that Keras's layer gives in a graph, as `plan` applies it; None where it refuses."""
    specs = [tf.TensorSpec((2, *shape), tf.float32) for shape in shapes]
    try:
        layer = make(call, "layer")
        function = tf.function(lambda *values: layer(*spread(layer, list(values))), autograph=False)
        (output,) = tf.nest.flatten(function.get_concrete_function(*specs).structured_outputs)
    except (SpecError, TypeError, ValueError, IndexError, tf.errors.InvalidArgumentError):
        return None
    return tuple(output.shape[1:])


def compare(call: ir.Call, shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Hold a rule against Keras; return the shape if both have the same."""
    expected = by_keras(call, shapes)
    try:
        found = shape_after(call, shapes)
    except ShapeError:
        assert expected is None, f"{call} takes {shapes} and gives {expected}"
        return None
    if found is not None and expected is not None:
        assert found == expected, f"{call} of {shapes}"
    return expected if found is not None else None


@pytest.mark.filterwarnings(r"ignore:[\s\S]*softmax over axis")  # which is of size 1 in some of these stacks
@pytest.mark.parametrize("count", [50, pytest.param(300, marks=pytest.mark.full)])
def test_stacks_of_layers_have_the_shapes_of_keras(count: int) -> None:
    """What is called wrong is refused by Keras, and what is known is what Keras gives."""
    many = settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))
    many(given(shape=SHAPES, calls=st.lists(CALLS, min_size=1, max_size=3))(compare_stack))()


def compare_stack(shape: tuple[int, ...], calls: list[ir.Call]) -> None:
    """Hold layers against Keras, each on what the one before it gives."""
    keras.utils.set_random_seed(0)
    now: tuple[int, ...] | None = shape
    for call in calls:
        if now is None or max(now, default=1) > 50:
            return
        now = compare(call, [now])


@pytest.mark.full
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shapes=st.integers(0, 3).flatmap(
        lambda rank: st.lists(st.tuples(*[st.integers(1, 3)] * rank), min_size=2, max_size=3)
    )
    | st.lists(SHAPES, min_size=2, max_size=2),
    call=st.sampled_from([*(ir.Call(each, ()) for each in ("Add", "Multiply", "Maximum", "Average"))])
    | _call("Concatenate", axis=st.integers(-2, 3)),
)
def test_merging_layers_have_the_shapes_of_keras(shapes: list[tuple[int, ...]], call: ir.Call) -> None:
    """Tensors that go together in Keras go together here."""
    compare(call, shapes)


KNOWN = {
    "Dense(4)": ((3,), (4,)),
    "Conv2D(8, 3)": ((28, 28, 1), (26, 26, 8)),
    "Conv2D(8, 3, strides = 2, padding = same)": ((29, 28, 1), (15, 14, 8)),
    "MaxPooling2D(2)": ((9, 8, 5), (4, 4, 5)),
    "GlobalAveragePooling2D()": ((9, 8, 5), (5,)),
    "Flatten()": ((9, 8, 5), (360,)),
    "Reshape([2, -1])": ((8,), (2, 4)),
    "Embedding(10, 6)": ((12,), (12, 6)),
    "LSTM(7, return_sequences = true)": ((12, 6), (12, 7)),
    "Bidirectional(GRU(7))": ((12, 6), (14,)),
    "ZeroPadding1D([0, 2])": ((3, 4), (5, 4)),
    "Cropping1D([1, 0])": ((3, 4), (2, 4)),
    "Dense(4) ": ((), None),
    "Conv2D(8, 3) ": ((28, 28), None),
    "Conv2D(8, 5, groups = 2)": ((28, 28, 3), None),
    "MaxPooling2D(8)": ((4, 4, 3), None),
    "LSTM(7)": ((12,), None),
    "Reshape([3, 3])": ((8,), None),
    "RepeatVector(3)": ((2, 2), None),
}


def diagnostics(model: str, tail: str = "") -> list[Any]:
    """Return what `check` finds in a model of these lines."""
    reading = grammar.read("s.tfdeploy", text=f'tfdeploy = 1\nmodel "m" {{\n{model}\n}}\n{tail}')
    assert reading.spec is not None, reading.diagnostics
    return check_spec(reading.spec)


@pytest.mark.parametrize("layer", KNOWN)
def test_a_common_layer_is_known(layer: str) -> None:
    """Rules are not silent on what people write; the message is at the step and has the shape."""
    shape, after = KNOWN[layer]
    found = diagnostics(
        f"  x = input(float32, {list(shape)})\n  y = x -> {layer} -> Reshape([999_983])\n  output = y"
    )
    assert [(each.code, each.is_error) for each in found] == [("TFD506", True)]
    (diagnostic,) = found
    at = layer.strip() if after is None else "Reshape([999_983])"
    assert diagnostic.span.text == at
    assert f"`{list(shape if after is None else after)}`" in diagnostic.text


LOSSES = {
    ("int32", (), (10,), "SparseCategoricalCrossentropy"): None,
    ("int32", (5,), (5, 10), "SparseCategoricalCrossentropy"): None,
    ("int32", (10,), (10,), "SparseCategoricalCrossentropy"): "`CategoricalCrossentropy` takes vectors",
    ("float32", (), (10,), "CategoricalCrossentropy"): "`SparseCategoricalCrossentropy` takes the number",
    ("float32", (10,), (10,), "CategoricalCrossentropy"): None,
    ("float32", (3,), (2,), "MeanSquaredError"): "are to have the same shape",
    ("float32", (1,), (2,), "MeanSquaredError"): None,
    ("float32", (), (1,), "BinaryCrossentropy"): None,
    ("float32", (3,), (2,), "BinaryCrossentropy"): "are to have the same shape",
}


@pytest.mark.parametrize("case", LOSSES, ids=lambda case: f"{case[3]}-{case[1]}-{case[2]}")
def test_labels_fit_their_loss(case: tuple[str, tuple[int, ...], tuple[int, ...], str]) -> None:
    """Only what Keras refuses is reported, at the loss, with both shapes."""
    dtype, target, prediction, loss = case
    found = diagnostics(
        f"  x = input(float32, {list(prediction)})\n  t = input({dtype}, {list(target)})\n"
        f"  y = x -> Identity()\n  loss = [t, y] -> {loss}()"
    )
    keras_loss = getattr(keras.losses, loss)()
    specs = tf.TensorSpec((7, *target), dtype), tf.TensorSpec((7, *prediction), tf.float32)
    try:
        tf.function(keras_loss, autograph=False).get_concrete_function(*specs)
        refused = False
    except (ValueError, tf.errors.InvalidArgumentError):
        refused = True
    reason = LOSSES[case]
    assert refused == (reason is not None)
    assert [each.code for each in found] == ["TFD506"] * refused
    if reason is not None:
        assert reason in found[0].notes[0]
        assert f"`{list(target)}` and `{list(prediction)}`" in found[0].text


def test_unknown_layers_and_blocks_used_twice() -> None:
    """After a layer that is not known nothing is said; a block that is wrong is reported once."""
    assert (
        diagnostics(
            '  x = input(float32, [8])\n  y = x -> EinsumDense("ab,bc->ac", 3) -> LSTM(3)\n  output = y'
        )
        == []
    )
    given = (
        "  x = input(float32, [8])\n  y = x -> Dropout(0.5)(training = true) -> Reshape([7])\n  output = y"
    )
    assert diagnostics(given) == []
    twice = 'layer "b" {\n  t = input()\n  u = t -> LSTM(3)\n  output = u\n}\n'
    found = diagnostics(
        "  x = input(float32, [8])\n  y = x -> b()\n  z = x -> b()\n  w = [y, z] -> Add()\n  output = w",
        twice,
    )
    assert len(found) == 1


@pytest.mark.parametrize("spec", sorted((ROOT / "examples").glob("*.tfdeploy")), ids=lambda path: path.stem)
def test_examples_have_shapes_that_fit(spec: Path) -> None:
    """Nothing is found in specs that train."""
    assert [each for each in check_spec(grammar.load(spec)) if each.is_error] == []


FREE: list[tuple[str, dict[str, Any], list[tuple[int | None, ...]]]] = [
    ("Dense", {"units": 5}, [(None, 4)]),
    ("Embedding", {"input_dim": 9, "output_dim": 3}, [(None,)]),
    ("LSTM", {"units": 3, "return_sequences": True}, [(None, 4)]),
    ("GRU", {"units": 3}, [(None, 4)]),
    ("Conv1D", {"filters": 6, "kernel_size": 3}, [(None, 4)]),
    ("Conv2D", {"filters": 6, "kernel_size": 3, "strides": 2, "padding": "same"}, [(None, 8, 4)]),
    ("Conv1DTranspose", {"filters": 6, "kernel_size": 3}, [(None, 4)]),
    ("DepthwiseConv1D", {"kernel_size": 3}, [(None, 4)]),
    ("MaxPooling1D", {}, [(None, 4)]),
    ("GlobalMaxPooling1D", {}, [(None, 4)]),
    ("ZeroPadding1D", {"padding": 2}, [(None, 4)]),
    ("Cropping1D", {}, [(None, 4)]),
    ("UpSampling1D", {}, [(None, 4)]),
    ("Flatten", {}, [(None, 4)]),
    ("Reshape", {"target_shape": (-1, 2)}, [(None, 4)]),
    ("Permute", {"dims": (2, 1)}, [(None, 4)]),
    ("Add", {}, [(None, 4), (None, 4)]),
    ("Add", {}, [(None, 4), (1, 4)]),
    ("Concatenate", {}, [(None, 4), (None, 3)]),
    ("Concatenate", {"axis": 1}, [(None, 4), (5, 4)]),
]


@pytest.mark.parametrize(("name", "arguments", "shapes"), FREE, ids=str)
def test_shapes_with_axes_of_no_fixed_size_are_those_of_keras(
    name: str, arguments: dict[str, Any], shapes: list[tuple[int | None, ...]]
) -> None:
    """A free axis stays free exactly where Keras says so."""
    found = shape_after(ir.Call(name, (), arguments), shapes)
    whole = [(None, *each) for each in shapes]
    given_shapes = whole if len(whole) > 1 else whole[0]
    layer = getattr(keras.layers, name)(**arguments)
    assert (None, *(found or ())) == tuple(layer.compute_output_shape(given_shapes))
