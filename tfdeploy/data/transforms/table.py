"""The transforms of `data` that choose and order examples, and the table of all transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdeploy.data.transforms.changes import (
    Bucket,
    Cast,
    Change,
    OneHot,
    Pad,
    Rename,
    Reshape,
    Scale,
    Transform,
)
from tfdeploy.data.transforms.images import (
    CenterCrop,
    Cutout,
    Mixup,
    RandomColor,
    RandomCrop,
    RandomFlip,
    lookahead_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl import ir


class Shuffle(Transform):
    """`shuffle(buffer, seed)`: another order in every pass, drawn from a buffer of `buffer` examples."""

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.buffer: int = self.given["buffer"]
        self.seed: int | None = self.given["seed"]


class Cache(Transform):
    """`cache()`: what comes before is read and decoded once and kept in memory."""


class Choice(Transform):
    """A transform that leaves examples out, by a number of examples."""

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.count: int = self.given["n"]


class Take(Choice):
    """`take(n)`: the first `n` examples."""


class Skip(Choice):
    """`skip(n)`: all but the first `n` examples."""


TRANSFORMS: dict[str, type[Transform]] = {
    "bucket": Bucket,
    "cache": Cache,
    "cast": Cast,
    "center_crop": CenterCrop,
    "cutout": Cutout,
    "mixup": Mixup,
    "one_hot": OneHot,
    "pad": Pad,
    "random_color": RandomColor,
    "random_crop": RandomCrop,
    "random_flip": RandomFlip,
    "rename": Rename,
    "reshape": Reshape,
    "scale": Scale,
    "shuffle": Shuffle,
    "skip": Skip,
    "take": Take,
}
"""The transforms by the name they have in the language."""


def require_order(transforms: Sequence[Transform]) -> None:
    """Raise SpecError if `bucket` or `pad` stands where it cannot have an effect."""
    for at, each in enumerate(transforms):
        if isinstance(each, Bucket):
            later = next((one for one in transforms[at + 1 :] if not isinstance(one, Change)), None)
            if later is not None:
                reason = f"`{later.call.name}`, which comes after it, undoes the order"
                raise each.refuse(reason, "put it after `shuffle`, `take`, `skip` and `cache`, once")
        kept = any(isinstance(one, Cache) for one in transforms[at + 1 :])
        if isinstance(each, Pad) and each.size is None and kept:
            reason = "each batch has its own size, and `cache` comes before there are batches"
            raise each.refuse(reason, "put it after `cache`, or give it a size: `to = SIZE`")
        mixed = lookahead_of([one for one in transforms[at + 1 :] if isinstance(one, Change)])
        if isinstance(each, Pad) and each.size is None and mixed:
            reason = "`mixup`, which comes after it, needs an example more than the batch has"
            raise each.refuse(reason, "put it after `mixup`, or give it a size: `to = SIZE`")
