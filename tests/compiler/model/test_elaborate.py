"""The model of a spec as a flat graph, refused if it becomes very large, and weights of its examples."""

from collections.abc import Callable

import pytest
from attrs import evolve

import grammar
from compiler.checks import diagnose
from compiler.model import elaborate as elaboration
from compiler.model.elaborate import elaborate, snake_case
from compiler.model.expansion import DEEPEST, MOST_STEPS, require_bounded
from compiler.model.graph import ModelGraph
from compiler.model.shapes import weights_fit
from compiler.pipeline import make_plan
from dsl.diagnostics import SpecError
from tests.support import marked, refusal_of, spec_of

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
NAMES = """
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
REPEATED = """
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
WEIGHTS = """
tfdeploy = 1
model "m" {
  y = input(float32, [4])
  x = input(float32, [4])
  scale = weight([4])
  z = FOUND
  loss = [y, z] -> MeanSquaredError()
}
"""
OUTER = 'layer "outer" {\n  x = input()\n  output = x -> Dense(4) -> tower(8)\n}\n\nmodel'
FROZEN = "scale = weight([4])\n  shared = layer(Dense(3))\n  cold = x * scale -> outer(trainable = false)"
UNNAMED = "loss = 2 * ([y, ops.abs(b)] -> Huber()) - ([y, abs] -> Huber()) + ([y, b] -> Huber())"
WITHOUT_OUTPUT = CALLS.replace("  output = joined\n", "")
MODELS = {
    "blocks": BLOCKS,
    "shared_block": BLOCKS.replace("layer(Dense(3))", "layer(tower(3))").replace(
        "repeat(2, tower(8))", "Dense(4)"
    ),
    "frozen": BLOCKS.replace("model", OUTER, 1).replace("shared = layer(Dense(3))", FROZEN),
    "files": BLOCKS.replace("layer(Dense(3))", 'layer(Dense(3, weights = "a.npz"))').replace(
        "loss =", 'c = x -> Reshape([2, 2, 1]) -> applications.MobileNetV2(weights = "imagenet")\n  loss ='
    ),
    "calls": CALLS,
    "names": NAMES,
    "repeated": REPEATED,
    "weight_beside_an_input": WEIGHTS.replace("FOUND", "x * scale"),
    "weight_alone": WEIGHTS.replace("FOUND", "scale"),
    "predictions": WITHOUT_OUTPUT,
    "one_prediction": WITHOUT_OUTPUT.replace("[y, c]", "[y, b]"),
    "unnamed": WITHOUT_OUTPUT.replace("\n  loss =", f"\n  abs = ops.abs(c)\n  {UNNAMED} +"),
    "named": CALLS.replace("output = joined", "output {\n    left = a\n    right = b\n  }"),
}


def flat(graph: ModelGraph) -> str:
    """Return a flat model as text: what it is made of, and which values each part takes and gives."""
    lines = [f"{each.value} = input {each.name}, {each.dtype} {each.shape}" for each in graph.inputs]
    for call in graph.calls:
        layer = graph.layers[call.layer]
        made = ", ".join(map(str, call.values))
        given = f"{call.inputs}, of which {call.sources} are sources" if call.sources else f"{call.inputs}"
        more = f" as {call.args} {dict(call.kwargs)}" if call.args or call.kwargs else ""
        lines.append(f"{made} = layer {call.layer} {layer.path} of {given}{more}")
    for at, each in enumerate(graph.layers):
        frozen = (
            f", frozen by {each.frozen_at.text}" if each.frozen_at is not None else ", frozen" * each.frozen
        )
        arguments = f"{each.call.args} {dict(each.call.kwargs)}"
        lines.append(f"layer {at} {each.path}: {each.kind} {each.label} {arguments}{frozen}")
    lines += [f"loss {each.name} of {each.target}, {each.prediction}, {each.weight}" for each in graph.losses]
    lines += [f"output {each.name}: {each.value}" for each in graph.outputs]
    lines.append(f"returned {graph.returned([f'<{each.value}>' for each in graph.outputs])}")
    lines.append(f"needed to predict: {', '.join(each.name for each in graph.prediction_inputs)}")
    lines += [f"{each.pattern} starts from {each.file}" for each in graph.starts]
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_becomes_flat(name: str, golden: Callable[[str, str], None]) -> None:
    """Blocks are expanded under scopes of their own, what is shared is made once, all names differ."""
    golden(f"model/{name}.txt", flat(elaborate(spec_of(MODELS[name]))))


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


def test_names_match_keras_for_every_layer() -> None:
    """The rule agrees with Keras's own on all of its layers."""
    import keras
    from keras.src.utils.naming import to_snake_case

    classes = [name for name in dir(keras.layers) if isinstance(getattr(keras.layers, name), type)]
    assert [snake_case(each) for each in classes] == [to_snake_case(each) for each in classes]


def test_a_model_without_a_loss_is_refused_before_the_graph() -> None:
    """The message points at the model and shows what a loss looks like."""
    text = "\n".join(line for line in BLOCKS.splitlines() if "loss =" not in line)
    diagnostic = refusal_of(lambda: make_plan(spec_of(text)))
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
    diagnostic = refusal_of(lambda: elaborate(spec_of(PARAMETER)))
    assert (diagnostic.code, diagnostic.message) == ("TFD306", "this divides by zero")
    assert marked(diagnostic).startswith("8 / (units - 2")


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


