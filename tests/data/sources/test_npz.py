"""The npz source: arrays read from where they lie, or through Python where that cannot be."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
import pytest

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


def test_faults_of_the_archive_are_located(reader: Any) -> None:
    """Each broken archive is named with its array and what is wrong."""
    good = io.BytesIO()
    np.savez(good, x=IMAGES, y=LABELS)
    single = io.BytesIO()
    np.save(single, LABELS)
    cases: dict[bytes, tuple[str, str]] = {
        b"": ("TFD702", ": this is no NumPy archive"),
        b"x,y\n1,2\n": ("TFD702", ": this is no NumPy archive"),
        single.getvalue(): ("TFD702", ": this is a single array (.npy)"),
        good.getvalue()[:-200]: ("TFD710", ": the archive was cut off: its directory is missing"),
    }
    for content, (code, message) in cases.items():
        (reader.base / "data.npz").write_bytes(content)
        found = reader.fault(reader.call("npz", "data.npz", image="x", label="y"), wanted=WANTED)
        assert (found.code, found.message) == (code, f"`{reader.base / 'data.npz'}`{message}")


@pytest.mark.parametrize(
    ("arrays", "code", "message"),
    [
        ({"x": IMAGES, "z": LABELS}, "TFD704", ": there is no array `y`"),
        (
            {"x": IMAGES, "y": LABELS[:40]},
            "TFD711",
            ": 40 examples in array `y`, expected 50, as in `x`",
        ),
        (
            {"x": IMAGES, "y": np.int64(3)},
            "TFD711",
            ", array `y`: a single number, expected an axis of examples",
        ),
        ({"x": IMAGES, "y": LABELS.astype(complex)}, "TFD712", ", array `y`: holds complex128, not numbers"),
        (
            {"x": IMAGES, "y": LABELS.astype("datetime64[s]")},
            "TFD712",
            ", array `y`: holds dates, not numbers",
        ),
    ],
    ids=["missing", "lengths", "no axis", "complex", "dates"],
)
def test_arrays_that_cannot_be_used_are_located(
    reader: Any, arrays: dict[str, np.ndarray], code: str, message: str
) -> None:
    """An array that is missing or of no use is named, with what is wanted."""
    write(reader, **arrays)
    found = reader.fault(reader.call("npz", "data.npz", image="x", label="y"), wanted=WANTED)
    assert (found.code, found.message) == (code, f"`{reader.base / 'data.npz'}`{message}")


def test_python_objects_are_never_unpickled(reader: Any) -> None:
    """An array of Python objects, which could run code when it is loaded, is refused."""
    np.savez(reader.base / "data.npz", allow_pickle=True, x=IMAGES, y=np.array([{}] * 50, dtype=object))
    found = reader.fault(reader.call("npz", "data.npz", image="x", label="y"), wanted=WANTED)
    assert (found.code, found.message) == (
        "TFD712",
        f"`{reader.base / 'data.npz'}`, array `y`: holds Python objects, not numbers",
    )


def test_no_examples_are_said(reader: Any) -> None:
    """Arrays without examples are no data."""
    write(reader, x=IMAGES[:0], y=LABELS[:0])
    found = reader.fault(reader.call("npz", "data.npz", image="x", label="y"), wanted=WANTED)
    assert (found.code, found.message) == ("TFD703", "`train`: there is no example")


def test_altered_bytes_are_found_by_their_checksum(reader: Any) -> None:
    """Numbers that were altered inside a compressed archive stop the run with the name of the array."""
    noise = np.random.default_rng(0).normal(size=[5000, 2, 3]).astype(np.float32)
    write(reader, compressed=True, x=noise, y=np.arange(5000))
    path = reader.base / "data.npz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))
    found = reader.fault(reader.call("npz", "data.npz", image="x", label="y"), wanted=WANTED)
    assert found.code == "TFD710"
    assert found.message.startswith(f"`{path}`, array `x`: its numbers cannot be read: ")


def test_an_array_that_is_shorter_than_its_header_says(reader: Any) -> None:
    """A member of the archive whose size does not fit its header is damaged."""
    whole = io.BytesIO()
    np.save(whole, LABELS)
    with zipfile.ZipFile(reader.base / "data.npz", "w") as archive:
        archive.writestr("y.npy", whole.getvalue()[:-8])
    found = reader.fault(reader.call("npz", "data.npz"), wanted={"y": ("int64", ())})
    assert (found.code, found.message) == (
        "TFD710",
        f"`{reader.base / 'data.npz'}`, array `y`: holds 520 bytes where its header promises 528",
    )


def test_an_array_that_swells_is_not_unpacked(reader: Any) -> None:
    """Numbers that take a thousand times the room that they have in the file are taken for a trap."""
    zeros = np.zeros((50, 2, 3, 1 << 18), np.uint8)  # 78 MB
    write(reader, compressed=True, x=zeros, y=LABELS)
    wanted = {"image": ("uint8", zeros.shape[1:])}
    found = reader.fault(reader.call("npz", "data.npz", image="x"), wanted=wanted)
    assert found.code == "TFD710"
    assert "would unpack to 78,643,3" in found.message
