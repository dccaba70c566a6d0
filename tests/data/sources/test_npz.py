"""The npz source: arrays read from where they lie, or through Python where that cannot be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.sources.test_faults import NUMBERS as X
from tests.data.sources.test_faults import npy, zipped
from tfdeploy.data.sources import npz as npz_source
from tfdeploy.data.sources.npz import Archive

IMAGES = np.arange(50 * 6, dtype=np.float32).reshape(50, 2, 3)
LABELS = np.arange(50, dtype=np.int64)
WANTED = {"image": ("float32", (2, 3)), "label": ("int64", ())}


def write(reader: Any, compressed: bool = False, **arrays: np.ndarray) -> None:
    """Write arrays to data.npz."""
    (np.savez_compressed if compressed else np.savez)(reader.base / "data.npz", **arrays)


def opened(reader: Any, *transforms: Any, wanted: Any = None, **options: Any) -> Any:
    """Open data.npz with its arrays x and y."""
    source = reader.call("npz", "data.npz", image="x", label="y")
    return reader.open(source, *transforms, wanted=wanted or WANTED, **options)


@pytest.mark.parametrize(
    ("images", "compressed", "in_process"),
    [
        (IMAGES, False, False),
        (IMAGES, True, True),
        (np.asfortranarray(IMAGES), False, True),
        (IMAGES.astype(">f4"), False, True),
    ],
    ids=["stored", "compressed", "columns first", "other byte order"],
)
def test_arrays_are_read_however_they_are_stored(
    reader: Any, images: np.ndarray, *, compressed: bool, in_process: bool
) -> None:
    """The examples are those of the arrays; only arrays as NumPy stores them by default need no Python."""
    write(reader, compressed, x=images, y=LABELS)
    stream = opened(reader)
    stream.check()
    batches = reader.batches(stream, 16)
    assert (stream.size, stream.needs_python is not None) == (50, in_process)
    np.testing.assert_array_equal(np.concatenate([each["image"] for each in batches]), IMAGES)
    np.testing.assert_array_equal(np.concatenate([each["label"] for each in batches]), LABELS)


@pytest.mark.parametrize(("size", "rows"), [(100, {4, 12}), (1, {1})])
def test_compressed_arrays_are_read_in_pieces(
    reader: Any, monkeypatch: pytest.MonkeyPatch, size: int, rows: set[int]
) -> None:
    """A piece has as many examples, of 24 or 8 bytes, as fit into its bytes, and one at least."""
    found: set[int] = set()
    read = Archive.pieces

    def pieces(self: Archive, array: Any, most: int) -> Any:
        found.add(most)
        return read(self, array, most)

    monkeypatch.setattr(Archive, "pieces", pieces)
    monkeypatch.setattr(npz_source, "PIECE", size)
    write(reader, compressed=True, x=IMAGES, y=LABELS)
    batches = reader.batches(opened(reader), 16)
    np.testing.assert_array_equal(np.concatenate([each["image"] for each in batches]), IMAGES)
    assert found == rows


@pytest.mark.parametrize("compressed", [False, True])
def test_order_and_resuming_are_those_of_any_source(reader: Any, *, compressed: bool) -> None:
    """Shuffling, epochs and skipping work on arrays as on files of text."""
    write(reader, compressed, x=IMAGES, y=LABELS)
    shuffle = reader.call("shuffle", 20)
    whole = reader.column(opened(reader, shuffle, seed=3), "label", 8, repeat=True, most=20)
    rest = reader.column(opened(reader, shuffle, seed=3, skip_examples=75), "label", 8, repeat=True, most=5)
    assert [sorted(whole[:50]), sorted(whole[50:100])] == [list(range(50))] * 2
    assert rest == whole[75:115]


@pytest.mark.family(every=3)
@pytest.mark.parametrize(
    "dtype",
    [
        "uint8",
        "int8",
        "uint16",
        "int16",
        "uint32",
        "int32",
        "uint64",
        "int64",
        "float16",
        "float32",
        "float64",
        "bool",
    ],
)
def test_every_dtype_of_numbers_is_read(reader: Any, dtype: str) -> None:
    """An array keeps its dtype to the last bit."""
    values = np.array([0, 1, np.iinfo(dtype).max if dtype[0] in "ui" else 1], dtype)
    write(reader, n=values)
    stream = reader.open(reader.call("npz", "data.npz"), wanted={"n": (dtype, ())})
    (batch,) = reader.batches(stream, 4)
    assert batch["n"].dtype == dtype
    np.testing.assert_array_equal(batch["n"], values)


@pytest.mark.family(every=3)
@pytest.mark.parametrize("kind", ["U", "S", ">U20"])
@pytest.mark.parametrize("compressed", [False, True])
def test_text_is_read(reader: Any, kind: str, *, compressed: bool) -> None:
    """Text of any length, in NumPy's Unicode or as bytes, becomes UTF-8."""
    texts = [["ab", ""], ["a longer text", "x"], ["", "z"]]
    if "U" in kind:
        texts[0][1] = "Grüße, 日本語"
    write(
        reader, compressed, t=np.char.encode(texts, "ascii") if kind == "S" else np.array(texts).astype(kind)
    )
    stream = reader.open(reader.call("npz", "data.npz"), wanted={"t": ("string", (2,))})
    stream.check()
    assert (stream.needs_python is not None) == (compressed or kind == ">U20")
    first, rest = reader.batches(stream, 2)
    found = [*first["t"].tolist(), *rest["t"].tolist()]
    assert [[each.decode() for each in row] for row in found] == texts


def test_without_keywords_every_array_is_a_tensor(reader: Any) -> None:
    """`npz("data.npz")` gives all arrays under their own names."""
    write(reader, a=np.arange(3), b=np.ones([3, 2], np.float32))
    stream = reader.open(reader.call("npz", "data.npz"), wanted={"b": ("float32", (2,)), "a": ("int64", ())})
    (batch,) = reader.batches(stream, 4)
    assert (batch["a"].tolist(), batch["b"].tolist()) == ([0, 1, 2], [[1, 1]] * 3)


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_arrays_of_both_versions_are_read_in_place(tmp_path: Path, version: tuple[int, int]) -> None:
    """Those of another byte order, of columns, or without examples pass through Python, piece by piece."""
    wide = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    arrays = {"x": X, "y": X.astype(">f4"), "wide": wide, "one": X[:3].reshape(3, 1)[:, 0], "none": X[:0]}
    path = tmp_path / "a.npz"
    path.write_bytes(zipped(**{name: npy(each, version) for name, each in arrays.items()}))
    archive = Archive(path, None)
    x, y, columns, one, none = map(archive.array, arrays)
    assert x.offset is not None
    assert path.read_bytes()[x.offset :][: X.nbytes] == X.tobytes()
    assert (x.length, x.record_bytes, y.offset, none.offset) == (6, 4, None, None)
    assert (columns.columns_first, one.columns_first) == (True, False)
    pieces = list(archive.pieces(y, 4))
    assert [each.tolist() for each in pieces] == [[0, 1, 2, 3], [4, 5]]
    assert all(each.dtype.isnative for each in pieces)
    assert [each.tolist() for each in archive.pieces(columns, 2)] == [[[0, 1], [2, 3]], [[4, 5]]]
    assert archive.damage(x) is None
