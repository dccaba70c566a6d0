"""The transforms of `data` that crop, flip, recolour, cover and mix images.

All but `center_crop` are random, and are applied only to examples for training. The numbers of an example are
drawn for its number and pass (`draws_of`). Batches have the shape [rows, height, width, channels].
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import floor
from typing import Any, ClassVar

import tensorflow as tf
from attrs import evolve, frozen

from dsl import ir
from tfdeploy.data.arguments import FLOATS, Field, Tensors
from tfdeploy.data.transforms.changes import Change, Fields, OneTensor

IMAGE_RANK = 3
COLOURS = 3


BITS = 24
"""The bits of a random number: as many as float32 represents exactly below 1."""


@frozen
class Draws:
    """The random numbers that a change draws for each row of a batch.

    They follow from the key of an example and a seed alone, so that an example gets the same numbers whatever
    the batch, the clone, the worker and the process that reads it, and also if a run is resumed.
    """

    # The numbers of the draws. Different draws are independent.
    which: tuple[int, ...]
    numbers: Any  # at least 0 and below 1, a float32 tensor of shape [draws, rows]

    def uniform(self, draw: int) -> Any:
        """Return the numbers of a draw, of shape [rows]."""
        return self.numbers[self.which.index(draw)]

    def without_last(self, rows: int) -> Draws:
        """Return the draws of all rows but the last ones."""
        return evolve(self, numbers=self.numbers[:, :-rows]) if rows else self

    def between(self, draw: int, low: float, high: float) -> Any:
        """Return a random number of each row from `low` to `high`, a float32 tensor of shape [rows]."""
        return low + (high - low) * self.uniform(draw)

    def below(self, counts: Sequence[int]) -> Any:
        """Return whole numbers from 0 to each draw's count - 1, an int32 tensor of shape [draws, rows]."""
        limits = tf.constant([[count] for count in counts], tf.float32)
        return tf.cast(self.numbers * limits, tf.int32)

    def beta(self, alpha: float) -> Any:
        """Return a random number of each row from the distribution Beta(alpha, alpha).

        The number is the quantile of a uniform number, found by halving the interval.

        Returns:
            Numbers from 0 to 1, a float32 tensor of shape [rows].
        """
        wanted = tf.cast(self.uniform(0), tf.float64)
        parameter = tf.fill(tf.shape(wanted), tf.constant(alpha, tf.float64))
        low = tf.zeros_like(wanted)
        for step in range(1, BITS + 1):
            middle = low + 2.0**-step
            low = tf.where(tf.math.betainc(parameter, parameter, middle) <= wanted, middle, low)
        return tf.cast(low, tf.float32)


class RandomChange(Change):
    """A transform whose result depends on random numbers of the example.

    `apply` is what it does to examples that are not for training.
    """

    draws: tuple[int, ...]
    """The numbers of its draws."""

    lookahead: ClassVar[int] = 0
    """How many examples after the last one of a batch are needed to change the batch."""

    @abstractmethod
    def apply_randomly(self, tensors: Tensors, draws: Draws) -> Tensors:
        """Change a batch of examples for training.

        Args:
            tensors: The tensors, with a batch axis. If there is a lookahead, they have as many more rows.
        """


def draws_of(changes: Mapping[int, RandomChange], keys: Any, seed: int) -> Mapping[int, Draws]:
    """Draw all random numbers of a batch at once, which takes about the time of one.

    Args:
        changes: The changes by their numbers among the transforms of a split: each draws numbers of its own.
        keys: Which examples the rows are: the number of the pass and the number of the record in its source,
            an int64 tensor of shape [rows, 2].

    Returns:
        The draws of each change. A change that comes after others with a lookahead has fewer rows.
    """
    seeds = {index: _seed_of(seed, index) for index in changes}
    wanted = [[[seeds[index], draw]] for index, change in changes.items() for draw in change.draws]
    if not wanted:
        return {}
    rows = tf.shape(keys)[0] if keys.shape[0] is None else keys.shape[0]
    shape = [len(wanted), rows, 2]
    given = tf.broadcast_to(tf.constant(wanted, tf.int64), shape)
    hashed = tf.fingerprint(tf.reshape(tf.concat([given, tf.broadcast_to(keys, shape)], axis=-1), [-1, 4]))
    bits = tf.bitwise.bitwise_and(tf.bitcast(hashed, tf.int64), (1 << 32) - (1 << (32 - BITS)))
    numbers = tf.reshape(tf.cast(bits, tf.float32) * 2.0**-32, shape[:2])
    found, first, fewer = {}, 0, 0
    for index, change in changes.items():
        last = first + len(change.draws)
        found[index] = Draws(change.draws, numbers[first:last]).without_last(fewer)
        first, fewer = last, fewer + change.lookahead
    return found


