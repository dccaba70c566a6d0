"""What a caller says about the examples it wants, and what a source says about those it gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import field, frozen

Tensors = dict[str, Any]
"""Tensors of one example or of a batch of them, by name, as tf.data wants them."""


@frozen
class Wanted:
    """An input of the model: its name, dtype and shape without the batch axis."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@frozen
class StreamOptions:
    """How a split is to be read.

    `base` is the folder of the spec, from which relative paths start. `seed` makes shuffling repeatable;
    without one, and not `deterministic`, every stream draws its own. Shuffles that choose nothing are left
    out unless `training`. `shard` is (index, of how many): this stream takes only its part, `whole_files`
    where that gives all parts equally many examples, else every record of its turn. `skip_examples` are those
    of this stream consumed since the start of the run, over all passes, which a resumed run does not see
    again.
    """

    base: Path = field(converter=Path)
    seed: int | None = None
    deterministic: bool = False
    training: bool = True
    shard: tuple[int, int] | None = None
    whole_files: bool = True
    skip_examples: int = 0


@frozen
class Field:
    """A named tensor of an example: its dtype and its shape without the batch axis."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def words(self) -> str:
        """Dtype and shape as the language writes them."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


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
