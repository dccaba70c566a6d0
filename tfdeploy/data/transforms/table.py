"""The transforms of `data` that choose and order examples, and the table of all transforms."""

from __future__ import annotations

from collections.abc import Sequence

from dsl import ir
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


class Window(Transform):
    """`window(size, shift, stride, horizon)`: runs of rows as examples.

    Attributes:
        shift: The number of rows from a window to the next one.
        labels: The tensors of which the steps of the horizon are taken.
        reach: The number of rows from the first to the last one that an example is made of.
    """

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.size: int = self.given["size"]
        self.shift: int = self.given["shift"]
        self.labels = self.given.texts("label") if self.given["label"] is not None else ()
        horizon, gap = self.given["horizon"], self.given["gap"]
        if not self.labels and (gap or horizon is not None):
            name = "gap" if horizon is None else "horizon"
            self.given.refuse(
                f"has no `label`, of which `{name}` counts the steps", name, "add `label = NAME`"
            )
        if gap and horizon == 0:
            self.given.refuse("has no horizon, so that nothing comes after the gap", "gap")
        horizon = 1 if horizon is None else horizon
        stride, first = self.given["stride"], self.size + gap if horizon else self.size - 1
        steps = self.size if not self.labels else first + max(horizon, 1)
        self.reach: int = (steps - 1) * stride + 1
        inside = range(0, self.size * stride, stride)
        self._ahead: range | int = range(first * stride, self.reach, stride) if horizon else inside[-1]
        self._inside = inside

    def rows(self, name: str) -> range | int:
        """Return the rows of a tensor that an example has, counted from its first: a range, or one row."""
        return self._ahead if name in self.labels else self._inside

    def count(self, rows: int) -> int:
        """Return how many windows a series of a number of rows has."""
        return max(0, (rows - self.reach) // self.shift + 1)


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
    "window": Window,
}
"""The transforms by the name they have in the language."""


def used_rows(transforms: Sequence[Transform]) -> tuple[int, int | None]:
    """Return the range of records that are used, as far as the transforms before a shuffle tell."""
    start, stop = 0, None
    for each in transforms:
        match each:
            case Shuffle():
                break
            case Skip():
                start += each.count
            case Take():
                stop = start + each.count if stop is None else min(stop, start + each.count)
    return start, stop


def require_order(transforms: Sequence[Transform]) -> None:
    """Raise SpecError if `window`, `bucket` or `pad` stands where it cannot have its effect."""
    for at, each in enumerate(transforms):
        early = next((one for one in transforms[:at] if not isinstance(one, Choice)), None)
        if isinstance(each, Window) and early is not None:
            reason = f"`{early.call.name}` stands before it, and windows are cut from the rows as they are"
            raise each.refuse(reason, "put it first, or after `take` and `skip`, once")
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
