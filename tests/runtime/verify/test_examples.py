"""The examples that graphs are compared on."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from compiler.model.elaborate import elaborate
from compiler.model.graph import LayerNode, ModelGraph
from dsl import ir
from dsl.diagnostics import SpecError
from tests.support import spec_of
from tfdeploy.runtime.verify.examples import (
    LONGEST,
    count_classes,
    make_examples,
    read_examples,
    without_randomness,
)

SPEC = """
tfdeploy = 1

model "m" {
  image = input(float32, [4, 4, 1])
  z = image -> Flatten() -> Dense(2)
  loss = [z, z] -> MeanSquaredError()
}
data {
  train = synthetic(3, image = feature(float32, [4, 4, 1])) -> cutout(image, 2)
}
"""


def test_examples_are_those_of_training() -> None:
    """What training changes at random is changed, and small data comes round again."""
    spec = spec_of(SPEC)
    images = read_examples(spec, elaborate(spec), 8, 3)["image"]
    assert images.shape == (8, 4, 4, 1)
    assert all(1 <= (image == 0).sum() <= 4 for image in images)


def test_examples_of_the_data_need_data() -> None:
    """Without a split for training there are none, and the message says what can be done."""
    spec = spec_of(SPEC.partition("data {")[0])
    with pytest.raises(SpecError, match=r"`data\.train` \(or `--synthetic`\)"):
        read_examples(spec, elaborate(spec), 8, 3)


def node(name: str, dtype: str, shape: tuple[int | None, ...], value: int, **more: Any) -> Any:
    """Return an input of a model; axes without a fixed size are assumed to be of twenty."""
    free = tuple(SimpleNamespace(axis=at) for at, size in enumerate(shape) if size is None)
    assumed = tuple(20 if size is None else size for size in shape)
    record = {"dtype": dtype, "shape": shape, "assumed_shape": assumed, "value": value, "free": free}
    return SimpleNamespace(name=name, **record, **{"padding": 0, **more})


def objective(name: str, target: int, weights: int | None = None) -> Any:
    """Return a loss with a target and perhaps weights of the examples."""
    return SimpleNamespace(
        call=ir.Call(name), target=target, example_weights=weights, prediction=100 + target
    )


def model_of(*inputs: Any, losses: tuple[Any, ...] = (), metrics: tuple[Any, ...] = ()) -> Any:
    """Return what is looked at of a model."""
    return SimpleNamespace(inputs=inputs, losses=losses, metrics=metrics, layers=(), calls=())


def test_made_up_examples_are_what_inputs_take() -> None:
    """Whole numbers below the classes, one-hot rows, truths of zero and one, and positive weights."""
    model = model_of(
        node("digit", "int64", (), 0),
        node("other", "uint8", (3,), 1),
        node("flag", "bool", (3,), 2),
        node("single", "float32", (5,), 3),
        node("truth", "float64", (2,), 4),
        node("weight", "float32", (), 5),
        node("score", "float32", (), 6),
        node("plain", "float16", (40,), 7),
        losses=(
            objective("SparseCategoricalCrossentropy", 0, 5),
            objective("CategoricalCrossentropy", 3),
            objective("BinaryCrossentropy", 4),
        ),
        metrics=(objective("MeanSquaredError", 7, 6),),
    )
    found = make_examples(model, {"digit": 4}, 200, 3)
    assert {name: (str(each.dtype), each.shape) for name, each in found.items()} == {
        "digit": ("int64", (200,)),
        "other": ("uint8", (200, 3)),
        "flag": ("bool", (200, 3)),
        "single": ("float32", (200, 5)),
        "truth": ("float64", (200, 2)),
        "weight": ("float32", (200,)),
        "score": ("float32", (200,)),
        "plain": ("float16", (200, 40)),
    }
    assert set(found["digit"]) == {0, 1, 2, 3}
    assert set(found["other"].ravel()) == {0, 1}
    assert set(found["flag"].ravel()) == {False, True}
    assert (found["single"].sum(axis=1) == 1).all()
    assert {int(each) for each in found["single"].argmax(axis=1)} == {0, 1, 2, 3, 4}
    assert set(found["truth"].ravel()) == {0.0, 1.0}
    assert found["weight"].min() >= 0
    assert found["score"].min() >= 0
    assert abs(float(found["plain"].mean())) < 0.1
    assert float(found["plain"].std()) == pytest.approx(1, abs=0.1)
    again, other = (make_examples(model, {"digit": 4}, 200, seed) for seed in (3, 4))
    assert all((found[name] == again[name]).all() for name in found)
    assert (found["plain"] != other["plain"]).any()


def test_made_up_examples_have_lengths() -> None:
    """Tensors of one example have the same length, are filled up behind it, and none is very long."""
    model = model_of(
        node("words", "int32", (None, 2), 0, padding=-1),
        node("tags", "int32", (None,), 1, padding=9),
        node("wide", "float32", (3, None), 2, padding=5.0),
    )
    found = make_examples(model, {"words": 7}, 300, 1)
    assert [found[name].shape for name in ("words", "tags", "wide")] == [
        (300, LONGEST, 2),
        (300, LONGEST),
        (300, 3, LONGEST),
    ]
    lengths = (found["words"][..., 0] >= 0).sum(axis=1)
    assert set(lengths.tolist()) == set(range(1, LONGEST + 1))
    assert (lengths == (found["tags"] != 9).sum(axis=1)).all()
    assert (found["words"][..., 0] >= 0).all(axis=0)[0]
    assert (np.sort(found["words"][..., 1] < 0, axis=1) == (found["words"][..., 1] < 0)).all()
    assert not (found["wide"] == 5.0).any()  # of which only a later axis has no fixed size


def test_numbers_of_classes_follow_from_tables_and_losses() -> None:
    """The shortest table counts, or what a loss compares a class with; of others nothing is known."""
    layers = tuple(
        SimpleNamespace(call=call)
        for call in (
            ir.Call("Embedding", (7, 4)),
            ir.Call("Embedding", (), {"input_dim": 6, "output_dim": 4}),
            ir.Call("Dense", (3,)),
        )
    )
    calls = tuple(SimpleNamespace(layer=layer, inputs=(value,)) for layer, value in ((0, 0), (1, 0), (2, 1)))
    model: Any = SimpleNamespace(
        inputs=tuple(
            node(name, "int32", (), at) for at, name in enumerate(("word", "plain", "digit", "one"))
        ),
        layers=layers,
        calls=calls,
        losses=(
            objective("SparseCategoricalCrossentropy", 2),
            objective("MeanSquaredError", 3),
            objective("SparseCategoricalCrossentropy", 1),
        ),
    )
    assert count_classes(model, {102: 10, 103: 8}) == {"word": 6, "digit": 10}


def test_whole_numbers_that_choose_from_a_weight_are_places_of_it() -> None:
    """Whether by an index or by a function, and with another use of the same numbers beside it."""
    text = """
