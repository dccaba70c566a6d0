"""Records of the `data` block."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from dsl.ir.base import Block, Call, Node


@frozen
class Split(Node):
    """`train = source(...) -> transform(...)`: where the examples of a split come from."""

    name: Literal["train", "validation", "test"]
    source: Call
    transforms: tuple[Call, ...] = ()


@frozen
class Data(Block):
    """The splits there are, and how the training stream is dealt out to the clones."""

    train: Split | None = None
    validation: Split | None = None
    test: Split | None = None
    per_clone: Literal["split", "shard"] = "split"
