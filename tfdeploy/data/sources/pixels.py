"""Decoding JPEG and PNG, and bringing images and masks to one size."""

from __future__ import annotations

import zlib
from functools import partial
from typing import Any

import tensorflow as tf

from dsl.schema.data_functions import RESIZES

FRACTIONS = (1, 2, 4, 8)
"""A JPEG decoder gives an image at one of these fractions of its size at less cost than the whole image."""

JPEG_START = b"\xff\xd8\xff"

LARGEST = 65_500
"""The largest height and width that a JPEG image can have."""

LARGEST_JPEG = bytes.fromhex("ffd8 ffc0000b08ffdcffdc01011100 ffda0008010100003f00")
"""The header of a JPEG image of the largest size: what is asked for its size instead of other images."""


def decode_image(
    data: Any,
    height: int,
    width: int,
    channels: int,
    *,
    resize: str = RESIZES[0],
    dtype: Any = tf.uint8,
) -> Any:
    """Return the image in the bytes `data`: whole numbers from 0 to 255, as dtype[height, width, channels].

    Grey images become coloured ones and the other way round, as `channels` asks. `resize` is one of RESIZES:

    - `bilinear` weighs the four nearest pixels,
    - `area` averages over the area of each new pixel,
    - `smooth` is bilinear with a filter as wide as the image gets smaller, at four times the cost,
    - `crop` is bilinear on the largest part in the middle that has the proportions of the new size.

    All but `smooth` first reduce an image that gets smaller by two, four or eight times or more to that
    fraction, by averages of blocks of pixels; in JPEG files this saves most of the decoding.

    Args:
        data: The bytes of a JPEG or PNG file, a scalar tensor of strings.
        channels: 1 for grey, 3 for colours.
        dtype: The type of the image, of which the numbers are from 0 to 255 even if it is a float.
    """
    if resize == "smooth":
        whole = tf.io.decode_image(data, channels=channels, expand_animations=False)
        resized = tf.image.resize(_ranked(whole, channels), [height, width], antialias=True)
        return tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), dtype)
    reduced = _ranked(_at_a_fraction(data, (height, width), channels, middle=resize == "crop"), channels)
    method = "area" if resize == "area" else "bilinear"
    # TensorFlow resizes floats to the same bits as bytes, in half of the time.
    resized = tf.image.resize(tf.cast(reduced, tf.float32), [height, width], method)
    # Averages of values up to 255 stay in that range, but for the last bits.
    return tf.cast(tf.round(resized), dtype)


PALETTE, GREY = 3, 0
"""How a PNG file says what its pixels are: places in a list of colours, or shades."""

_AS_SHADES = zlib.crc32(b"IHDR" + bytes(9) + bytes([PALETTE, 0, 0, 0])) ^ zlib.crc32(b"IHDR" + bytes(13))
"""How the checksum of a PNG header changes if it says that places in a list of colours are shades."""


def png_header(data: Any) -> tuple[Any, Any, Any]:
    """Return height and width of the image in a PNG file, the bits of a pixel, and the kind of its pixels."""
    sizes = tf.io.decode_raw(tf.strings.substr(data, 16, 8), tf.int32, little_endian=False)
    bits, kind = tf.unstack(tf.cast(tf.io.decode_raw(tf.strings.substr(data, 24, 2), tf.uint8), tf.int32), 2)
    return tf.reverse(sizes, [0]), bits, kind


def decode_mask(data: Any, image: Any, height: int, width: int, *, resize: str = RESIZES[0]) -> Any:
    """Return the numbers of a mask, of which each pixel takes the nearest one, as uint8[height, width, 1].

    A PNG file with a list of colours gives the places of its pixels in the list, which TensorFlow's decoder
    would turn into colours; so the file is read as if these were shades.

    Args:
        data: The bytes of a PNG file, a scalar tensor of strings.
        image: The bytes of the image that the mask belongs to. It must have the same size.
        resize: How the image is brought to this size: with `crop`, the mask is cut like it.
    """
    size, bits, kind = png_header(data)
    jpeg, shape = _jpeg(image)
    sizes = tf.cond(jpeg, lambda: shape[:2], lambda: png_header(image)[0])
    listed = tf.equal(kind, PALETTE)
    fits = [tf.reduce_all(tf.equal(size, sizes)), bits <= 8, tf.logical_or(listed, tf.equal(kind, GREY))]  # noqa: PLR2004 a byte
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(fits), ["a mask that does not fit"])]):
        data = tf.identity(data)
    found = tf.cond(listed, lambda: _places(data, bits), lambda: tf.io.decode_png(data, channels=1))
    if resize == "crop":
        top, left, high, wide = tf.unstack(_middle(tf.shape(found)[:2], (height, width)))
        found = found[top : top + high, left : left + wide]
    return tf.image.resize(_ranked(found, 1), [height, width], "nearest")


def _places(data: Any, bits: Any) -> Any:
    """Return the places of the pixels of a PNG file in its list of colours."""
    sums = tf.cast(tf.io.decode_raw(tf.strings.substr(data, 29, 4), tf.uint8), tf.int32)
    sums = tf.bitwise.bitwise_xor(sums, list(_AS_SHADES.to_bytes(4)))
    sums = tf.strings.reduce_join(tf.gather([bytes([each]) for each in range(256)], sums))
    parts = [tf.strings.substr(data, 0, 25), b"\0", tf.strings.substr(data, 26, 3), sums]
    shades = tf.strings.join([*parts, tf.strings.substr(data, 33, tf.strings.length(data))])
    step = 255 // (tf.bitwise.left_shift(1, tf.minimum(bits, 8)) - 1)  # shades of fewer bits are spread out
    return tf.io.decode_png(shades, channels=1) // tf.cast(step, tf.uint8)