tfdeploy = 1
model "m" {
  ids = input(int32, [4])
  words = input(int32, [4])
  y = input(float32, [4, 3])
  table = weight([9, 3])
  long = weight([20, 11])
  z = table[ids] + ops.cast(ids, float32)[:, :, none] + ops.take(long, words, axis = 0)[..., :3]
  loss = [y, z] -> MeanSquaredError()
}
"""
    assert count_classes(elaborate(spec_of(text)), {}) == {"ids": 3, "words": 11}


FLIP = ir.Call("RandomFlip", ("horizontal",))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (ir.Call("Dense", (3,), {"activation": "relu"}), ir.Call("Dense", (3,), {"activation": "relu"})),
        (
            ir.Call("RandomCrop", (8, 9), {"seed": 3, "data_format": "channels_last"}),
            ir.Call("CenterCrop", (8, 9), {"data_format": "channels_last"}),
        ),
        (FLIP, ir.Call("Identity")),
        (ir.Call("RandAugment", ((0, 1),)), ir.Call("Identity")),
        (
            ir.Call("Conv2D", (4, 3), {"kernel_initializer": ir.Call("RandomNormal", (0.5,))}),
            ir.Call("Conv2D", (4, 3), {"kernel_initializer": ir.Call("RandomNormal", (0.5,))}),
        ),
        (
            ir.Call("Wrapped", (FLIP,), {"by": (FLIP, FLIP)}),
            ir.Call("Wrapped", (ir.Call("Identity"),), {"by": (ir.Call("Identity"),) * 2}),
        ),
    ],
    ids=lambda call: call.name,
)
def test_layers_draw_no_numbers(call: ir.Call, expected: ir.Call) -> None:
    """Random images stay as they are, crops are in the middle, and all else is as it was."""
    nodes = LayerNode("one", "layer", call), LayerNode("two", "operation", call)
    model = ModelGraph("small", (), nodes, (), (), (), ())
    layer, operation = without_randomness(model).layers
    assert layer.call == expected
    assert operation.call == call
