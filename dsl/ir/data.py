"""Records of the `data` block."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from dsl.ir.base import Block, Call, Node


@frozen
class Split(Node):
    """One split of the data, written `train = source(...) -> transform(...)`.

    Attributes:
        name: The name of the split.
        source: The call that reads the examples.
        transforms: The transforms, in order.
    """

    name: Literal["train", "validation", "test"]
    source: Call
    transforms: tuple[Call, ...] = ()


@frozen
class Data(Block):
    """The `data` block.

    Attributes:
        train: The split to train on.
        validation: The split to evaluate on while training.
        test: The split for tests.
        per_clone: `split` cuts each global batch into one piece for each clone; `shard` gives each clone its
            own examples.
    """

    train: Split | None = None
    validation: Split | None = None
    test: Split | None = None
    per_clone: Literal["split", "shard"] = "split"
