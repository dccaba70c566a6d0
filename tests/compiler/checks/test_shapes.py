"""Losses, their weights and terms, held against shapes that reach them, and tensors that are too large."""

from __future__ import annotations

import pytest

from compiler.checks.shapes import shapes_fit, tensors_can_be_held
from compiler.topology import declare
from dsl.diagnostics import Diagnostic
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
        assert reason is not None
        assert reason in each.notes[0]
        assert each.text == f"gets `{target}` and `{prediction}`"


def test_what_a_loss_takes_in_place_of_another_is_only_told_if_it_would_fit() -> None:
    """A hint that leads to the next error is worse than none."""
    ((first,), (second,)) = (
        of_loss("CategoricalCrossentropy", "[4]", "[5, 10]"),
        of_loss("SparseCategoricalCrossentropy", "[4]", "[5, 10]"),
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
        assert place is not None
        assert marked(each) != ""
        assert marked(each).startswith(place)
