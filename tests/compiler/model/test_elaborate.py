"""The model of a spec as a flat graph: blocks expanded, repeats unrolled, names from the spec alone."""

from __future__ import annotations

import pytest

import grammar
from compiler.model.elaborate import elaborate, snake_case
from compiler.model.graph import IndexSlice, TensorAt
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


@pytest.mark.parametrize(("z", "source"), [("x * scale", "x"), ("scale", "y")])
def test_a_free_weight_has_the_batch_of_an_input_that_the_output_needs(z: str, source: str) -> None:
    """The other inputs are not there when the model predicts; if the output needs none, it is the first."""
    text = f"""
tfdeploy = 1
model "m" {{
  y = input(float32, [4])
  x = input(float32, [4])
  scale = weight([4])
  z = {z}
  loss = [y, z] -> MeanSquaredError()
}}
"""
    graph = elaborate(spec_of(text))
    names = {each.value: each.name for each in graph.inputs}
    (call,) = (each for each in graph.calls if graph.layers[each.layer].kind == "weight")
    assert ([names[each] for each in call.inputs], call.sources) == ([source], 1)


INDEXED = """
tfdeploy = 1
layer "first" {
  t = input()
  output = 2 * t[0]
}
model "m" {
  x = input(float32, [4])
  ids = input(int32, [2])
  y = input(float32, [4])
  w = weight([3, 4])
  d = w[ids]
  z = x + FOUND
  loss = [y, z] -> MeanSquaredError()
}
"""


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ("(w -> first())", None),
        ("w[0]", None),
        ("(w[ids])[:, 0]", None),
        ("(ops.transpose(w))[:, 0]", None),
        ("(x -> first())", "TFD561"),
        ("d[0]", "TFD561"),
        ("w[ids, 0]", "TFD553"),
        ("x[:, ids]", "TFD553"),
    ],
)
def test_an_index_chooses_from_weights_and_not_among_examples(found: str, code: str | None) -> None:
    """Whether a tensor has examples is known in the flat model: a block can get either."""
    text = INDEXED.replace("FOUND", found)
    if code is None:
        graph = elaborate(spec_of(text))
        assert graph.of_weights
        return
    with pytest.raises(SpecError) as caught:
        elaborate(spec_of(text))
    assert [each.code for each in caught.value.diagnostics] == [code]


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


CALLS = """
tfdeploy = 1

layer "pair" {
  x = input()
  output = [x -> Dense(2), x -> Dense(3)]
}

layer "last" {
  x = input()
  output = x -> Dense(2) -> Dense(3)
}

model "calls" {
  x = input(float32, [4])
  z = input(float32, [4])
  y = input(float32, [3])
  a, b = x -> pair()
  c = z -> last(trainable = false) -> last()
  part = c[..., 0:2]
  joined = ops.concatenate([a, part, b], axis = 1)
  loss = ([y, b] -> MeanSquaredError()) + 0.4 * ([y, c] -> MeanSquaredError())
  output = joined
}
"""


def test_a_block_can_give_several_tensors() -> None:
    """What is bound to several names has a value for each, in their order."""
    graph = elaborate(spec_of(CALLS))
    made = {call.values[0]: graph.layers[call.layer].path for call in graph.calls}
    (first, second) = graph.losses
    assert (made[first.prediction], made[second.prediction]) == ("pair/dense_1", "last_1/dense_1")
    assert [each.name for each in graph.inputs if each.value in (first.target, second.target)] == ["y"]
    assert [each.name for each in graph.prediction_inputs] == ["x", "z"]


def test_the_span_of_what_is_frozen_is_where_it_is_written() -> None:
    """Layers of a frozen block have that of the block, and others none."""
    layers = elaborate(spec_of(CALLS)).layers
    assert [each.path for each in layers if each.frozen] == ["last/dense", "last/dense_1"]
    assert {each.frozen_at.text for each in layers if each.frozen_at is not None} == {"false"}
    assert [each.path for each in layers if each.frozen_at is not None] == ["last/dense", "last/dense_1"]