def _seed_of(seed: int, index: int) -> int:
    """Return the seed of the transform number `index` of a split, from 0 to 2**63 - 1."""
    digest = blake2b(f"{seed}/{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


class OneImage(OneTensor):
    """A change of one tensor, which must be an image of shape [height, width, channels]."""

    def after(self, before: Field) -> Field:
        """Return the image after the change; raises SpecError if it is not an image."""
        if len(before.shape) != IMAGE_RANK or not (before.dtype in FLOATS or before.dtype == "uint8"):
            reason = f"`{before.name}` is {before.words}, not an image of uint8 or floats with three axes"
            advice = f"put `-> reshape({before.name}, [height, width, channels])` before it"
            raise self.refuse(reason, advice if len(before.shape) not in {0, IMAGE_RANK} else None)
        return self.image_after(before)

    def image_after(self, before: Field) -> Field:
        """Return the image after the change, if it is an image before it; raises SpecError."""
        return before


class OneRandomImage(OneImage, RandomChange):
    """A random change of one image, or of several in the same way."""

    def fields(self, before: Fields) -> Fields:
        """Return the images after the change; raises SpecError for images of different sizes."""
        found = super().fields(before)
        sizes = {before[name].shape[:2] for name in self.names}
        if len(sizes) > 1:
            known = ", ".join(f"`{name}` {before[name].words}" for name in self.names)
            raise self.refuse(f"{known} are not of the same height and width, so that no place is the same")
        return found

    @abstractmethod
    def change_randomly(self, images: Any, draws: Draws) -> Any:
        """Return the batch of images, of shape [rows, height, width, channels], after the change."""

    def change(self, tensor: Any) -> Any:
        """Return images that are not for training as they are."""
        return tensor

    def apply_randomly(self, tensors: Tensors, draws: Draws) -> Tensors:
        """Change the images that are there, all by the same random numbers."""
        there = [name for name in self.names if name in tensors]
        return {**tensors, **{name: self.change_randomly(tensors[name], draws) for name in there}}


def _require_fill(change: OneImage, image: Field, fill: float) -> None:
    """Raise a SpecError if a pixel cannot be `fill`."""
    if image.dtype == "uint8" and fill not in range(256):
        raise change.refuse(f"`{image.name}` is {image.words}, whose pixels cannot be {fill}")


def _middle(images: Any, size: tuple[int, int]) -> Any:
    top, left = ((images.shape[axis] - size[axis - 1]) // 2 for axis in (1, 2))
    return images[:, top : top + size[0], left : left + size[1]]


class CenterCrop(OneImage):
    """`center_crop(name, [height, width])`: the middle of an image."""

    moves_only = True

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.size = self.given.pair("size")

    def image_after(self, before: Field) -> Field:
        """Return the smaller size."""
        return _cropped(self, before, self.size, 0)

    def change(self, tensor: Any) -> Any:
        """Return the middle; if a row or column is left over, it is cut off at the bottom or the right."""
        return _middle(tensor, self.size)


class RandomCrop(OneRandomImage):
    """`random_crop(name, [height, width], pad, fill)`: a random part of the image with a margin around it."""

    moves_only = True
    draws = (1, 2)

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.size = self.given.pair("size")
        self.pad: int = self.given["pad"]
        self.fill: float = self.given["fill"]

    def image_after(self, before: Field) -> Field:
        """Return the size of the part."""
        _require_fill(self, before, self.fill)
        return _cropped(self, before, self.size, self.pad)

    def change(self, tensor: Any) -> Any:
        """Return the middle of the image with its margin."""
        return _middle(self._padded(tensor), self.size)

    def change_randomly(self, images: Any, draws: Draws) -> Any:
        """Return a part whose place is drawn for each image."""
        images = self._padded(images)
        places = draws.below([images.shape[axis] - self.size[axis - 1] + 1 for axis in self.draws])
        if images.shape[0] == 1:  # a slice of one image takes a tenth of the time, of two axes least
            top, left = tf.unstack(tf.reshape(places, [2]))
            _, _, width, channels = images.shape
            lines = tf.reshape(images, [-1, width * channels])
            part = tf.slice(lines, [top, left * channels], [self.size[0], self.size[1] * channels])
            return tf.reshape(part, [1, *self.size, channels])
        for axis, size, first in zip(self.draws, self.size, tf.unstack(places), strict=True):
            lines = first[:, tf.newaxis] + tf.range(size)
            images = tf.gather(images, lines, axis=axis, batch_dims=1)
        return images

    def _padded(self, images: Any) -> Any:
        margin = [self.pad, self.pad]
        fill = tf.cast(self.fill, images.dtype)
        return tf.pad(images, [[0, 0], margin, margin, [0, 0]], constant_values=fill) if self.pad else images


def _cropped(change: OneImage, before: Field, size: tuple[int, int], pad: int) -> Field:
    height, width, channels = before.sizes
    if size[0] > height + 2 * pad or size[1] > width + 2 * pad:
        margin = f" with a margin of {pad}" if pad else ""
        reason = f"`{before.name}` is {before.words}{margin}, which is smaller than {list(size)}"
        raise change.refuse(reason)
    return evolve(before, shape=(*size, channels))


DIRECTIONS = {"horizontal": (2,), "vertical": (1,), "both": (1, 2)}
"""The axes that each direction of a flip reverses."""


class RandomFlip(OneRandomImage):
    """`random_flip(name, direction)`: half of the images, mirrored."""

    moves_only = True

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.draws = DIRECTIONS[self.given["direction"]]  # the axes

    def change_randomly(self, images: Any, draws: Draws) -> Any:
        """Reverse each axis of half of the images."""
        for axis in self.draws:
            images = _flipped(images, axis, draws.uniform(axis) < 0.5)  # noqa: PLR2004 half of them
        return images


def _flipped(images: Any, axis: int, which: Any) -> Any:
    """Return the images, those of them reversed that `which` says."""
    shape = images.shape
    # TensorFlow reverses the middle of three axes several times as fast as one of four.
    rows = (
        [-1, shape[2], shape[3]]
        if axis == DIRECTIONS["horizontal"][0]
        else [-1, shape[1], shape[2] * shape[3]]
    )

    def reversed_images() -> Any:
        return tf.reshape(tf.reverse(tf.reshape(images, rows), [1]), [-1, *shape[1:]])

    if shape[0] == 1:  # a choice for each pixel takes many times as long
        found = tf.cond(which[0], reversed_images, lambda: images)
        found.set_shape(shape)
        return found
    return tf.where(_for_images(which), reversed_images(), images)


def _for_images(numbers: Any) -> Any:
    """Return one number for each image in the shape [rows, 1, 1, 1]."""
    return numbers[:, tf.newaxis, tf.newaxis, tf.newaxis]


class RandomColor(OneRandomImage):
    """`random_color(name, brightness, contrast, saturation, hue, range)`: other light and other colours."""

    KINDS = ("brightness", "contrast", "saturation", "hue")

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        if all(self.given[kind] is None for kind in self.KINDS):
            self.given.refuse(
                "changes nothing", advice="give it `brightness`, `contrast`, `saturation` or `hue`"
            )
        self.draws = tuple(at for at, kind in enumerate(self.KINDS) if self.given[kind] is not None)
        self.brightness, self.hue = self._around("brightness", 0), self._around("hue", 0)
        self.contrast, self.saturation = self._around("contrast", 1), self._around("saturation", 1)
        self.range = (0.0, 0.0) if self.given["range"] is None else self._numbers("range")

    def _around(self, name: str, middle: float) -> tuple[float, float] | None:
        """Return the bounds of a random number, given as both or as the distance from the middle."""
        value = self.given[name]
        if value is None:
            return None
        if isinstance(value, tuple):
            return self._numbers(name)
        return max(middle - value, 0 if middle else -value), middle + value

    def _numbers(self, name: str) -> tuple[float, float]:
        numbers = self.given[name]
        if len(numbers) != 2 or numbers[0] >= numbers[1]:  # noqa: PLR2004 both ends
            self.given.refuse(
                f"takes the lowest and the highest number as `{name}`", name, "write `[low, high]`"
            )
        return float(numbers[0]), float(numbers[1])

    def image_after(self, before: Field) -> Field:
        """Return the same image; raises SpecError if it has no colours to change."""
        if (self.saturation or self.hue) and before.shape[-1] != COLOURS:
            reason = f"`{before.name}` is {before.words}, and `saturation` and `hue` need 3 channels"
            raise self.refuse(reason)
        return before

    def change_randomly(self, images: Any, draws: Draws) -> Any:
        """Change light and colours of the images, in float32 numbers from 0 to 1."""
        low, high = self.range
        if low == high:
            low, high = (0.0, 255.0) if images.dtype == tf.uint8 else (0.0, 1.0)
        found = (tf.cast(images, tf.float32) - low) / (high - low)
        if self.brightness:
            found += _for_images(draws.between(0, *self.brightness))
        if self.contrast:
            mean = tf.reduce_mean(found, axis=[1, 2], keepdims=True)
            found = mean + _for_images(draws.between(1, *self.contrast)) * (found - mean)
        found = tf.clip_by_value(found, 0, 1)
        if self.saturation or self.hue:
            found = self._recoloured(found, draws)
        found = found * (high - low) + low
        return tf.cast(tf.round(found) if images.dtype == tf.uint8 else found, images.dtype)

    def _recoloured(self, images: Any, draws: Draws) -> Any:
        hue, saturation, value = tf.unstack(tf.image.rgb_to_hsv(images), axis=-1)
        if self.saturation:
            factor = draws.between(2, *self.saturation)
            saturation = tf.clip_by_value(saturation * factor[:, tf.newaxis, tf.newaxis], 0, 1)
        if self.hue:
            hue = tf.math.floormod(hue + draws.between(3, *self.hue)[:, tf.newaxis, tf.newaxis], 1)
        return tf.clip_by_value(tf.image.hsv_to_rgb(tf.stack([hue, saturation, value], axis=-1)), 0, 1)


class Cutout(OneRandomImage):
    """`cutout(name, size, fill)`: a covered rectangle around a random pixel (DeVries and Taylor, 2017)."""

    draws = (1, 2)

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        size = self.given["size"]
        sizes = size if isinstance(size, tuple) else (size,)
        self.size = (sizes[0], sizes[0]) if len(sizes) == 1 else self.given.pair("size")
        self.fill: float = self.given["fill"]

    def image_after(self, before: Field) -> Field:
        """Return the same image; raises SpecError if its pixels cannot be `fill`."""
        _require_fill(self, before, self.fill)
        return before

    def change_randomly(self, images: Any, draws: Draws) -> Any:
        """Cover the part of the rectangle that is inside the image."""
        covered = tf.constant(True)
        middles = draws.below([images.shape[axis] for axis in self.draws])
        for axis, size, middle in zip(self.draws, self.size, tf.unstack(middles), strict=True):
            lines = tf.range(images.shape[axis]) - (middle - floor(size / 2))[:, tf.newaxis]
            inside = tf.logical_and(lines >= 0, lines < size)
            covered = tf.logical_and(covered, tf.expand_dims(tf.expand_dims(inside, 3 - axis), 3))
        return tf.where(covered, tf.cast(self.fill, images.dtype), images)


class Mixup(RandomChange):
    """`mixup(image, label, alpha)`: every example mixed with the next one (Zhang and others, 2018).

    The example `x`, with `y` after it in the stream, becomes `s * x + (1 - s) * y`. The share `s` is drawn
    from Beta(alpha, alpha) for each example. After the last example of a pass comes the first of the next.
    """

    lookahead = 1
    draws = (0,)

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.names = (self.given["image"], self.given["label"])
        self.alpha: float = self.given["alpha"]

    def fields(self, before: Fields) -> Fields:
        """Return the same tensors; raises SpecError if they cannot be mixed."""
        for argument, name in zip(("image", "label"), self.names, strict=True):
            field = self.given.tensor(name, before, argument)
            mixes = field.dtype in FLOATS or (field.dtype == "uint8" and len(field.shape) == IMAGE_RANK)
            self.require_fixed(field)
            if not mixes:
                change = "cast(NAME, float32)" if field.shape else "one_hot(NAME, classes)"
                advice = f"put `-> {change.replace('NAME', name)}` before it"
                reason = f"`{name}` is {field.words}, and only floats, and images of uint8, can be mixed"
                raise self.refuse(reason, advice)
        return before

    def apply(self, tensors: Tensors) -> Tensors:
        """Return examples that are not for training as they are."""
        return tensors

    def apply_randomly(self, tensors: Tensors, draws: Draws) -> Tensors:
        """Mix each row with the one after it; the last row is left out."""
        share = draws.without_last(self.lookahead).beta(self.alpha)
        return {
            name: _mixed(tensor, share) if name in self.names else tensor[:-1]
            for name, tensor in tensors.items()
        }


def _mixed(tensor: Any, share: Any) -> Any:
    """Return the mixture of each row and the next one, rounded for whole numbers."""
    dtype = tf.float32 if tensor.dtype == tf.uint8 else tensor.dtype
    numbers = tf.cast(tensor, dtype)
    share = tf.cast(tf.reshape(share, [-1] + [1] * (len(tensor.shape) - 1)), dtype)
    mixture = share * numbers[:-1] + (1 - share) * numbers[1:]
    return tf.cast(tf.round(mixture) if tensor.dtype == tf.uint8 else mixture, tensor.dtype)


def lookahead_of(changes: Sequence[Change]) -> int:
    """Return how many further examples a batch needs to be changed by all of `changes`."""
    return sum(change.lookahead for change in changes if isinstance(change, RandomChange))