LAYER = """layer "{}" {{
  x = input()
  n = parameter(int, default = 1)
  output = x -> {}
}}
"""


def text(step: str, *blocks: tuple[str, str]) -> str:
    """Return a spec whose model has a step, with some `layer` blocks."""
    model = f'model "m" {{\n  x = input(float32, [4])\n  y = x -> {step}\n  output = y\n}}\n'
    return "tfdeploy = 1\n" + "".join(LAYER.format(*each) for each in blocks) + model


def doubled(base: str, again: str) -> list[tuple[str, str]]:
    """Return forty blocks, each of which uses the one before it as `again` says."""
    return [("l0", base), *((f"l{at}", again.format(*(f"l{at - 1}",) * 2)) for at in range(1, 41))]


TOO_LARGE = {
    "blocks": text("l40()", *doubled("Dense(4)", "{}() -> {}()")),
    "blocks without layers": text(
        "l40()", *doubled("l()", "{}() -> {}()"), ("l", "repeat(n, i())"), ("i", "E")
    ),
    "repeat": text("repeat(200, repeat(200, Dense(4)))"),
    "parameters": text("l40(1)", *doubled("repeat(n, Dense(4))", "{}(2 * n) -> {}(2 * n + 1)")),
    "many parts": text("repeat(30, l())", ("l", " -> ".join(["Dense(4)"] * 700))),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_grows_beyond_the_bound_is_refused_before_it_grows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is at the step, for `check` and the plan alike, and no step is made."""
    made: list[object] = []
    monkeypatch.setattr(elaboration._Builder, "_step", lambda *_: made.append(_))
    reading = grammar.read("a", text=TOO_LARGE[name].replace("-> E", ""))
    assert reading.spec is not None
    (error,) = diagnose(reading)
    assert (error.code, error.is_error) == ("TFD518", True)
    assert error.span is not None
    with pytest.raises(SpecError, match="TFD518"):
        elaboration.elaborate(reading.spec)
    assert made == []


@pytest.mark.parametrize(
    "written",
    [
        text("repeat(10, l(2)) -> l(0)", ("l", "Dense(4) -> repeat(n, repeat(3, m()))"), ("m", "Dense(4)")),
        text("Dense(4)\n  s = layer(l(2))\n  z = x -> s -> s", ("l", "repeat(n, Dense(4))")),
        text("Dense(4)\n  z = x[:, 0:2] + ops.exp(x[:, 0:2]) * 2"),
    ],
    ids=["repeated", "shared", "operations"],
)
def test_the_steps_that_are_counted_are_those_that_are_made(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound of exactly the steps of a model lets it pass, and one less does not."""
    spec = grammar.read("a", text=written).spec
    assert spec is not None
    graph = elaboration.elaborate(spec)
    blocks = 0
    block = elaboration._Builder._block

    def counted(*given: object) -> object:
        nonlocal blocks
        blocks += 1
        return block(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(elaboration._Builder, "_block", counted)
    elaboration.elaborate(evolve(spec))
    steps = len(graph.calls) + blocks
    monkeypatch.setattr("compiler.model.expansion.MOST_STEPS", steps)
    require_bounded(spec)
    monkeypatch.setattr("compiler.model.expansion.MOST_STEPS", steps - 1)
    with pytest.raises(SpecError, match="TFD518"):
        require_bounded(spec)


def test_blocks_within_each_other_have_a_bounded_depth() -> None:
    """So many blocks as are allowed are written out, and one more is refused at its use."""
    chain = [(f"l{at}", f"l{at + 1}()") for at in range(DEEPEST)]
    deepest = (f"l{DEEPEST}", "Dense(4)")
    fine = grammar.read("a", text=text("l1()", *chain[1:], deepest))
    assert not any(each.is_error for each in diagnose(fine))
    (error,) = diagnose(grammar.read("a", text=text("l0()", *chain, deepest)))
    assert (error.code, error.span and error.span.text) == ("TFD518", f"l{DEEPEST}()")


def test_a_model_of_the_largest_size_is_written_out() -> None:
    """The bound itself is allowed."""
    spec = grammar.read(
        "a", text=text(f"repeat({MOST_STEPS // 2}, Dense(4)) -> repeat({MOST_STEPS // 2}, Dense(4))")
    ).spec
    assert spec is not None
    assert len(elaboration.elaborate(spec).calls) == MOST_STEPS


@pytest.mark.parametrize(
    ("values", "weights", "fit"),
    [
        ((), (), True),
        ((), (1,), True),
        ((1,), (), True),
        ((), (2,), False),
        ((2,), (), False),
        ((5,), (5,), True),
        ((5,), (1,), True),
        ((1,), (5,), False),
        ((5,), (6,), False),
        ((5,), (5, 1), True),
        ((5, 1), (5,), True),
        ((5,), (5, 2), False),
        ((5, 2), (5,), False),
        ((5, 4), (1, 4), True),
        ((5, 4), (4,), False),
        ((5, 4), (5, 1), True),
        ((5, 4, 1), (5,), False),
        ((None,), (7,), True),
        ((7,), (None,), True),
        ((None, 3), (7, 2), False),
    ],
)
def test_shapes_of_weights(
    values: tuple[int | None, ...], weights: tuple[int | None, ...], *, fit: bool
) -> None:
    """An axis of one at the end comes and goes; a size that is not fixed can be any."""
    assert weights_fit(values, weights) == fit
