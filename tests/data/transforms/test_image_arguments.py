"""What transforms of images take, and what they make of the tensors, without reading any image."""

from typing import Any

from dsl import ir
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
        Field("flat", "float32", (144,)),
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
    assert change("random_flip", "image").draws == (2,)
    assert change("random_flip", "image", "vertical").draws == (1,)
    assert change("random_flip", "image", "both").draws == (1, 2)
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
