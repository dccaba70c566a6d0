"""What files of examples hold, as records: tensors with the values seen in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import define, evolve, field, frozen

from dsl import ir
from tfdeploy.data.small_graphs import FAILURES, evaluate, reason_of
from tfdeploy.data.sources.images import STARTS
from tfdeploy.onramp.graph import RESERVED, free_name

MOST_ROWS = 100_000
"""How many examples are looked at; those behind them may hold other values."""
MOST_FILES = 200
"""How many records or images are looked at, which take longer."""
MOST_CLASSES = 1000
MOST_NAMED = 5
"""How many columns of a vector are described by themselves."""
LARGEST_SIDE = 224

TAKEN = RESERVED | {"hidden", "logits", "prediction"}


@frozen
class Tensor:
    """A tensor that a source can give."""

    name: str
    dtype: str  # the type of its elements; of a column whose cells are numbers, the smallest that holds them
    shape: tuple[int, ...]  # the shape of an example
    given: ir.Value  # what the source is given for it: columns, the name of an array, or a feature
    low: float | None = None  # the smallest number seen; None for words
    high: float | None = None  # the largest number seen
    words: tuple[str, ...] | None = None  # the words seen, the most frequent first; None for numbers
    parts: tuple[Tensor, ...] = ()  # the columns of which it is made
    factor: float = 1.0  # what its elements are multiplied by, to be what a model takes
    void: int | None = None  # the number of what has no class; None if there is none

    @property
    def is_whole(self) -> bool:
        """Whether its elements are whole numbers."""
        return "int" in self.dtype or self.dtype == "bool"

    @property
    def classes(self) -> int | None:
        """The number of classes if its elements may be classes: words, or whole numbers from zero on."""
        if self.words is not None:
            return len(self.words) if len(self.words) <= MOST_CLASSES else None
        if self.factor != 1:
            return 2
        few = self.is_whole and self.low is not None and self.low >= 0 and (self.high or 0) < MOST_CLASSES
        return int(self.high or 0) + 1 if few else None

    @property
    def seen(self) -> str:
        """What was seen in it, in words."""
        if self.words is not None:
            return f"{len(self.words):,} different word{'s' if len(self.words) > 1 else ''}"
        if 0 < len(self.parts) <= MOST_NAMED:
            return ", ".join(f"{each.given} {each.seen}" for each in self.parts)
        return "" if self.low is None else f"{self.low:.6g} to {self.high:.6g}"


@define
class Found:
    """What a file or folder holds."""

    path: Path
    source: str
    args: tuple[ir.Value, ...] = ()  # what the source is given beside the path
    kwargs: Mapping[str, ir.Value] = field(factory=dict)  # the same by name
    tensors: dict[str, Tensor] = field(factory=dict)
    count: int = 0  # how many examples there are, as far as they were counted
    label: str | None = None  # the name of the tensor that is taken for the label; None if none is
    why: str = ""  # why it is
    lost: list[str] = field(factory=list)  # what is left out, in sentences
    # What the source is given for each tensor in the other splits, by the name of the split.
    splits: dict[str, dict[str, ir.Value]] = field(factory=dict)
    columns: tuple[str, ...] = ()  # the names of all columns of a table, those left out too
    masks: Path | None = None  # the folder of the masks of images

    @property
    def is_table(self) -> bool:
        """Whether it has columns, which are read as the type of the input that they feed."""
        return bool(self.columns)

    def add(self, kind: str, name: str, wanted: str, made: Tensor | str) -> None:
        """Add a column or a feature, as `kind` says, under a free name like the one that is wanted.

        If it cannot be a tensor, `made` says why, and it is left out.
        """
        if isinstance(made, str):
            self.lost.append(f"the {kind} `{name}` is left out: {made}")
            return
        known, given = free_name(wanted, {*TAKEN, *self.tensors}), made.given
        if isinstance(given, ir.Call) and known != name:
            given = evolve(given, kwargs={**given.kwargs, "key": name})
        self.tensors[known] = evolve(made, name=known, given=given)


def array(name: str, values: Any, given: ir.Value, dtype: str) -> Tensor:
    """Return an array of examples as a tensor."""
    shape = tuple(values.shape[1:])
    if dtype == "string":
        words = Counter(each.decode("utf-8", "replace") for each in values.ravel()[:MOST_ROWS].tolist())
        return Tensor(name, dtype, shape, given, words=tuple(each for each, _ in words.most_common()))
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    return Tensor(name, dtype, shape, given, low, high)


def feature_call(dtype: str, shape: tuple[int, ...], **more: ir.Value) -> ir.Call:
    """Return what a source is given for a tensor that the spec describes."""
    return ir.Call("feature", (dtype, shape), more)


def of_bytes(name: str, values: Sequence[bytes], shape: tuple[int, ...]) -> Tensor | str:
    """Return strings of bytes as a tensor of images or words, or why they are neither."""
    if not shape and all(each.startswith(tuple(STARTS)) for each in values):
        try:
            size = common_size([size_of_image(each) for each in values])
        except FAILURES as fault:
            return f"an image in it cannot be decoded: {reason_of(fault)}"
        call = feature_call("uint8", size, encoding="image")
        return Tensor(name, "uint8", size, call, 0.0, 255.0)
    try:
        words = Counter(each.decode() for each in values)
    except UnicodeDecodeError:
        return "its bytes are neither text nor a JPEG or PNG image; `encoding = raw` reads them"
    ordered = tuple(each for each, _ in words.most_common())
    return Tensor(name, "string", shape, feature_call("string", shape), words=ordered)


def size_of_image(data: bytes) -> tuple[int, int, int]:
    """Return the height, width and channels of an image; raises one of FAILURES."""
    shape = evaluate(lambda: tf.shape(tf.io.decode_image(data, expand_animations=False)))
    return int(shape[0]), int(shape[1]), int(shape[2])


def common_size(sizes: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
    """Return the size of all images, or the median one, which is not above `LARGEST_SIDE`."""
    if len(set(sizes)) == 1:
        return sizes[0]
    height, width = (int(np.median([each[axis] for each in sizes])) for axis in (0, 1))
    return min(height, LARGEST_SIDE), min(width, LARGEST_SIDE), max(each[2] for each in sizes)
