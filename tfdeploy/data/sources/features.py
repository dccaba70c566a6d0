"""`feature(dtype, [shape], ...)`: what a spec says of a tensor that its file or source does not describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from dsl import ir
from dsl.schema.data_functions import RESIZES
from dsl.source import Span
from tfdeploy.data.options import BOUNDS, INTEGERS, Field
from tfdeploy.data.transforms.arguments import Arguments, bind

if TYPE_CHECKING:
    from collections.abc import Mapping


@frozen
class Feature:
    """A tensor that the spec describes.

    Attributes:
        field: The tensor.
        key: Its name in the file.
        encoding: How its numbers are written: `list`, `raw` or `image`.
        resize: How images are brought to the size of the shape.
        classes: The number of classes of whole numbers; None if it is not given.
        span: The place in the spec.
    """

    field: Field
    key: str
    encoding: str
    resize: str
    classes: int | None
    span: Span | None


def features(given: Arguments) -> Mapping[str, Feature]:
    """Return the features that the keywords of a source describe, by tensor; raises SpecError."""
    if not given.others:
        given.refuse("names no tensor", advice="write `name = feature(dtype, [shape])`")
    return {name: _feature(name, call) for name, call in given.others.items()}


def _feature(name: str, call: ir.Call) -> Feature:
    given = bind(call)
    encoding, dtype, shape, classes = (given[each] for each in ("encoding", "dtype", "shape", "classes"))
    if classes is not None and dtype not in INTEGERS:
        given.refuse(f"has classes only with whole numbers, not {dtype}", "classes")
    if classes is not None and classes - 1 > BOUNDS[dtype][1]:
        given.refuse(f"has more classes than {dtype} has numbers", "classes")
    if None in shape and (encoding != "list" or None in shape[1:]):
        given.refuse("can have `none` for the first axis only, and not with `encoding`", "shape")
    if encoding == "image" and (len(shape) != 3 or shape[-1] not in (1, 3, 4)):  # noqa: PLR2004 height, width, channels
        given.refuse("needs height, width and 1, 3 or 4 channels for an image", "shape")
    if encoding != "image" and given["resize"] is not None:
        given.refuse("has `resize` only with `encoding = image`", "resize")
    key = name if given["key"] is None else given["key"]
    field = Field(name, dtype, shape, ragged=None in shape)
    return Feature(field, key, encoding, given["resize"] or RESIZES[0], classes, call.span)
