"""What sources say of their files when they are opened or asked, with the advice and the place in the spec.

Nothing is read through TensorFlow here, so that every kind of fault costs next to nothing.
"""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError, SpecError
from dsl.source import Source, Span
from tests.data.conftest import make_call
from tests.data.sources.test_binary import GOOD_IMAGES, GOOD_LABELS, cifar
from tests.data.sources.test_csv_faults import BROKEN
from tests.data.sources.test_images import png, write
from tests.data.sources.test_tfrecord import example, good, record
from tfdeploy.data.sources.base import Context
from tfdeploy.data.sources.csv import Csv
from tfdeploy.data.sources.files import find_files, find_folder, natural_key
from tfdeploy.data.sources.images import Images
from tfdeploy.data.sources.mnist_cifar10 import Cifar10, Mnist
from tfdeploy.data.sources.npz import Npz
from tfdeploy.data.sources.tfrecord import TfRecord

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPAN = Span(Source("spec.tfdeploy", "a source of examples"), 2, 8)
ADVICE = {
    "no header": "add `header = false`, after which the columns are `column_1`, `column_2` and so on",
    "semicolons": "save the file with commas between the cells",
    "old line ends": "save it with newlines at the ends of lines",
    "UTF-16": "save it as UTF-8",
}


def call(name: str, *args: ir.Value, **kwargs: ir.Value) -> ir.Call:
    """Return a call whose arguments each have a place of their own."""
    made = make_call(name, args, kwargs)
    places = [Span(SPAN.source, at, at + 1) for at in range(len(args) + len(kwargs))]
    return ir.Call(
        name,
        args,
        kwargs,
        span=SPAN,
        name_span=made.name_span,
        arg_spans=tuple(places[: len(args)]),
        kwarg_spans=dict(zip(kwargs, places[len(args) :], strict=True)),
    )


def refusal(make: Callable[[], object]) -> Diagnostic:
    """Return why something cannot be had."""
    with pytest.raises(RunError) as caught:
        make()
    return caught.value.diagnostic


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_table_says_where_and_what_to_do(tmp_path: Path, kind: str) -> None:
    """File, row and column; the place in the file if it has one, and the source in the spec."""
    content, code, message, place = BROKEN[kind]
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    context = Context(tmp_path, {"x": "float32", "y": "int32"})

    try:
        source = Csv(call("csv", "bad.csv", x="x*", y="y"), context)
        source.check()
        source.counts()
    except RunError as error:
        found: Diagnostic | None = error.diagnostic
    else:
        rows = islice(source.tables[0].rows(), 1, None)
        faults = (source.tables[0].fault(each, source._needed_columns()) for each in rows)
        found = next(each for each in faults if each is not None)
    assert found is not None
    assert (found.code, found.message, found.help) == (code, f"`{path}`{message}", ADVICE.get(kind))
    assert found.span is not None
    if place is None:
        assert found.span.source is SPAN.source
        assert found.labels == ()
    else:
        begin = found.span.begin
        assert (found.span.source.name, begin.line, begin.column) == (str(path), *place)
        assert [(each.span.source, each.text) for each in found.labels] == [
            (SPAN.source, "read by this source")
        ]


def test_the_columns_of_a_table_are_those_that_it_has(tmp_path: Path) -> None:
    """A name that is almost one of them is told with that, at the place of the keyword."""
    (tmp_path / "a.csv").write_text("width,height\n1,2\n")
    context = Context(tmp_path, {"x": "float32"})
    found = refusal(lambda: Csv(call("csv", "a.csv", x="widht"), context))
    assert (found.code, found.help) == ("TFD704", "there is a column with a similar name: `width`")
    assert found.span == Span(SPAN.source, 1, 2)
    source = Csv(call("csv", "a.csv", x="width"), context)
    assert source.where(0).words == f"`{tmp_path / 'a.csv'}`, row 2"
    assert source.where(7).words == f"`{tmp_path / 'a.csv'}`"
    assert source.fault(0, "refused").notes == ("refused",)
    assert source.fault(7, "refused").code == "TFD715"
    assert source.needs_python is None


