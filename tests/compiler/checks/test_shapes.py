"""Losses, weights and terms, held against the shapes that reach them, and axes without a fixed size."""

from pathlib import Path

import pytest

import grammar
from compiler.checks.shapes import shapes_fit, tensors_can_be_held
from compiler.model.elaborate import elaborate
from compiler.topology import declare
from dsl.diagnostics import Diagnostic
from grammar.unparse import unparse
from tests.support import marked, spec_of

SAME = "target and prediction are to have the same shape"


def of_loss(loss: str, target: str, prediction: str, weights: str | None = None) -> list[Diagnostic]:
    """Return what is wrong with a loss on tensors of some shapes."""
    more, used = ("", "") if weights is None else (f"w = input(float32, {weights})", ", w")
    kind = "int32" if "Sparse" in loss else "float32"
    inputs = f"t = input({kind}, {target})\n x = input(float32, {prediction})\n {more}"
    model = f"{inputs}\n y = x -> Identity()\n loss = [t, y{used}] -> {loss}()"
    text = f'tfdeploy = 1\nmodel "m" {{\n {model}\n}}\n'
    return list(shapes_fit(spec_of(text)))


@pytest.mark.parametrize(
    ("loss", "target", "prediction", "reason"),
    [
        (
            "SparseCategoricalCrossentropy",
            "[4]",
            "[5, 10]",
            "its target is the number of a class, `[5]` for this",
        ),
        ("SparseCategoricalCrossentropy", "[5, 10]", "[5, 10]", "`CategoricalCrossentropy` takes vectors"),
        ("SparseCategoricalCrossentropy", "[none]", "[5, 10]", None),
        ("SparseCategoricalCrossentropy", "[1]", "[10]", None),
        ("SparseCategoricalCrossentropy", "[4]", "[5, 1]", None),
        ("CategoricalCrossentropy", "[5, 10]", "[10]", SAME),
        ("CategoricalCrossentropy", "[4]", "[5, 10]", SAME),
        (
            "CategoricalFocalCrossentropy",
            "[5]",
            "[5, 10]",
            "`SparseCategoricalCrossentropy` takes the number",
        ),
        ("CategoricalCrossentropy", "[9]", "[10]", SAME),
        ("MeanSquaredError", "[3, 4]", "[3, 5]", SAME),
        ("MeanSquaredError", "[3, 4]", "[2, 4]", SAME),
        ("MeanSquaredError", "[1, 4]", "[3, 4]", None),
        ("MeanSquaredError", "[none, 4]", "[3, 4]", None),
        ("MeanSquaredError", "[none, 4]", "[3, 5]", SAME),
        ("MeanSquaredError", "[4]", "[3, 4]", None),
        ("CosineSimilarity", "[3]", "[4]", None),
        *(
            (each, "[3]", "[4]", SAME)
            for each in ("BinaryFocalCrossentropy", "Huber", "KLDivergence", "LogCosh")
        ),
        *((each, "[3]", "[4]", SAME) for each in ("MeanAbsoluteError", "Poisson")),
    ],
)
def test_targets_and_predictions(loss: str, target: str, prediction: str, reason: str | None) -> None:
    """What is not certain is left to Keras, such as an axis of one, which it spreads, adds or drops."""
    found = of_loss(loss, target, prediction)
    assert [each.code for each in found] == ["TFD506"] * (reason is not None)
    for each in found:
        assert reason in each.notes[0]
        assert each.text == f"gets `{target}` and `{prediction}`"


def test_what_a_loss_takes_in_place_of_another_is_only_told_if_it_would_fit() -> None:
    """A hint that leads to the next error is worse than none."""
    (first,), (second,) = (
        of_loss(f"{kind}CategoricalCrossentropy", "[4]", "[5, 10]") for kind in ("", "Sparse")
    )
    assert first.notes[0] == SAME
    assert "takes vectors" not in second.notes[0]


