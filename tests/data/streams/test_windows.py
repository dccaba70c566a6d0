"""Windows over series: which rows they have, and that they are examples as any others."""

from typing import Any

import numpy as np
import pytest

from tests.data.sources.test_images import png
from tests.data.sources.test_tfrecord import example, record
from tests.support import refusal

SERIES = (range(3000), range(3000, 3031), range(4000, 5500))
"""The numbers in three files. The first is longer than what is decoded at once."""


def written(reader: Any, series: Any = SERIES) -> Any:
    """Write a file for each series of numbers, and return the source that reads them."""
    for at, numbers in enumerate(series):
        lines = "".join(f"{each},{2 * each}\n" for each in numbers)
        (reader.base / f"s-{at}.csv").write_text(f"a,b\n{lines}")
    return reader.call("csv", "s-*.csv", x=("a", "b"), y="a")


def expected(series: Any, size: int, shift: int, stride: int, horizon: int, gap: int) -> list[Any]:
    """Return the numbers of each window and of its label."""
    found = []
    for numbers in series:
        for first in range(0, len(numbers), shift):
            inside = [first + at * stride for at in range(size)]
            ahead = [inside[-1] + (gap + at) * stride for at in range(1, horizon + 1)] or [inside[-1]]
            if max(inside + ahead) < len(numbers):
                found.append(([numbers[at] for at in inside], [numbers[at] for at in ahead]))
    return found


def opened(reader: Any, *transforms: Any, size: int = 24, horizon: int = 1, **options: Any) -> Any:
    """Open the source with the transforms."""
    wanted = {"x": ("float32", (size, 2)), "y": ("float32", (horizon,) if horizon else ())}
    return reader.open(written(reader), *transforms, wanted=wanted, **options)


@pytest.mark.family(every=3)
@pytest.mark.parametrize(
    ("size", "shift", "stride", "horizon", "gap"),
    [(24, 1, 1, 1, 0), (5, 3, 2, 4, 1), (10, 20, 1, 0, 0), (3, 1, 4, 2, 0), (2, 700, 600, 1, 0)],
)
def test_windows_have_the_rows_that_they_name(
    reader: Any, size: int, shift: int, stride: int, horizon: int, gap: int
) -> None:
    """Each file is a series, and every window that fits into it comes once, in order."""
    series = (SERIES[0], SERIES[2])
    source, wanted = written(reader, series), expected(series, size, shift, stride, horizon, gap)
    window = reader.call("window", size, shift, stride, horizon, label="y", gap=gap)
    inputs = {"x": ("float32", (size, 2)), "y": ("float32", (horizon,) if horizon else ())}
    stream = reader.open(source, window, wanted=inputs)
    stream.check()
    batches = reader.batches(stream, 64)
    x, y = (np.concatenate([each[name] for each in batches]) for name in "xy")
    assert stream.size == len(wanted)
    np.testing.assert_array_equal(x[:, :, 0], [inside for inside, _ in wanted])
    np.testing.assert_array_equal(x[:, :, 1], 2 * x[:, :, 0])
    np.testing.assert_array_equal(y.reshape(len(y), -1), [ahead for _, ahead in wanted])


def test_rows_are_taken_and_left_out_before_windows(reader: Any) -> None:
    """`take` and `skip` before it cut the rows of all files, after it the windows."""
    calls = [reader.call("skip", 2990), reader.call("take", 50)]
    window = reader.call("window", 8, label="y")
    stream = opened(reader, *calls, window, reader.call("skip", 1), size=8)
    series = (SERIES[0][2990:], SERIES[1], SERIES[2][:9])
    wanted = [ahead[0] for _, ahead in expected(series, 8, 1, 1, 1, 0)][1:]
    assert [each[0] for each in reader.column(stream, "y")] == wanted
    assert stream.size == len(wanted)


def test_windows_are_shuffled_shared_and_resumed_as_other_examples(reader: Any) -> None:
    """Shares are the whole, and a run that goes on gets what the one before has not used."""
    calls = [reader.call("window", 24, 5, label="y"), reader.call("shuffle", 200)]
    wanted = sorted(ahead[0] for _, ahead in expected(SERIES, 24, 5, 1, 1, 0))
    whole = [each[0] for each in reader.column(opened(reader, *calls, seed=1), "y", 16, repeat=True, most=80)]
    assert sorted(whole[: len(wanted)]) == wanted != whole[: len(wanted)]
    rest = opened(reader, *calls, seed=1, skip_examples=len(wanted) + 13)
    found = [each[0] for each in reader.column(rest, "y", 16, repeat=True, most=4)]
    assert found == whole[len(wanted) + 13 :][: len(found)]
    shares = [opened(reader, *calls, seed=1, shard=(at, 2)) for at in range(2)]
    found = [each[0] for share in shares for each in reader.column(share, "y", 16)]
    assert sorted(found) == wanted


