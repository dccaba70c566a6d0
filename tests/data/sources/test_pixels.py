"""Every way to bring an image to another size, held against TensorFlow's own functions."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdeploy.data.sources.pixels import RESIZES, _middle, decode_image

FRACTIONS = {(20, 30): 1, (39, 60): 1, (40, 60): 2, (95, 121): 4, (200, 250): 8, (400, 500): 8, (18, 500): 1}
SIZE = (20, 30)


def picture(height: int, width: int, channels: int = 3) -> np.ndarray:
    """Return a picture of waves, which every reduction changes."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    return np.asarray(128 + 100 * np.sin(y / 5 + c) * np.cos(x / 7 - c), np.uint8)


@cache
def decoder(resize: str, channels: int, size: tuple[int, int]) -> Any:
    """Return a function as a pipeline has it, in which nothing of the image is known beforehand."""
    text = tf.TensorSpec([], tf.string)
    return tf.function(
        lambda data: decode_image(data, *size, channels, resize=resize), input_signature=[text]
    )


def decoded(data: bytes, resize: str, channels: int = 3, size: tuple[int, int] = SIZE) -> np.ndarray:
    """Decode as a pipeline does."""
    image = decoder(resize, channels, size)(tf.constant(data))
    assert (image.dtype, image.shape) == (tf.uint8, (*size, channels))
    return np.asarray(image.numpy(), np.int32)


def resized(image: Any, resize: str) -> np.ndarray:
    """Return what TensorFlow gives for an image that was decoded at its fraction."""
    if resize == "crop":
        high, wide = image.shape[0], image.shape[1]
        high, wide = (
            min(high, int(wide * SIZE[0] / SIZE[1] + 0.5)),
            min(wide, int(high * SIZE[1] / SIZE[0] + 0.5)),
        )
        top, left = (image.shape[0] - high) // 2, (image.shape[1] - wide) // 2
        image = image[top : top + high, left : left + wide]
    method = "area" if resize == "area" else "bilinear"
    return np.asarray(
        np.clip(tf.image.resize(image, SIZE, method, antialias=resize == "smooth").numpy().round(), 0, 255),
        np.int32,
    )


def blocks(image: np.ndarray, fraction: int) -> np.ndarray:
    """Return the averages of blocks of pixels, the last ones mirrored where they are not full."""
    missing = [(0, -size % fraction) for size in image.shape[:2]]
    full = np.pad(image.astype(np.float64), [*missing, (0, 0)], "symmetric")
    high, wide = (size // fraction for size in full.shape[:2])
    return np.asarray(full.reshape(high, fraction, wide, fraction, -1).mean((1, 3)).round(), np.uint8)


@pytest.mark.family(every=9)
@pytest.mark.parametrize("resize", RESIZES)
@pytest.mark.parametrize("shape", FRACTIONS)
def test_a_way_to_resize_is_tensorflows(resize: str, shape: tuple[int, int]) -> None:
    """JPEG files are decoded at a fraction, others averaged in blocks; then TensorFlow's resizing follows."""
    fraction = 1 if resize == "smooth" else FRACTIONS[shape]
    data = tf.io.encode_jpeg(picture(*shape), quality=95).numpy()
    expected = resized(tf.io.decode_jpeg(data, channels=3, ratio=fraction), resize)
    np.testing.assert_array_equal(decoded(data, resize), expected)
    lossless = decoded(tf.io.encode_png(picture(*shape)).numpy(), resize)
    np.testing.assert_allclose(lossless, resized(blocks(picture(*shape), fraction), resize), atol=1)
    # The same picture looks the same in both formats.
    assert np.abs(lossless - expected).mean() < 3


@pytest.mark.parametrize("resize", ["bilinear", "area", "crop"])
def test_a_usual_jpeg_passes_no_ops_of_other_ways(resize: str) -> None:
    """One choice sets aside, in one function that is called as a whole, what few images need."""
    graph = decoder(resize, 3, SIZE).get_concrete_function().graph
    (choice,) = [each for each in graph.get_operations() if each.type in {"If", "StatelessIf", "Case"}]
    library = {each.signature.name: each for each in graph.as_graph_def().library.function}
    aside = library[choice.get_attr("else_branch").name]
    (call,) = [each for each in aside.node_def if each.op not in {"Identity", "Const"}]
    assert call.op == "PartitionedCall"
    assert library[call.attr["f"].func.name].attr["_noinline"].b


def test_ways_to_resize_differ() -> None:
    """No way stands for another: a picture that is twice as wide as it should be shows them all."""
    data = tf.io.encode_png(picture(50, 170)).numpy()
    found = [decoded(data, each) for each in RESIZES]
    for at, one in enumerate(found):
        assert all(np.abs(one - other).max() > 2 for other in found[:at])


@pytest.mark.family(every=4)
@pytest.mark.parametrize("resize", RESIZES)
def test_grey_and_coloured_images_in_every_way(resize: str) -> None:
    """Channels are those asked for, at a fraction and whole, and images may grow."""
    for shape in ((90, 130), (7, 5)):
        for held in (1, 3):
            for wanted in (1, 3):
                jpeg = tf.io.encode_jpeg(picture(*shape, held)).numpy()
                png = tf.io.encode_png(picture(*shape, held)).numpy()
                assert np.abs(decoded(jpeg, resize, wanted) - decoded(png, resize, wanted)).mean() < 8
    assert decoded(tf.io.encode_png(picture(90, 130, 4)).numpy(), resize, 4)[..., 3].std() > 10
    with pytest.raises(tf.errors.InvalidArgumentError, match="JPEG does not support 4 channels"):
        decoded(tf.io.encode_jpeg(picture(90, 130)).numpy(), resize, 4)


def test_a_cropped_image_keeps_its_proportions() -> None:
    """What is cut off are stripes on both sides, as wide as the other."""
    stripes = np.zeros([60, 300, 3], np.uint8)
    stripes[:, 100:200] = 200
    for encode in (tf.io.encode_png, tf.io.encode_jpeg):
        assert decoded(encode(stripes).numpy(), "crop").min() > 150
        assert decoded(encode(stripes.transpose(1, 0, 2)).numpy(), "crop", 3, (30, 20)).min() > 150


@pytest.mark.parametrize(
    ("shape", "size", "part"),
    [
        ((10, 20), (5, 5), (0, 5, 10, 10)),
        ((20, 10), (5, 5), (5, 0, 10, 10)),
        ((7, 20), (3, 4), (0, 5, 7, 9)),  # 9.33 columns
        ((8, 20), (3, 4), (0, 4, 8, 11)),  # 10.67 columns
        ((20, 7), (4, 3), (5, 0, 9, 7)),
        ((20, 8), (4, 3), (4, 0, 11, 8)),
        ((7, 40), (5, 6), (0, 16, 7, 8)),  # 8.4 columns
        ((3, 40), (5, 6), (0, 18, 3, 4)),  # 3.6 columns
        ((40, 3), (6, 5), (18, 0, 4, 3)),
        ((9, 1), (1, 3), (4, 0, 1, 1)),
    ],
)
def test_the_middle_is_cut_to_the_nearest_pixel(
    shape: tuple[int, int], size: tuple[int, int], part: tuple[int, int, int, int]
) -> None:
    """Top, left, height and width of the largest part in the middle, of at least one pixel."""
    assert tuple(_middle(tf.constant(shape), size).numpy()) == part