@pytest.mark.parametrize(
    ("loss", "prediction", "weights", "fit"),
    [
        ("MeanSquaredError", "[5, 3]", "[5]", True),
        ("MeanSquaredError", "[5, 3]", "[5, 1]", True),
        ("MeanSquaredError", "[5, 3]", "[3]", False),
        ("MeanSquaredError", "[5, 3]", "[5, 3]", False),
        ("MeanSquaredError", "[3]", "[]", True),
        ("MeanSquaredError", "[3]", "[3]", False),
        ("CosineSimilarity", "[3]", "[3]", True),
    ],
)
def test_weights_of_examples(loss: str, prediction: str, weights: str, *, fit: bool) -> None:
    """A value of the loss has one weight; the last axis of the prediction is gone by then."""
    found = of_loss(loss, prediction, prediction, weights)
    assert [each.code for each in found] == ["TFD506"] * (not fit)
    for each in found:
        assert each.notes[0].startswith(f"weights of the shape `{weights}` cannot weigh values of the shape")
        assert each.text == f"gets `{prediction}` and `{prediction}` and `{weights}`"


@pytest.mark.parametrize(("shape", "fits"), [("[]", True), ("[1]", True), ("[2]", False), ("[1, 1]", False)])
def test_a_term_of_the_loss_is_one_number_for_each_example(shape: str, *, fits: bool) -> None:
    """Its shape is told if it has more."""
    text = (
        f'tfdeploy = 1\nmodel "m" {{\n x = input(float32, {shape})\n y = x -> Identity()\n'
        " output = y\n loss = y\n}\n"
    )
    found = list(shapes_fit(spec_of(text)))
    assert [each.code for each in found] == ["TFD590"] * (not fits)
    for each in found:
        assert f"`{shape}`" in each.message


def test_a_model_that_gives_nothing_has_no_shapes_to_check() -> None:
    """Neither an output nor a loss."""
    text = 'tfdeploy = 1\nmodel "m" {\n x = input(float32, [8])\n y = x -> LSTM(3)\n}\n'
    wrong = text.replace("}\n", " output = y\n}\n")
    assert [each.code for each in shapes_fit(spec_of(wrong))] == ["TFD506"]


WIDE = """
tfdeploy = 1
model "net" {{
  x = input(float32, [{size}])
  label = input(float32, [4])
  z = x -> {layer} -> Dense(4)
  loss = [label, z] -> MeanSquaredError()
}}
devices {{ cpu = 2 }}
clones {{ count = 2, {clones} }}
update {{ optimizer = SGD(0.1){update} }}
"""


@pytest.mark.parametrize(
    ("size", "clones", "update", "layer", "place"),
    [
        (2**31 - 1, "batch = 1", "", "Dense(4)", None),
        (2**31, "batch = 1", "", "Dense(4)", "x"),
        (2**30, "batch = 2", "", "Dense(4)", "2"),
        (2**30, "batch = [1, 2]", "", "Dense(4)", "[1, 2]"),
        (2**30, "global_batch = 4", "", "Dense(4)", "4"),
        (2**30, "global_batch = 4", ", accumulate = 2", "Dense(4)", None),
        (4, f"batch = {2**29 - 1}", "", "Dense(4)", None),
        (4, f"batch = {2**29}", "", "Dense(4)", str(2**29)),
        (4, f"batch = {10**18}", "", "Dense(4)", str(10**18)),
        (4, f"batch = {2**28 - 1}", "", "Dense(8)", None),
        (4, f"batch = {2**28}", "", "Dense(8)", str(2**28)),
        (4, "batch = 2", "", f"Dense({10**12})", f"Dense({10**12})"),
    ],
)
def test_the_most_that_can_be_counted(
    size: int, clones: str, update: str, layer: str, place: str | None
) -> None:
    """The largest batch of a clone counts, in one micro-batch; inputs are tensors as well."""
    spec = spec_of(WIDE.format(size=size, clones=clones, update=update, layer=layer))
    found = list(tensors_can_be_held(spec, declare(spec.devices, 0)))
    assert [each.code for each in found] == ["TFD506"] * (place is not None)
    for each in found:
        assert marked(each).startswith(place)


TEXT = """
tfdeploy = 1
model "net" {{
  x = input(float32, {shape})
  label = input(float32, [1])
  y = x {layers} -> Dense(1)
  loss = [label, y] -> MeanSquaredError()
}}
data {{ train = tfrecord("x", x = feature(float32, [none, 3]), label = feature(float32, [1])) {transforms} }}
update {{ optimizer = SGD(0.1) }}
"""
SERIES = "[none, 3]"


def text(shape: str = SERIES, layers: str = "-> GlobalAveragePooling1D()", transforms: str = "") -> str:
    """Return a spec whose input has a free axis."""
    return TEXT.format(shape=shape, layers=layers, transforms=transforms)