def test_arguments_of_operations_have_their_tensors_by_number() -> None:
    """Tensors in lists count on, and all else stays as it is written."""
    graph = elaborate(spec_of(CALLS))
    of = {graph.layers[call.layer].path: call for call in graph.calls}
    joined, cut = of["concatenate"], of["getitem"]
    assert joined.args == ((TensorAt(0), TensorAt(1), TensorAt(2)),)
    assert joined.kwargs == {"axis": 1}
    made = [of[path].values[0] for path in ("pair/dense", "getitem", "pair/dense_1")]
    assert list(joined.inputs) == made
    assert joined.sources == cut.sources == 0
    assert cut.args[0] == TensorAt(0)
    assert cut.args[1] == (..., IndexSlice(0, 2, None))


def test_losses_of_one_class_have_numbers() -> None:
    """The first has none, as layers have."""
    graph = elaborate(spec_of(CALLS))
    assert [(each.name, each.weight) for each in graph.losses] == [
        ("mean_squared_error", 1.0),
        ("mean_squared_error_1", 0.4),
    ]


def test_names_of_layers_and_inputs_are_all_different() -> None:
    """A name that is given twice gets a number, and so does one that an input or another layer has."""
    text = """
tfdeploy = 1
layer "part" {
  x = input()
  output = x -> Dense(2) -> Dense(2)
}
model "names" {
  dense = input(float32, [4])
  y = input(float32, [2])
  a = dense -> Dense(2) -> part() -> part() -> Dense(2, name = "part") -> Dense(2, name = "dense_1")
  loss = [y, a] -> MeanSquaredError()
}
"""
    assert [each.path for each in elaborate(spec_of(text)).layers] == [
        "dense_1",
        *("part/dense", "part/dense_1", "part_1/dense", "part_1/dense_1"),
        "part_2",
        "dense_1_1",
    ]


def test_a_repeat_of_a_parameter_of_its_block() -> None:
    """The count is evaluated in each use; none leaves the tensor as it is."""
    text = """
tfdeploy = 1
layer "deep" {
  depth = parameter(int)
  units = parameter(int, 3)
  x = input()
  output = x -> repeat(depth, Dense(units)) -> Dense(2)
}
model "m" {
  x = input(float32, [4])
  y = input(float32, [2])
  a = x -> deep(2) -> deep(depth = 1, units = 5)
  loss = [y, a] -> MeanSquaredError()
}
"""
    graph = elaborate(spec_of(text))
    assert [(each.path, each.call.args) for each in graph.layers] == [
        ("deep/dense", (3,)),
        ("deep/dense_1", (3,)),
        ("deep/dense_2", (2,)),
        ("deep_1/dense", (5,)),
        ("deep_1/dense_1", (2,)),
    ]


def test_the_outputs_are_the_predictions_of_the_losses_unless_the_model_says_more() -> None:
    """Several have the names of their bindings, or of what made them; one alone is no dict."""
    text = CALLS.replace("  output = joined\n", "")
    plain = elaborate(spec_of(text))
    assert [(each.name, each.value) for each in plain.outputs] == [
        ("b", plain.losses[0].prediction),
        ("c", plain.losses[1].prediction),
    ]
    assert plain.returned(["one", "two"]) == {"b": "one", "c": "two"}
    twice = elaborate(spec_of(text.replace("[y, c]", "[y, b]")))
    assert [each.name for each in twice.outputs] == ["pair_dense_1"]
    assert not twice.names_outputs
    assert twice.returned(["one"]) == "one"
    loss = "loss = 2 * ([y, ops.abs(b)] -> Huber()) - ([y, abs] -> Huber()) + ([y, b] -> Huber())"
    unnamed = text.replace("\n  loss =", f"\n  abs = ops.abs(c)\n  {loss} +")
    assert [each.name for each in elaborate(spec_of(unnamed)).outputs] == ["abs_1", "abs", "b", "c"]
    named = elaborate(spec_of(CALLS.replace("output = joined", "output {\n    left = a\n    right = b\n  }")))
    assert [each.name for each in named.outputs] == ["left", "right"]
    assert named.returned(["one", "two"]) == {"left": "one", "right": "two"}
    assert [each.name for each in elaborate(spec_of(CALLS)).outputs] == ["concatenate"]