def test_files_are_found_in_natural_order(tmp_path: Path) -> None:
    """Folders that a glob matches are left out; a name with numbers in it sorts by these."""
    for name in ("part-10.csv", "part-2.csv", "other.csv"):
        (tmp_path / name).touch()
    (tmp_path / "part-3.csv").mkdir()
    names = [each.name for each in find_files("part-*.csv", tmp_path, SPAN)]
    assert names == ["part-2.csv", "part-10.csv"]
    assert sorted(["b2", "b10", "10", "9", "a", "b"], key=natural_key) == ["9", "10", "a", "b", "b2", "b10"]
    folder = refusal(lambda: find_files("part-3.csv", tmp_path, SPAN))
    assert (folder.code, folder.help) == ("TFD702", "name the files in it, `*` for any part of a name")
    assert folder.span == SPAN
    gone = refusal(lambda: find_files("othr.csv", tmp_path, SPAN))
    assert (gone.code, gone.help) == ("TFD701", "a file with a similar name is there: `other.csv`")
    none = refusal(lambda: find_files("othr*.csv", tmp_path, SPAN))
    assert (none.code, none.help, none.span) == ("TFD701", None, SPAN)
    assert find_folder("part-3.csv", tmp_path, SPAN) == tmp_path / "part-3.csv"
    near = refusal(lambda: find_folder("part-33.csv", tmp_path, SPAN))
    assert (near.message.rpartition(": ")[2], near.span) == ("there is no such folder", SPAN)
    assert refusal(lambda: find_folder("othr.csv", tmp_path, SPAN)).help is None  # only a file is near
    assert near.help == "a folder with a similar name is there: `part-3.csv`"
    file = refusal(lambda: find_folder("other.csv", tmp_path, SPAN))
    assert (file.code, file.span) == ("TFD702", SPAN)


@pytest.mark.parametrize(
    ("content", "code", "advice"),
    [
        (b"", "TFD703", None),
        (cifar(0, 3)[:-1], "TFD710", "use the files of the binary version, `data_batch_1.bin` and so on"),
    ],
)
def test_a_broken_file_of_cifar_says_what_to_use(
    tmp_path: Path, content: bytes, code: str, advice: str | None
) -> None:
    """At the source in the spec."""
    (tmp_path / "a.bin").write_bytes(content)
    found = refusal(lambda: Cifar10(call("cifar10", "a.bin"), Context(tmp_path)))
    assert (found.code, found.help, found.span) == (code, advice, SPAN)


def test_records_of_cifar_have_places(tmp_path: Path) -> None:
    """In their files; a label that is a class is no fault."""
    for name, count in (("a.bin", 2), ("b.bin", 3)):
        (tmp_path / name).write_bytes(cifar(0, count))
    source = Cifar10(call("cifar10", "*.bin"), Context(tmp_path))
    assert source.counts() == (2, 3)
    assert source.where(1).words == f"`{tmp_path / 'a.bin'}`, record 1"
    assert source.where(3).words == f"`{tmp_path / 'b.bin'}`, record 1"
    assert source.where(3).call == SPAN
    assert source.fault(3, "refused").code == "TFD715"


