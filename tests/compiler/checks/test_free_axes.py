"""Axes without a fixed size: how they are written, what forecasts assume, and what cannot follow them."""

from __future__ import annotations

from pathlib import Path

import pytest

import grammar
from compiler.checks.shapes import shapes_fit
from compiler.model.elaborate import elaborate
from grammar.unparse import unparse
from tests.support import spec_of

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
