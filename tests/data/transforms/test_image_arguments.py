"""What transforms of images take, and what they make of the tensors, without reading any image."""

from __future__ import annotations

from typing import Any

import pytest

from dsl import ir
from dsl.diagnostics import SpecError
from tfdeploy.data.arguments import Field
from tfdeploy.data.transforms.changes import Change
from tfdeploy.data.transforms.images import (
    CenterCrop,
    Cutout,
    Mixup,
    RandomColor,
    RandomCrop,
    RandomFlip,
    lookahead_of,
)

KINDS: dict[str, type[Change]] = {
    "center_crop": CenterCrop,
    "cutout": Cutout,
    "mixup": Mixup,
    "random_color": RandomColor,
    "random_crop": RandomCrop,
    "random_flip": RandomFlip,
}
FIELDS = {
    each.name: each
    for each in (
        Field("image", "uint8", (6, 8, 3)),
        Field("floats", "float16", (6, 8, 3)),
        Field("gray", "uint8", (6, 8, 1)),
        Field("wide", "int32", (6, 8, 3)),
        Field("flat", "float32", (144,)),
        Field("bytes", "uint8", (5,)),
        Field("label", "int64", ()),
        Field("words", "float32", (None,)),
    )
}


def change(kind: str, *args: Any, **kwargs: Any) -> Any:
    """Return a transform with some arguments."""
    return KINDS[kind](ir.Call(kind, args, kwargs))


def shape(made: Change, name: str = "image") -> tuple[int | None, ...]:
    """Return the shape of a tensor after a transform."""
    return made.fields(FIELDS)[name].shape


def test_what_is_not_given_has_a_default() -> None:
    """There is no margin, black covers, images are mirrored from left to right, and mixed a little."""
    crop = change("random_crop", "image", (4, 5))
    assert (crop.size, crop.pad, crop.fill) == ((4, 5), 0, 0)
    cutout = change("cutout", "image", 3)
    assert (cutout.size, cutout.fill) == ((3, 3), 0)
    assert change("cutout", "image", (2, 3)).size == (2, 3)
    assert change("random_flip", "image").axes == (2,)
    assert change("random_flip", "image", "vertical").axes == (1,)
    assert change("random_flip", "image", "both").axes == (1, 2)
    assert change("mixup", "image", "label").alpha == 0.2


def test_factors_are_around_one_and_shifts_around_zero() -> None:
    """A single number is the distance to both sides, where no factor is below 0; two are the bounds."""
    made = change("random_color", "image", brightness=0.2, contrast=0.25, saturation=1.5, hue=(-1, 0.5))
    assert made.brightness == (-0.2, 0.2)
    assert made.contrast == (0.75, 1.25)
    assert made.saturation == (0, 2.5)
    assert made.hue == (-1.0, 0.5)
    assert made.range == (0.0, 0.0)
    only = change("random_color", "image", contrast=(0, 2), range=(-1, 1))
    assert (only.brightness, only.contrast, only.saturation, only.hue) == (None, (0.0, 2.0), None, None)
    assert only.range == (-1.0, 1.0)


def test_a_crop_may_be_as_large_as_the_image_with_its_margin() -> None:
    """Its size is that of the result, and the channels stay."""
    assert shape(change("center_crop", "image", (6, 8))) == (6, 8, 3)
    assert shape(change("center_crop", "gray", (5, 2)), "gray") == (5, 2, 1)
    assert shape(change("random_crop", "image", (10, 12), pad=2)) == (10, 12, 3)
    assert shape(change("random_crop", "floats", (6, 8), fill=-0.5), "floats") == (6, 8, 3)
    assert shape(change("cutout", "image", 9, fill=255)) == (6, 8, 3)
    assert shape(change("random_color", "gray", brightness=0.1, contrast=0.1), "gray") == (6, 8, 1)
    assert change("mixup", "image", "flat").fields(FIELDS) == FIELDS


def test_only_mixing_needs_further_examples() -> None:
    """Each mixing needs one more."""
    mixup = change("mixup", "image", "flat")
    others = [change("random_flip", "image"), change("center_crop", "image", (2, 2))]
    assert [lookahead_of(each) for each in (others, [mixup], [mixup, *others, mixup])] == [0, 1, 2]


REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any], str, str | None]] = [
    ("center_crop", ("image", (7, 8)), {}, "`image` is uint8[6, 8, 3], which is smaller than [7, 8]", None),
    ("center_crop", ("image", (6, 9)), {}, "`image` is uint8[6, 8, 3], which is smaller than [6, 9]", None),
    (
        "random_crop",
        ("image", (6, 11)),
        {"pad": 1},
        "`image` is uint8[6, 8, 3] with a margin of 1, which is smaller than [6, 11]",
        None,
    ),
    (
        "random_crop",
        ("image", (4, 4)),
        {"fill": 256},
        "`image` is uint8[6, 8, 3], whose pixels cannot be 256",
        None,
    ),
    ("cutout", ("gray", 3), {"fill": 0.5}, "`gray` is uint8[6, 8, 1], whose pixels cannot be 0.5", None),
    (
        "random_color",
        ("gray",),
        {"hue": 0.1},
        "`gray` is uint8[6, 8, 1], and `saturation` and `hue` need 3 channels",
        None,
    ),
    (
        "random_color",
        ("gray",),
        {"saturation": 0.1},
        "`gray` is uint8[6, 8, 1], and `saturation` and `hue` need 3 channels",
        None,
    ),
    (
        "random_flip",
        ("flat",),
        {},
        "`flat` is float32[144], not an image of uint8 or floats with three axes",
        "put `-> reshape(flat, [height, width, channels])` before it",
    ),
    (
        "random_flip",
        ("wide",),
        {},
        "`wide` is int32[6, 8, 3], not an image of uint8 or floats with three axes",
        None,
    ),
    (
        "mixup",
        ("image", "words"),
        {},
        "`words` is float32[none], which has no fixed size",
        "put `-> pad(words, to = SIZE)` before it",
    ),
    (
        "mixup",
        ("image", "label"),
        {},
        "`label` is int64[], and only floats, and images of uint8, can be mixed",
        "put `-> one_hot(label, classes)` before it",
    ),
    (
        "mixup",
        ("bytes", "flat"),
        {},
        "`bytes` is uint8[5], and only floats, and images of uint8, can be mixed",
        "put `-> cast(bytes, float32)` before it",
    ),
    (
        "mixup",
        ("wide", "flat"),
        {},
        "`wide` is int32[6, 8, 3], and only floats, and images of uint8, can be mixed",
        "put `-> cast(wide, float32)` before it",
    ),
]


@pytest.mark.parametrize(("kind", "args", "kwargs", "reason", "advice"), REFUSED)
def test_what_a_tensor_cannot_be(
    kind: str, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str, advice: str | None
) -> None:
    """What does not fit is said, with what could be written instead."""
    with pytest.raises(SpecError) as caught:
        change(kind, *args, **kwargs).fields(FIELDS)
    (found,) = caught.value.diagnostics
    assert (found.message, found.help) == (f"`{kind}` cannot be applied: {reason}", advice)


@pytest.mark.parametrize(
    ("kind", "args", "kwargs", "message", "advice"),
    [
        ("random_crop", ((4, 4, 3),), {}, "takes a height and a width as `size`", "write `[height, width]`"),
        ("cutout", ((1, 2, 3),), {}, "takes a height and a width as `size`", "write `[height, width]`"),
        (
            "random_color",
            (),
            {},
            "changes nothing",
            "give it `brightness`, `contrast`, `saturation` or `hue`",
        ),
        *(
            (
                "random_color",
                (),
                {"hue": 0.1, "range": wrong},
                "takes the lowest and the highest number as `range`",
                "write `[low, high]`",
            )
            for wrong in ((1, 1), (2, 1), (1,), (0, 1, 2))
        ),
    ],
)
def test_what_an_argument_cannot_be(
    kind: str, args: tuple[Any, ...], kwargs: dict[str, Any], message: str, advice: str
) -> None:
    """Before any tensor is looked at."""
    with pytest.raises(SpecError) as caught:
        change(kind, "image", *args, **kwargs)
    (found,) = caught.value.diagnostics
    assert (found.message, found.help) == (f"`{kind}` {message}", advice)
