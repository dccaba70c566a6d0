"""How a split is to be read, and the tensors of its examples."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

from attrs import field, frozen

ROUGH_SIZE = 128
"""What an axis without a fixed size counts in estimates."""

Tensors = dict[str, Any]
"""Tensors of one example or of a batch of them, by name, as tf.data wants them."""


@frozen
class StreamOptions:
    """How a split is to be read.

    Attributes:
        base: The folder of the spec, from which relative paths start.
        seed: Makes shuffling repeatable. If it is None, and `deterministic` is false, every stream draws one.
        deterministic: Whether the order of the examples must be the same in every run.
        training: Whether the examples are for training. If not, shuffles that choose nothing are left out.
        shard: The index of this stream's share and the number of shares; None if it reads everything.
        reader: Who reads this share in words, such as `clone 2`; nothing if it is none.
            Otherwise a share consists of single records.
        window: If each batch of a step is cut into parts, the part of this stream: where it begins in the
            batch, where it ends, and the examples of the batch. The stream has the same order for all parts.
        skip_examples: How many examples of this stream were consumed since the start of the run, over all
            passes. They are skipped.
    """

    base: Path = field(converter=Path)
    seed: int | None = None
    deterministic: bool = False
    training: bool = True
    shard: tuple[int, int] | None = None
    reader: str = ""
    window: tuple[int, int, int] | None = None
    skip_examples: int = 0


@frozen
class Field:
    """A tensor of every example, as a source gives it or as an input of the model wants it.

    Attributes:
        name: The name of the tensor.
        dtype: Its dtype, as TensorFlow writes it.
        shape: Its shape without the batch axis; None for an axis without a fixed size.
        ragged: Whether the sizes of such axes can differ among the examples of a batch.
        assumed: Of an input, the shape with the sizes that forecasts assume for such axes; empty if they are
            not known.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    ragged: bool = False
    assumed: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """Dtype and shape as the language writes them."""
        return f"{self.dtype}[{', '.join('none' if each is None else str(each) for each in self.shape)}]"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of its axes, without those that have no fixed size."""
        return tuple(each for each in self.shape if each is not None)

    @property
    def numbers(self) -> int:
        """How many numbers it has, roughly if it has axes without a fixed size."""
        return prod(ROUGH_SIZE if each is None else each for each in self.shape)


INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
DTYPES = INTEGERS | FLOATS | {"bool"}
"""The dtypes that numbers can be turned into."""

BOUNDS = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    "bool": (0, 1),
}
"""The least and the greatest number of each dtype of whole numbers."""