def _records(reader: Any) -> Any:
    data = b"".join(record(example(x=[each, each], y=[each])) for each in range(40))
    (reader.base / "s.tfrecord").write_bytes(data)
    two = reader.call("feature", "int64", (2,))
    return reader.call("tfrecord", "s.tfrecord", x=two, y=reader.call("feature", "int64"))


def _arrays(reader: Any) -> Any:
    numbers = np.arange(40)
    np.savez(reader.base / "s.npz", x=np.stack([numbers, numbers], 1), y=numbers)
    return reader.call("npz", "s.npz")


def _function(reader: Any) -> Any:
    (reader.base / "numbers40.py").write_text(
        "import numpy as np\n\n\ndef give():\n"
        "    for each in range(40):\n        yield {'x': np.array([each, each]), 'y': np.int64(each)}\n"
    )
    return reader.call("python", "numbers40:give")


@pytest.mark.family(every=3)
@pytest.mark.parametrize("source", [_records, _arrays, _function])
def test_every_source_can_be_a_series(reader: Any, source: Any) -> None:
    """Also one of which the length is not known."""
    window = reader.call("window", 6, 2, label="y")
    wanted = {"x": ("int64", (6, 2)), "y": ("int64", (1,))}
    stream = reader.open(source(reader), window, wanted=wanted)
    stream.check()
    (batch,) = reader.batches(stream, 100)
    assert batch["y"][:, 0].tolist() == list(range(6, 40, 2))
    assert batch["x"][3].tolist() == [[each, each] for each in range(6, 12)]
    assert stream.size == (None if source is _function else 17)


def test_images_are_the_frames_of_a_film(reader: Any) -> None:
    """The label of the last frame is that of the window."""
    for each in range(10):
        path = reader.base / "film" / f"{each // 5}" / f"{each}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(each, 2, 2))
    call = reader.call("images", "film", size=(2, 2))
    wanted = {"image": ("uint8", (3, 2, 2, 3)), "label": ("int32", ())}
    stream = reader.open(call, reader.call("window", 3, horizon=0, label="label"), wanted=wanted)
    (batch,) = reader.batches(stream, 100)
    assert batch["image"][:, :, 0, 0, 0].tolist() == [[each, each + 1, each + 2] for each in range(8)]
    assert batch["label"].tolist() == [0] * 3 + [1] * 5


def test_what_is_wrong_in_a_row_is_located(reader: Any) -> None:
    """A cell that is no number has its own place, and a class that is none that of its window."""
    lines = [f"{each},{each % 7}" for each in range(1500)]
    path = reader.base / "s.csv"
    source = reader.call("csv", "s.csv", x="a", y="b")
    window = reader.call("window", 4, label="y", horizon=0)
    one_hot = reader.call("one_hot", "y", 7)
    wanted = {"x": ("float32", (4,)), "y": ("float32", (7,))}
    path.write_text("\n".join(["a,b", *lines[:1300], "1300,9", *lines[1301:]]))
    found = reader.fault(source, window, one_hot, wanted=wanted)
    assert found.message.startswith(f"`{path}`, the window from row 1299 on: `9` in `y` is no class")
    path.write_text("\n".join(["a,b", *lines[:1300], "x,1", *lines[1301:]]))
    found = reader.fault(source, window, one_hot, wanted=wanted)
    assert (found.code, found.message) == ("TFD706", f"`{path}`, row 1302, column `a`: `x` is not a number")


def test_a_number_that_is_not_finite_is_found_in_its_window(reader: Any) -> None:
    """With the place in the window."""
    numbers = np.arange(20, dtype=np.float32)
    numbers[11] = np.nan
    np.savez(reader.base / "s.npz", x=numbers)
    stream = reader.open(
        reader.call("npz", "s.npz"), reader.call("window", 5), wanted={"x": ("float32", (5,))}
    )
    found = stream.not_finite("the loss is not finite")
    place = "the window from example 7 on, array `x`"
    assert found.message == f"`{reader.base / 's.npz'}`, {place}: the number at [4] is nan"


def test_a_file_that_is_too_short_for_a_window_is_told(reader: Any) -> None:
    """It would be left out without a word otherwise."""
    source = written(reader)
    wanted = {"x": ("float32", (31, 2)), "y": ("float32", (1,))}
    stream = reader.open(source, reader.call("window", 31, label="y"), wanted=wanted)
    found = refusal(stream.check)
    path = reader.base / "s-1.csv"
    assert found.message == (f"`{path}`: a series of 31 rows, expected at least 32, which a window takes")
    reader.open(source, reader.call("window", 30, label="y"), wanted={"x": ("float32", (30, 2))}).check()
