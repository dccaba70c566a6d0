"""The transforms of images: what they do, and that their numbers follow from seed, pass and example."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from dsl import ir
from tests.data.sources.test_images import png
from tests.data.transforms.drawn import drawn
from tfdeploy.data import TRANSFORMS, small_graphs
from tfdeploy.data.transforms.images import draws_of

COUNT = 12
SHAPE = (6, 8, 3)
FLOAT = {"image": ("float32", SHAPE), "label": ("float32", (COUNT,))}
FLIPS = (("random_flip", "image", "both"),)
MANY = (
    ("random_crop", "image", (6, 8), {"pad": 2}),
    ("random_flip", "image"),
    ("random_color", "image", {"brightness": 0.2, "contrast": (0.5, 1.5), "saturation": 0.4, "hue": 0.1}),
    ("cutout", "image", 3),
)
MIXED = (("one_hot", "label", COUNT), ("mixup", "image", "label", {"alpha": 0.5}))
PLAIN = (("one_hot", "label", COUNT),)


def arrays() -> dict[str, np.ndarray]:
    """Return twelve examples, each with its number as its label."""
    images = np.random.default_rng(0).random([COUNT, *SHAPE], np.float32)
    return {"image": images, "label": np.arange(COUNT, dtype=np.int32)}


@pytest.fixture
def images(reader: Any) -> Any:
    """Give a function that opens the examples with transforms, which are tuples of name and arguments."""
    np.savez(reader.base / "i.npz", **arrays())

    def opened(*transforms: Any, wanted: Any = FLOAT, **options: Any) -> Any:
        calls = []
        for name, *given in transforms:
            keywords = given.pop() if given and isinstance(given[-1], dict) else {}
            calls.append(reader.call(name, *given, **keywords))
        return reader.open(
            reader.call("npz", "i.npz"), *calls, wanted=wanted, seed=options.pop("seed", 3), **options
        )

    return opened


def read(reader: Any, stream: Any, size: int = 5, most: int = 1000, **how: Any) -> dict[str, np.ndarray]:
    """Return the examples of all batches one after the other."""
    batches = reader.batches(stream, size, most=most, **how)
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def by_label(found: dict[str, np.ndarray], start: int = 0) -> np.ndarray:
    """Return the images of the pass that begins at `start`, in the order of their labels."""
    labels = found["label"][start : start + COUNT].argmax(-1)
    assert sorted(labels) == list(range(COUNT))
    return found["image"][start : start + COUNT][np.argsort(labels)]


def test_random_numbers_are_uniform_and_independent() -> None:
    """Draws, passes, numbers and seeds give numbers of the right mean and variance, without correlation."""
    rows = drawn(seed=5, passes=3, numbers=4000, draws=3)
    assert rows.min() >= 0
    assert rows.max() < 1
    np.testing.assert_allclose(rows.mean(axis=-1), 0.5, atol=0.02)
    np.testing.assert_allclose(rows.var(axis=-1), 1 / 12, atol=0.005)
    columns = rows.reshape(-1, rows.shape[-1])
    several = np.concatenate([columns, drawn(seed=6, passes=1, numbers=4000, draws=1)[0]])
    correlations = np.corrcoef(several) - np.eye(len(several))
    assert np.abs(correlations).max() < 0.08
    assert abs(np.corrcoef(columns[0][1:], columns[0][:-1])[0, 1]) < 0.08


def test_crops_flips_and_covers_are_those_of_numpy(reader: Any, images: Any) -> None:
    """Each random image is one of those that the transform can make, and several of them occur."""
    source = arrays()["image"]
    wanted = {**FLOAT, "image": ("float32", (4, 5, 3))}
    crop = images(*PLAIN, ("random_crop", "image", (4, 5), {"pad": 1, "fill": 7}), wanted=wanted)
    padded = np.pad(source, [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=7)
    places = set()
    for image, whole in zip(read(reader, crop)["image"], padded, strict=True):
        (place,) = [
            (y, x) for y in range(5) for x in range(6) if np.array_equal(image, whole[y : y + 4, x : x + 5])
        ]
        places.add(place)
    assert len(places) > 6
    assert len({y for y, _ in places}) > 2

    kinds = set()
    for image, whole in zip(read(reader, images(*PLAIN, *FLIPS))["image"], source, strict=True):
        flips = {"none": whole, "y": whole[::-1], "x": whole[:, ::-1], "both": whole[::-1, ::-1]}
        (kind,) = [name for name, each in flips.items() if np.array_equal(image, each)]
        kinds.add(kind)
    assert kinds == {"none", "y", "x", "both"}

    covered = read(reader, images(*PLAIN, ("cutout", "image", (2, 3), {"fill": -1})))["image"]
    sizes = set()
    for image, whole in zip(covered, source, strict=True):
        mask = (image == -1).all(-1)
        np.testing.assert_array_equal(image[~mask], whole[~mask])
        rows, columns = mask.any(1), mask.any(0)
        np.testing.assert_array_equal(mask, rows[:, None] & columns)
        sizes.add((int(rows.sum()), int(columns.sum())))
    assert (2, 3) in sizes
    assert max(sizes) == (2, 3)


@pytest.mark.full
def test_colours_are_those_of_tensorflow(reader: Any, images: Any) -> None:
    """Within the limits of the drawn factors, images are changed as tf.image changes them."""
    source = arrays()["image"]
    functions = {"contrast": tf.image.adjust_contrast, "saturation": tf.image.adjust_saturation}
    for (keyword, function), factor in product(functions.items(), (0.5, 3.0)):
        stream = images(*PLAIN, ("random_color", "image", {keyword: (factor, factor + 1e-6)}))
        expected = np.clip(function(source, factor).numpy(), 0, 1)
        np.testing.assert_allclose(read(reader, stream)["image"], expected, atol=1e-4)
    hue = images(*PLAIN, ("random_color", "image", {"hue": (0.25, 0.250001)}))
    expected = tf.image.adjust_hue(source, 0.25).numpy()
    np.testing.assert_allclose(read(reader, hue)["image"], expected, atol=1e-4)
    wide = images(
        *PLAIN, ("scale", "image", 2, -1), ("random_color", "image", {"brightness": 0.5, "range": (-1, 1)})
    )
    added = read(reader, wide)["image"] - (source * 2 - 1)
    inside = np.abs(read(reader, wide)["image"]) < 1
    shifts = [each[mask].mean() for each, mask in zip(added, inside, strict=True)]
    for each, mask, shift in zip(added, inside, shifts, strict=True):
        np.testing.assert_allclose(each[mask], shift, atol=1e-5)
    assert min(shifts) < -0.2
    assert max(shifts) > 0.2
    assert max(np.abs(shifts)) <= 1


def test_whole_numbers_stay_whole_numbers(reader: Any) -> None:
    """Images of uint8 are changed in [0, 255] and rounded, by every transform."""
    np.savez(
        reader.base / "u.npz", image=np.full([40, 4, 4, 3], 200, np.uint8), y=np.zeros([40, 2], np.float32)
    )
    call = reader.call
    stream = reader.open(
        call("npz", "u.npz"),
        call("random_crop", "image", (4, 4), pad=1, fill=9),
        call("random_flip", "image"),
        call("random_color", "image", brightness=0.1),
        call("cutout", "image", 1, fill=3),
        call("mixup", "image", "y"),
        wanted={"image": ("uint8", (4, 4, 3)), "y": ("float32", (2,))},
        seed=1,
    )
    found = read(reader, stream)["image"]
    assert (found.dtype, found.shape) == (np.uint8, (40, 4, 4, 3))
    assert np.median(found[:, 1:3, 1:3], axis=(1, 2, 3)).min() > 150
    assert len(np.unique(found)) > 20


@pytest.mark.full
@pytest.mark.parametrize("flow", [(*PLAIN, *MANY), (*MIXED, *FLIPS)], ids=["alone", "mixed"])
def test_the_numbers_of_an_example_do_not_depend_on_batches_or_resuming(
    reader: Any, images: Any, flow: Any
) -> None:
    """Any batch size, and a stream that is resumed anywhere, gives the same examples bit for bit."""
    shuffled = (("shuffle", 7), *flow)
    whole = read(reader, images(*shuffled), 5, repeat=True, most=12)
    other = read(reader, images(*shuffled), 4, repeat=True, drop_remainder=True, most=15)
    for name, values in whole.items():
        np.testing.assert_array_equal(values, other[name])
    first, second = whole["image"][:COUNT], whole["image"][COUNT : 2 * COUNT]
    assert not np.array_equal(np.sort(first, axis=None), np.sort(second, axis=None))
    for consumed in (3, 29):
        resumed = read(reader, images(*shuffled, skip_examples=consumed), 7, repeat=True, most=3)
        for name, values in resumed.items():
            np.testing.assert_array_equal(values, whole[name][consumed : consumed + 21])
    once = reader.batches(images(*shuffled), 5)
    assert [len(batch["label"]) for batch in once] == [5, 5, 2]
    for name in whole:
        np.testing.assert_array_equal(np.concatenate([each[name] for each in once]), whole[name][:COUNT])
        single = np.stack([each[name] for each in reader.single(images(*shuffled))])
        np.testing.assert_array_equal(single, whole[name][:COUNT])


@pytest.mark.full
def test_the_numbers_follow_the_example_and_not_its_place(reader: Any, images: Any) -> None:
    """In one pass an example is the same in every order and share; another pass or seed gives another."""
    flow = (*PLAIN, *MANY)
    plain = read(reader, images(*flow), repeat=True, drop_remainder=True, size=6, most=4)
    first, second = by_label(plain), by_label(plain, COUNT)
    differ = [not np.array_equal(one, two) for one, two in zip(first, second, strict=True)]
    assert sum(differ) == COUNT
    shuffled = read(
        reader, images(("shuffle", 12), ("cache",), ("shuffle", 5), *flow), repeat=True, size=6, most=4
    )
    np.testing.assert_array_equal(by_label(shuffled), first)
    np.testing.assert_array_equal(by_label(shuffled, COUNT), second)
    shares = [read(reader, images(*flow, shard=(index, 3))) for index in range(3)]
    together = {name: np.concatenate([each[name] for each in shares]) for name in plain}
    np.testing.assert_array_equal(by_label(together), first)
    rest = read(reader, images(("skip", 4), *flow))
    np.testing.assert_array_equal(rest["image"], first[4:])
    other = read(reader, images(*flow, seed=4))
    assert not np.array_equal(by_label(other), first)


@pytest.mark.full
def test_files_and_images_of_a_share_have_the_numbers_of_the_whole(reader: Any) -> None:
    """Whole files of a share, and images that are decoded one by one, get the numbers of a single reader."""
    call = reader.call
    for at in range(4):
        records = [bytes([at * 2 + number]) + bytes(range(256)) * 12 for number in range(2)]
        (reader.base / f"c-{at}.bin").write_bytes(b"".join(records))
        folder = reader.base / "pictures" / f"{at % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{at}.png").write_bytes(png(at * 50, 5, 5))
    wanted = {"image": ("uint8", (32, 32, 3)), "label": ("int32", ())}
    flow = [call("random_flip", "image"), call("cutout", "image", 9)]

    def of(source: Any, wanted: Any, **options: Any) -> dict[int, bytes]:
        stream = reader.open(source, *flow, wanted=wanted, seed=2, **options)
        found = read(reader, stream)
        keys = (
            found["image"].reshape(len(found["image"]), -1).max(-1)
            if "label" not in found
            else found["label"]
        )
        return {int(key): image.tobytes() for key, image in zip(keys, found["image"], strict=True)}

    files = call("cifar10", "c-*.bin")
    whole = of(files, wanted)
    assert len(whole) == 8
    assert of(files, wanted, shard=(0, 2)) | of(files, wanted, shard=(1, 2)) == whole
    pictures = call("images", "pictures", size=(32, 32))
    only = {"image": ("uint8", (32, 32, 3))}
    whole = of(pictures, only)
    assert of(pictures, only, shard=(0, 2)) | of(pictures, only, shard=(1, 2)) == whole


def test_mixup_mixes_each_example_with_the_next(reader: Any, images: Any) -> None:
    """Labels tell the share and the partner, which is the next example, that of the next pass at the end."""
    found = read(reader, images(*MIXED), 5, repeat=True, most=5)
    source = arrays()["image"]
    shares = []
    for at, (image, label) in enumerate(zip(found["image"], found["label"], strict=True)):
        first, second = at % COUNT, (at + 1) % COUNT
        share = label[first]
        np.testing.assert_allclose(label.sum(), 1, rtol=1e-6)
        np.testing.assert_allclose(label[second], 1 - share, atol=1e-6)
        np.testing.assert_allclose(image, share * source[first] + (1 - share) * source[second], atol=1e-6)
        shares.append(share)
    assert min(shares) < 0.3
    assert max(shares) > 0.7
    assert len(set(shares)) > 20
    with tf.Graph().as_default():
        full = images(*MIXED).batches(5, repeat=True, drop_remainder=True).element_spec
    assert {each.shape[0] for each in full.values()} == {5}


@pytest.mark.full
def test_mixup_of_images_that_are_decoded_one_by_one(reader: Any) -> None:
    """Images of files are mixed with the next one too, across batches and passes."""
    folder = reader.base / "pictures" / "0"
    folder.mkdir(parents=True)
    for at in range(5):
        (folder / f"{at}.png").write_bytes(png(at * 50, 4, 4))
    call = reader.call
    wanted = {"image": ("float32", (4, 4, 3)), "label": ("float32", (1,))}
    flow = [call("cast", "image", "float32"), call("one_hot", "label", 1)]
    source = call("images", "pictures", size=(4, 4))
    plain = read(reader, reader.open(source, *flow, wanted=wanted, seed=1))["image"]
    flow = [
        *flow,
        call("random_flip", "image"),
        call("mixup", "image", "label", 1.0),
        call("scale", "image", 2),
    ]
    found = [
        read(reader, reader.open(source, *flow, wanted=wanted, seed=1), size, repeat=True, most=12 // size)[
            "image"
        ]
        for size in (3, 4)
    ]
    np.testing.assert_array_equal(*found)
    for at, image in enumerate(found[0]):
        one, two = plain[at % 5].max(), plain[(at + 1) % 5].max()
        assert 2 * min(one, two) - 1e-3 <= image.max() <= 2 * max(one, two) + 1e-3


def test_shares_of_mixup_are_those_of_the_beta_distribution() -> None:
    """Mean, variance and the share of numbers near an end are those that NumPy draws."""
    for alpha in (0.2, 1.0, 4.0):
        found = drawn(seed=1, passes=1, numbers=4000, draws=0, alpha=alpha)
        expected = np.random.default_rng(0).beta(alpha, alpha, 40000)
        np.testing.assert_allclose(found.mean(), 0.5, atol=0.03)
        np.testing.assert_allclose(found.var(), expected.var(), rtol=0.06)
        np.testing.assert_allclose((found < 0.1).mean(), (expected < 0.1).mean(), atol=0.03)


def test_examples_that_are_not_for_training_are_not_random(reader: Any, images: Any) -> None:
    """An evaluation of the training data leaves out what is random, and crops the middle."""
    wanted = {**FLOAT, "image": ("float32", (4, 4, 3))}
    crop = ("random_crop", "image", (4, 4))
    stream = images(*MIXED, *MANY, crop, wanted=wanted, training=False)
    np.testing.assert_array_equal(read(reader, stream)["image"], arrays()["image"][:, 1:5, 2:6])
    center = images(*PLAIN, ("center_crop", "image", (4, 4)), wanted=wanted)
    np.testing.assert_array_equal(read(reader, center)["image"], arrays()["image"][:, 1:5, 2:6])


@pytest.mark.parametrize(
    "call",
    [ir.Call("random_crop", ("image", (5, 4)), {"pad": 1}), ir.Call("random_flip", ("image", "both"))],
    ids=lambda call: call.name,
)
def test_an_image_alone_is_changed_as_in_a_batch(call: ir.Call) -> None:
    """It takes a quicker way to the same pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, [12, 6, 7, 3], np.uint8)
    change: Any = TRANSFORMS[call.name](call)

    def changed(start: int, stop: int) -> Any:
        passes, numbers = (
            tf.fill([stop - start], tf.constant(3, tf.int64)),
            tf.range(start, stop, dtype=tf.int64),
        )
        draws = draws_of({0: change}, tf.stack([passes, numbers], axis=-1), 5)[0]
        return change.change_randomly(tf.constant(pixels[start:stop]), draws)

    together, alone = small_graphs.evaluate(
        lambda: (changed(0, 12), [changed(at, at + 1) for at in range(12)])
    )
    np.testing.assert_array_equal(np.concatenate(alone), together)
    assert len({each.tobytes() for each in together}) == 12
    assert not np.array_equal(together[:, :5, :4], pixels[:, :5, :4])