def test_files_of_mnist_are_one_each(tmp_path: Path) -> None:
    """Of images and of labels, which are told at their keywords; a whole file has no fault."""
    for name, content in (
        ("i1", GOOD_IMAGES),
        ("i2", GOOD_IMAGES),
        ("labels", GOOD_LABELS),
        ("cut", GOOD_LABELS[:-1]),
    ):
        (tmp_path / name).write_bytes(content)
    context = Context(tmp_path)
    with pytest.raises(SpecError) as caught:
        Mnist(call("mnist", images="i*", labels="labels"), context)
    (found,) = caught.value.diagnostics
    assert found.message == "`mnist` takes one file as `images`, and `i*` matches 2"
    assert found.span == Span(SPAN.source, 0, 1)
    cut = refusal(lambda: Mnist(call("mnist", images="i1", labels="cut"), context))
    assert (cut.code, cut.span) == ("TFD710", Span(SPAN.source, 1, 2))
    source = Mnist(call("mnist", images="i1", labels="labels"), context)
    assert source.count() == 30
    assert source.where(3).words == f"`{tmp_path / 'i1'}`, image 3"
    assert source.fault(3, "refused").code == "TFD715"
    (tmp_path / "packed").write_bytes(gzip.compress(GOOD_LABELS)[:-9] + b"\0")
    packed = Mnist(call("mnist", images="i1", labels="labels"), context).labels
    assert packed.damage() is None
    assert packed.header == 8


def npz(**arrays: np.ndarray) -> bytes:
    """Return an archive."""
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]  # as NumPy's own examples do
    return file.getvalue()