@pytest.mark.parametrize(
    ("shape", "transforms", "sizes", "source"),
    [
        (f"{SERIES}, assume = 20", "-> pad(x, to = 30)", [20], "`assume`"),
        (SERIES, "-> pad(x, to = 30)", [30], "`to` of `pad`"),
        (SERIES, "-> bucket(x, [8, 17]) -> pad(x, to = multiple_of(4))", [20], "the last of `boundaries`"),
        (
            SERIES,
            "-> rename(z = x) -> bucket(z, [8]) -> rename(x = z) -> pad([x])",
            [8],
            "the last of `boundaries`",
        ),
        (SERIES, "-> pad(x, to = multiple_of(50), value = 2)", [150], "the default"),
        ("[none, none, 3], assume = [20, 30]", "", [20, 30], "`assume`"),
    ],
)
def test_the_assumed_size(shape: str, transforms: str, sizes: list[int], source: str) -> None:
    """The input itself comes first, then what the training data says, and the source is named."""
    (node, _) = elaborate(spec_of(text(shape, transforms=transforms))).inputs
    assert [each.assumed for each in node.free] == sizes
    assert all(each.source.startswith(source) for each in node.free)
    assert node.assumed_shape == (*sizes, 3)
    assert node.padding == (2 if "value" in transforms else 0)


@pytest.mark.parametrize(
    ("transforms", "size", "source"),
    [
        ("-> bucket(x, [8, 17]) -> pad([x, label])", 17, "that of `x`, which the same `pad` fills"),
        ("-> bucket(x, [8, 17]) -> rename(y = label) -> pad([y, x]) -> rename(label = y)", 17, "that of `x`"),
        ("-> bucket(x, [8, 17]) -> pad(x) -> pad(label)", 128, "the default"),
    ],
)
def test_inputs_that_one_pad_fills_have_one_size(transforms: str, size: int, source: str) -> None:
    """Labels of words are as long as the words, so the forecast of one tells the other."""
    written = text(transforms=transforms).replace(
        "label = input(float32, [1])", "label = input(float32, [none])"
    )
    (_, label) = elaborate(spec_of(written)).inputs
    (axis,) = label.free
    assert axis.assumed == size
    assert axis.source.startswith(source)


@pytest.mark.parametrize("shape", [SERIES, f"{SERIES}, assume = 20", "[none, none, 3], assume = [20, 30]"])
def test_a_spec_is_written_as_it_was_read(shape: str, tmp_path: Path) -> None:
    """Free axes, assumed sizes, `pad` and `bucket` survive the way to text and back."""
    spec = spec_of(text(shape, transforms="-> bucket(x, [4, 8]) -> pad(x, to = multiple_of(4), value = 1)"))
    path = tmp_path / "again.tfdeploy"
    path.write_text(unparse(spec))
    again = grammar.load(path)
    assert again.model == spec.model
    assert again.data == spec.data


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ("-> Flatten()", "last axis of its input, which is `none`"),
        ("-> Permute([2, 1])", "last axis of its input, which is `none`"),
        ("-> Permute([2, 1]) -> Conv1D(4, 1) -> Flatten()", "channels of its input, which is `none`"),
        ("-> Permute([2, 1]) -> GRU(4)", "last axis of its input, which is `none`"),
    ],
)
def test_a_layer_that_needs_a_size_names_the_axis(layers: str, reason: str) -> None:
    """Weights cannot depend on a size that each batch has for itself; the input is shown."""
    (found,) = shapes_fit(spec_of(text(layers=layers)))
    assert found.code == "TFD506"
    assert any(reason in each for each in found.notes)
    assert [each.text for each in found.labels] == ["axis 0 of `x` has no fixed size"]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("[none, 3], assume = [4, 5]", "`assume` gives 2 sizes, and one axis of this input is `none`"),
        ("[4, 3], assume = 4", "`assume` gives 1 size, and no axis of this input is `none`"),
        ("[none, 3], assume = 0", "at least 1"),
        ("[0, 3]", "at least 1"),
    ],
)
def test_sizes_that_are_refused(shape: str, message: str) -> None:
    """There is one assumed size for each free axis, and sizes are positive."""
    (found,) = grammar.read("test.tfdeploy", [], text=text(shape)).diagnostics
    assert message in found.message
