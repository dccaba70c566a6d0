"""The model of a spec as a flat graph: blocks expanded, repeats unrolled, names from the spec alone."""

from __future__ import annotations

import pytest

import grammar
from compiler.model.elaborate import elaborate, snake_case
from compiler.pipeline import make_plan
from dsl.diagnostics import SpecError
from tests.support import spec_of

BLOCKS = """
tfdeploy = 1

layer "tower" {
  units = parameter(int)
  x = input()
  first = x -> Dense(units, name = "first")
  second = first -> Dense(units * 2)
  output = [second, second] -> Add()
}

model "blocks" {
  x = input(float32, [4])
  y = input(int32, [])
  shared = layer(Dense(3))
  a = x -> repeat(2, tower(8)) -> shared
  b = x -> shared
  loss = [y, a] -> SparseCategoricalCrossentropy(from_logits = true)
  output = b
}
"""


def test_blocks_are_expanded_and_named_by_their_place() -> None:
    """Each use of a block has layers of its own under a scope of its own, with its parameters put in."""
    graph = elaborate(spec_of(BLOCKS))
    assert [(layer.path, layer.call.args) for layer in graph.layers] == [
        ("tower/first", (8,)),
        ("tower/dense", (16,)),
        ("tower/add", ()),
        ("tower_1/first", (8,)),
        ("tower_1/dense", (16,)),
        ("tower_1/add", ()),
        ("shared", (3,)),
    ]


def test_a_shared_layer_is_one_layer_called_twice() -> None:
    """Both uses of a `layer(...)` binding call the same layer."""
    graph = elaborate(spec_of(BLOCKS))
    assert [call.layer for call in graph.calls] == [0, 1, 2, 3, 4, 5, 6, 6]


def test_layers_say_what_they_are() -> None:
    """A free weight is no layer, and what a frozen block uses is frozen with it, however deep."""
    text = BLOCKS.replace("y = input(int32, [])", "y = input(int32, [])\n  scale = weight([4])")
    outer = 'layer "outer" {\n  x = input()\n  output = x -> Dense(4) -> tower(8)\n}\n\nmodel'
    text = text.replace("model", outer, 1).replace("shared = layer(Dense(3))", FROZEN)
    layers = {each.path: each for each in elaborate(spec_of(text)).layers}
    assert {path for path, each in layers.items() if each.kind == "weight"} == {"scale"}
    assert {path for path, each in layers.items() if each.frozen} == {
        "outer/dense",
        "outer/tower/first",
        "outer/tower/dense",
        "outer/tower/add",
    }


FROZEN = """shared = layer(Dense(3))
  cold = x * scale -> outer(trainable = false)"""


def test_files_of_weights_are_no_arguments() -> None:
    """The file of a layer is noted beside it; Keras reads what it has itself."""
    text = BLOCKS.replace("layer(Dense(3))", 'layer(Dense(3, weights = "a.npz"))').replace(
        "loss =", 'c = x -> Reshape([2, 2, 1]) -> applications.MobileNetV2(weights = "imagenet")\n  loss ='
    )
    graph = elaborate(spec_of(text))
    layers = {each.path: each.call.kwargs for each in graph.layers}
    assert layers["shared"] == {}
    assert layers["mobile_net_v2"] == {"weights": "imagenet"}
    assert [(each.pattern, each.file) for each in graph.starts] == [("shared/*", "a.npz")]


def test_a_shared_block_is_made_once() -> None:
    """All uses of a `layer(...)` of a block call the same layers."""
    text = BLOCKS.replace("layer(Dense(3))", "layer(tower(3))").replace(
        "a = x -> repeat(2, tower(8))", "a = x -> Dense(4)"
    )
    graph = elaborate(spec_of(text))
    paths = [graph.layers[call.layer].path for call in graph.calls]
    assert paths == ["dense", *("shared/first", "shared/dense", "shared/add") * 2]


def test_prediction_needs_only_the_inputs_of_the_output() -> None:
    """The label is an input of the model, and not of its prediction."""
    graph = elaborate(spec_of(BLOCKS))
    assert [each.name for each in graph.prediction_inputs] == ["x"]


def test_class_names_become_the_names_that_keras_gives() -> None:
    """Unnamed layers are called as Keras calls them."""
    names = [
        "MaxPooling2D",
        "Conv2D",
        "LSTM",
        "BatchNormalization",
        "Dense",
        "GlobalAveragePooling1D",
        "PReLU",
    ]
    assert [snake_case(each) for each in names] == [
        "max_pooling2d",
        "conv2d",
        "lstm",
        "batch_normalization",
        "dense",
        "global_average_pooling1d",
        "p_re_lu",
    ]


def test_names_match_keras_for_every_layer() -> None:
    """The rule agrees with Keras's own on all of its layers."""
    import keras
    from keras.src.utils.naming import to_snake_case

    classes = [name for name in dir(keras.layers) if isinstance(getattr(keras.layers, name), type)]
    assert [snake_case(each) for each in classes] == [to_snake_case(each) for each in classes]


def test_a_model_without_a_loss_is_refused_before_the_graph() -> None:
    """The message points at the model and shows what a loss looks like."""
    text = "\n".join(line for line in BLOCKS.splitlines() if "loss =" not in line)
    with pytest.raises(SpecError) as caught:
        make_plan(spec_of(text))
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("TFD204", "`model` lacks `loss`")


PARAMETER = """
tfdeploy = 1
layer "narrow" {
  units = parameter(int)
  x = input()
  output = x -> Dense(8 / (units - 2))
}
model "m" {
  x = input(float32, [4])
  y = input(int32, [])
  logits = x -> narrow(2) -> Dense(3)
  loss = [y, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}
"""


def test_arithmetic_without_a_result_points_at_the_expression() -> None:
    """A division by zero that a parameter's value brings about is found where blocks are expanded."""
    with pytest.raises(SpecError) as caught:
        elaborate(spec_of(PARAMETER))
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("TFD306", "this divides by zero")
    assert diagnostic.span is not None
    assert diagnostic.span.text.startswith("8 / (units - 2")


def test_parameters_do_not_go_with_quantities() -> None:
    """A percentage of a parameter is refused when the spec is read."""
    reading = grammar.read("m.tfdeploy", text=PARAMETER.replace("8 / (units - 2)", "4% * units"))
    (diagnostic,) = reading.diagnostics
    assert (diagnostic.code, diagnostic.message) == (
        "TFD306",
        "a layer parameter cannot be combined with a percentage",
    )


def test_the_model_of_a_spec_is_made_once() -> None:
    """Several checks and the plan share one; another spec, though it be equal, has one of its own."""
    first, second = spec_of(BLOCKS), spec_of(BLOCKS)
    assert elaborate(first) is elaborate(first)
    assert elaborate(second) is not elaborate(first)
    assert make_plan(first).model is elaborate(first)