def npy(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    """Return the file of an array."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


def zipped(**members: bytes) -> bytes:
    """Return an archive of files as they are."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


X = np.arange(6, dtype=np.float32)


@pytest.mark.parametrize(
    ("content", "code", "message", "advice"),
    [
        (b"no archive", "TFD702", ": this is no NumPy archive", None),
        (npy(X), "TFD702", ": this is a single array (.npy)", "write it with `numpy.savez`"),
        (npz(x=X)[:-90], "TFD710", ": the archive was cut off: its directory is missing", None),
        (npz(), "TFD704", ": there is no array `x`", None),
        (npz(y=X), "TFD704", ": there is no array `x`", None),
        (npz(x=np.array(1.0)), "TFD711", ", array `x`: a single number, expected an axis of examples", None),
        (npz(x=X.astype(complex)), "TFD712", ", array `x`: holds complex128, not numbers", None),
        (npz(x=X.astype("m8[s]")), "TFD712", ", array `x`: holds durations, not numbers", None),
        (npz(x=X.astype("M8[s]")), "TFD712", ", array `x`: holds dates, not numbers", None),
        (
            npz(x=np.zeros(3, [("a", "i4")])),
            "TFD712",
            ", array `x`: holds records, not numbers",
            "store numbers or text",
        ),
        (
            zipped(x=npy(X)[:-4]),
            "TFD710",
            ", array `x`: holds 148 bytes where its header promises 152",
            None,
        ),
        (
            zipped(x=npy(X, (3, 0))),
            "TFD710",
            ", array `x`: its header cannot be read: version 3.0 of the array format is not read",
            None,
        ),
    ],
)
def test_a_broken_archive_says_what_is_wrong(
    tmp_path: Path, content: bytes, code: str, message: str, advice: str | None
) -> None:
    """With the array, at the source or at the keyword that names the array."""
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    found = refusal(lambda: Npz(call("npz", "a.npz", tensor="x"), Context(tmp_path)))
    assert (found.code, found.message) == (code, f"`{path}`{message}")
    assert found.help == advice
    assert found.span == (Span(SPAN.source, 1, 2) if code == "TFD704" else SPAN)


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_arrays_of_both_versions_are_read_in_place(tmp_path: Path, version: tuple[int, int]) -> None:
    """An array of columns, of another byte order, packed, or without examples, is read by Python alone."""
    (tmp_path / "a.npz").write_bytes(zipped(x=npy(X, version), y=npy(X.astype(">f4"), version)))
    source = Npz(call("npz", "a.npz"), Context(tmp_path))
    x, y = source.arrays["x"], source.arrays["y"]
    assert x.offset is not None
    assert (tmp_path / "a.npz").read_bytes()[x.offset :][: X.nbytes] == X.tobytes()
    assert (x.length, x.record_bytes, y.offset) == (6, 4, None)
    assert source.needs_python is not None
    assert f"array `y` of `{tmp_path / 'a.npz'}` is stored" in source.needs_python.reason
    pieces = list(source.archive.pieces(y, 4))
    assert [each.tolist() for each in pieces] == [[0, 1, 2, 3], [4, 5]]
    assert all(each.dtype.isnative for each in pieces)
    assert source.archive.damage(x) is None
    assert source.fault(2, "refused").message.startswith(f"`{tmp_path / 'a.npz'}`, example 2")
    wide = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    (tmp_path / "b.npz").write_bytes(zipped(x=npy(wide), one=npy(X[:3].reshape(3, 1)[:, 0]), none=npy(X[:0])))
    other = Npz(call("npz", "b.npz", x="x", one="one"), Context(tmp_path))
    assert (other.arrays["x"].columns_first, other.arrays["one"].columns_first) == (True, False)
    assert [each.tolist() for each in other.archive.pieces(other.arrays["x"], 2)] == [
        [[0, 1], [2, 3]],
        [[4, 5]],
    ]
    assert Npz(call("npz", "b.npz", none="none"), Context(tmp_path)).arrays["none"].offset is None
    with pytest.raises(SpecError) as caught:
        Npz(call("npz", "*.npz"), Context(tmp_path))
    (found,) = caught.value.diagnostics
    assert (found.message, found.span) == (
        "`npz` reads one file, and `*.npz` matches 2",
        Span(SPAN.source, 0, 1),
    )


def feature(dtype: str, *args: ir.Value, **kwargs: ir.Value) -> ir.Call:
    """Return the description of a tensor."""
    return make_call("feature", (dtype, *args), kwargs)


@pytest.mark.parametrize(
    ("data", "described", "code", "message", "advice"),
    [
        (
            good(1),
            feature("float32", (2, 2), key="z"),
            "TFD704",
            "record 1: there is no feature `z`",
            None,
        ),
        (
            example(x=[b"a"]),
            feature("float32", (1,)),
            "TFD712",
            "holds bytes, not floats",
            "say how the bytes",
        ),
        (example(x=[1]), feature("float32", (1,)), "TFD712", "holds whole numbers, not floats", None),
        (example(x=[1]), feature("string"), "TFD712", "holds whole numbers, not bytes", None),
        (
            example(x=[1]),
            feature("uint8", (4,), encoding="raw"),
            "TFD712",
            "holds whole numbers, not bytes",
            None,
        ),
        (example(x=[]), feature("float32", (1,)), "TFD711", "0 values, expected 1 of float32[1]", None),
        (example(x=[1.0, 2.0]), feature("float32", ()), "TFD711", "2 values, expected 1 of float32[]", None),
        (
            example(x=[b"ab", b"cd"]),
            feature("uint8", (2,), encoding="raw"),
            "TFD711",
            "2 values, expected one string of bytes",
            None,
        ),
        (
            example(x=[b"abc"]),
            feature("int16", (2,), encoding="raw"),
            "TFD711",
            "3 bytes, expected 4 of int16[2]",
            None,
        ),
        (
            example(x=[1.0, 2.0, 3.0]),
            feature("float32", (None, 2)),
            "TFD711",
            "3 values, expected a multiple of 2 for float32[none, 2]",
            None,
        ),
        (
            example(x=[256]),
            feature("uint8", (1,)),
            "TFD707",
            "`256` is outside uint8, which holds 0 to 255",
            None,
        ),
        (
            example(x=[-1]),
            feature("uint8", (1,)),
            "TFD707",
            "`-1` is outside uint8, which holds 0 to 255",
            None,
        ),
        (example(x=[0, 255]), feature("uint8", (2,)), "TFD715", "the record cannot be read", None),
        (
            example(x=[b"ab"]),
            feature("uint8", (2,), encoding="raw"),
            "TFD715",
            "the record cannot be read",
            None,
        ),
        (example(x=[1.0, 2.0]), feature("float32", (None, 2)), "TFD715", "the record cannot be read", None),
        (example(x=[b"ab"]), feature("string"), "TFD715", "the record cannot be read", None),
    ],
)
def test_a_feature_that_does_not_fit_is_told(
    tmp_path: Path, data: bytes, described: ir.Call, code: str, message: str, advice: str | None
) -> None:
    """With its record, and at its description in the spec."""
    path = tmp_path / "a.tfrecord"
    path.write_bytes(record(example(x=[1.0])) + record(data))
    found = TfRecord(call("tfrecord", "a.tfrecord", x=described), Context(tmp_path)).fault(1, "refused")
    assert found.code == code
    assert found.message.startswith(f"`{path}`, record 1")
    assert found.message.endswith(message)
    assert (found.help or "").startswith(advice) if advice is not None else found.help is None
    assert found.span == (SPAN if code in {"TFD704", "TFD715"} else described.span)


def test_files_of_records_are_checked_as_they_are_opened(tmp_path: Path) -> None:
    """An empty one, one that is packed otherwise, and a first record without what may be of any size."""
    path = tmp_path / "a.tfrecord"
    source = call("tfrecord", "a.tfrecord", x=feature("float32", (None,)))
    for content, code, advice in (
        (b"", "TFD703", None),
        (gzip.compress(record(good(1))), "TFD702", "write `compression = gzip`"),
    ):
        path.write_bytes(content)
        found = refusal(lambda: TfRecord(source, Context(tmp_path)))
        assert (found.code, found.help, found.span) == (code, advice, SPAN)
    path.write_bytes(record(good(1)))
    packed = call("tfrecord", "a.tfrecord", compression="gzip", x=feature("float32", (4,)))
    found = refusal(lambda: TfRecord(packed, Context(tmp_path)))
    assert (found.code, found.help) == ("TFD702", "leave out `compression`")
    path.write_bytes(record(example(y=[1.0])))
    assert refusal(TfRecord(source, Context(tmp_path)).check).code == "TFD704"
    fixed = TfRecord(call("tfrecord", "a.tfrecord", x=feature("float32", (1,))), Context(tmp_path))
    fixed.check()  # TensorFlow says so by itself
    assert fixed.where(0).words == f"`{path}`, record 0"
    cut = record(good(1)) + struct.pack("<Q", 9)
    path.write_bytes(cut)
    assert refusal(lambda: TfRecord(source, Context(tmp_path)).counts()).message.endswith(
        "record 1: the file ends within it"
    )


def test_images_of_formats_that_are_not_read_are_told(tmp_path: Path) -> None:
    """With advice; a file of no image format at all is passed over, and so is a folder."""
    folder = tmp_path / "pictures"
    write(folder, a_1_png=png(1), a_2_JPEG=b"\xff\xd8\xff\xe0", a_3_png=b"")
    (folder / "a" / "notes.md").touch()
    (folder / "a" / "inner.png").mkdir()
    source = Images(call("images", "pictures", size=(4, 6)), Context(tmp_path))
    assert [(path.name, label) for path, label in source.files] == [("1.png", 0), ("2.JPEG", 0), ("3.png", 0)]
    assert (source.count(), source.per_record, source.channels) == (3, True, 3)
    assert source.where(1).words == f"`{folder / 'a' / '2.JPEG'}`"
    told = [source.fault(at, "broken") for at in range(3)]
    assert [each.message.rpartition("`: ")[2] for each in told] == [
        "the PNG file is damaged or was cut off: broken",
        "the JPEG file is damaged or was cut off: broken",
        "the file is empty",
    ]
    assert {each.span for each in told} == {SPAN}
    (folder / "a" / "4.tiff").touch()
    other: Any = Images(call("images", "pictures", size=(4, 6)), Context(tmp_path))
    found = refusal(lambda: other.files)
    assert (found.code, found.help, found.span) == ("TFD713", "convert it to PNG or JPEG", SPAN)
