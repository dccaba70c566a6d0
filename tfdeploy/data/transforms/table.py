"""The transforms of `data` that choose and order examples, and the table of all transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import SpecError
from dsl.errors.running import running_data as errors
from dsl.suggest import nearest
from tfdeploy.data.transforms.arguments import MISSING, bind
from tfdeploy.data.transforms.changes import Cast, Change, OneHot, Rename, Reshape, Scale
from tfdeploy.data.transforms.images import (
    CenterCrop,
    Cutout,
    Mixup,
    RandomColor,
    RandomCrop,
    RandomFlip,
    lookahead_of,
)
from tfdeploy.data.transforms.lengths import Bucket, Pad

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsl import ir


class Shuffle:
    """`shuffle(buffer, seed)`: another order in every pass, drawn from a buffer of `buffer` examples."""

    def __init__(self, call: ir.Call) -> None:
        given = bind(call, buffer=MISSING, seed=None)
        self.buffer = given.integer("buffer", 1)
        self.seed = None if given.values["seed"] is None else given.integer("seed")


class Cache:
    """`cache()`: what comes before is read and decoded once and kept in memory."""

    def __init__(self, call: ir.Call) -> None:
        bind(call)


class Take:
    """`take(n)`: the first `n` examples."""

    def __init__(self, call: ir.Call) -> None:
        self.count = bind(call, n=MISSING).integer("n", 1)


class Skip:
    """`skip(n)`: all but the first `n` examples."""

    def __init__(self, call: ir.Call) -> None:
        self.count = bind(call, n=MISSING).integer("n")


Order = Shuffle | Cache | Take | Skip | Bucket
Transform = Change | Order

TRANSFORMS: dict[str, Callable[[ir.Call], Transform]] = {
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
            later = next((one for one in transforms[at + 1 :] if isinstance(one, Order)), None)
            if later is not None:
                reason = f"`{_name(later)}`, which comes after it, undoes the order"
                advice = "put it after `shuffle`, `take`, `skip` and `cache`, once"
                raise SpecError([errors.bad_transform("bucket", reason, each.call.span, advice)])
        kept = any(isinstance(one, Cache) for one in transforms[at + 1 :])
        if isinstance(each, Pad) and each.size is None and kept:
            reason = "each batch has its own size, and `cache` comes before there are batches"
            raise each.refuse(reason, "put it after `cache`, or give it a size: `to = SIZE`")
        if isinstance(each, Pad) and each.size is None and lookahead_of(_changes(transforms[at + 1 :])):
            reason = "`mixup`, which comes after it, needs an example more than the batch has"
            raise each.refuse(reason, "put it after `mixup`, or give it a size: `to = SIZE`")


def _changes(transforms: Sequence[Transform]) -> list[Change]:
    return [each for each in transforms if isinstance(each, Change)]


def _name(transform: Order) -> str:
    return type(transform).__name__.lower()


def make_transform(call: ir.Call) -> Transform:
    """Return the transform that `call` asks for; raises SpecError."""
    kind = TRANSFORMS.get(call.name)
    if kind is None:
        near = nearest(call.name, TRANSFORMS)
        advice = f"there is `{near}`" if near else None
        raise SpecError(
            [errors.bad_argument(call.name, "is no transform", call.name_span or call.span, advice)]
        )
    return kind(call)