def _ranked(image: Any, channels: int) -> Any:
    image.set_shape([None, None, channels])
    return image


def _fraction(shape: Any, size: tuple[int, int]) -> Any:
    """Return the index in FRACTIONS of the largest at which the image is not yet smaller than `size`."""
    shrinks = tf.reduce_min(shape // tf.constant(size))
    return tf.add_n([tf.cast(shrinks >= each, tf.int32) for each in FRACTIONS[1:]])


def _parts(shape: Any, fraction: int | Any) -> Any:
    """Return height and width of an image at a fraction: the last blocks may be smaller."""
    return (shape + fraction - 1) // fraction


def _middle(shape: Any, size: tuple[int, int]) -> Any:
    """Return top, left, height and width of the largest part in the middle with the proportions of `size`."""
    high, wide = shape[0], shape[1]
    height, width = size
    cut_high = tf.clip_by_value((wide * height + width // 2) // width, 1, high)
    cut_wide = tf.clip_by_value((high * width + height // 2) // height, 1, wide)
    return tf.stack([(high - cut_high) // 2, (wide - cut_wide) // 2, cut_high, cut_wide])


def _at_a_fraction(data: Any, size: tuple[int, int], channels: int, *, middle: bool) -> Any:
    """Decode an image, or its middle, at the fraction that suits `size`."""
    if channels not in {1, 3}:
        # No JPEG image has transparency, and the decoder says so.
        return _reduced(data, size, channels, middle=middle)
    # In most files every image is a JPEG image that is hardly larger than wanted. The fewer ops these need,
    # and the fewer tensors lead into the branch that they do not take, the better: all of them together have
    # taken a twentieth of the time of decoding.
    _, shape = _jpeg(data)
    least = tf.constant([min(side * FRACTIONS[1], LARGEST) for side in size] + [0])
    apart = tf.function(
        partial(_other, size=size, channels=channels, middle=middle),
        autograph=False,
        experimental_attributes={"_noinline": True},
    )
    return tf.cond(
        tf.reduce_any(shape < least),
        lambda: _decoded(data, shape, 1, size, channels, middle=middle),
        lambda: apart(data),
    )


def _jpeg(data: Any) -> tuple[Any, Any]:
    """Return whether an image is a JPEG image, and its height, width and channels.

    Another image gets the height and width of the largest JPEG image.
    """
    jpeg = tf.equal(tf.strings.substr(data, 0, len(JPEG_START)), JPEG_START)
    return jpeg, tf.io.extract_jpeg_shape(tf.where(jpeg, data, LARGEST_JPEG))


def _decoded(
    data: Any, shape: Any, fraction: int, size: tuple[int, int], channels: int, *, middle: bool
) -> Any:
    """Decode a JPEG image of a shape, or its middle, at a fraction."""
    if not middle:
        return tf.io.decode_jpeg(data, channels=channels, ratio=fraction)
    window = _middle(_parts(shape[:2], fraction), size)
    return tf.io.decode_and_crop_jpeg(data, window, channels=channels, ratio=fraction)


def _other(data: Any, *, size: tuple[int, int], channels: int, middle: bool) -> Any:
    """Decode a JPEG image that is larger than wanted at a fraction, or an image that is no JPEG image."""
    jpeg, shape = _jpeg(data)
    ways = [
        *(partial(_decoded, data, shape, each, size, channels, middle=middle) for each in FRACTIONS[1:]),
        partial(_reduced, data, size, channels, middle=middle),
    ]
    return tf.switch_case(tf.where(jpeg, _fraction(shape[:2], size) - 1, len(ways) - 1), ways)


def _reduced(data: Any, size: tuple[int, int], channels: int, *, middle: bool) -> Any:
    """Decode an image that is no JPEG, and give it, or its middle, at a fraction."""
    image = _ranked(tf.io.decode_image(data, channels=channels, expand_animations=False), channels)
    shape = tf.shape(image)[:2]
    fraction = tf.constant(FRACTIONS)[_fraction(shape, size)]
    image = tf.cond(fraction > 1, lambda: _averages(image, shape, fraction), lambda: image)
    if not middle:
        return image
    top, left, high, wide = tf.unstack(_middle(_parts(shape, fraction), size))
    return image[top : top + high, left : left + wide]


def _averages(image: Any, shape: Any, fraction: Any) -> Any:
    """Return the averages of blocks of `fraction` pixels in height and width."""
    parts = _parts(shape, fraction)
    missing = tf.pad(tf.expand_dims(parts * fraction - shape, 1), [[0, 1], [1, 0]])
    full = tf.cast(tf.pad(image, missing, "SYMMETRIC"), tf.float32)
    blocks = tf.reshape(full, [parts[0], fraction, parts[1], fraction, image.shape[-1]])
    return tf.cast(tf.round(tf.reduce_mean(blocks, [1, 3])), image.dtype)
