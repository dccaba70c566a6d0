"""The csv source on good files, and what is no fault of a file."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.folders import ROOT
from tests.support import refusal_of
from tfdeploy.data.sources.files import find_files, find_folder, natural_key

XY = {"x": ("float32", (2,)), "y": ("int32", ())}
TWO_ROWS = {"x": [[1.0, 2.5], [4.0, 5.0]], "y": [3, 6]}


def read(reader: Any, text: str | bytes, wanted: Any = None, name: str = "data.csv", **columns: Any) -> Any:
    """Write `text` to a file and return its columns as lists, and the size the stream claims."""
    data = text if isinstance(text, bytes) else text.encode()
    (reader.base / name).write_bytes(data)
    source = reader.call("csv", name, **(columns or {"x": "x*", "y": "y"}))
    stream = reader.open(source, wanted=wanted or XY)
    stream.check()
    batches = reader.batches(stream, 3)
    found = {each: [row for batch in batches for row in batch[each].tolist()] for each in wanted or XY}
    assert stream.size == len(next(iter(found.values())))
    return found


@pytest.mark.family(every=3)
@pytest.mark.parametrize(
    "text",
    [
        "x1,x2,y\n1,2.5,3\n4,5,6\n",
        "x1,x2,y\n1,2.5,3\n4,5,6",
        "x1,x2,y\r\n1,2.5,3\r\n4,5,6\r\n",
        "\ufeffx1,x2,y\n1,2.5,3\n4,5,6\n",
        "x1,x2,y\n\n1,2.5,3\n\n\n4,5,6\n\n\n",
        "x1,x2,y\r\n\r\n1,2.5,3\r\n4,5,6\r\n\r\n",
        '"x1",x2,"y"\n"1",2.5,"3"\n4,"5",6\n',
        "y,other,x1,x2\n3,any text,1,2.5\n6,,4,5\n",
        'text,x1,x2,y\n"a, ""b""",1,2.5,3\nc,4,5,6\n',
        'text,x1,x2,y\n"two\nlines",1,2.5,3\n\n"and\n\nthree",4,5,6\n',
        "x1,x2,y\n 1 ,2.5e0,+3\n4.,.5e1,6\n",
        "x1;x2;y\n1;2.5;3\n4;5;6\n",
        'text\tx1\t"x2"\ty\n"a\t, ""b"""\t1\t2.5\t3\nc;\t4\t5\t6\n',
        '"a, b"|x1|x2|y\n"two\nlines"|1|2.5|3\n|4|5|6\n',
    ],
    ids=[
        "plain",
        "no-end",
        "crlf",
        "bom",
        "blank",
        "blank-crlf",
        "quoted",
        "other",
        "comma",
        "lines",
        "signs",
        "semicolons",
        "tabs",
        "bars",
    ],
)
def test_a_file_is_read_however_it_is_written(reader: Any, text: str) -> None:
    """Line ends, byte order marks, blank lines, quotes, separators and unused columns change nothing."""
    assert read(reader, text) == TWO_ROWS


NUMBER, FLOAT = ("int32", ()), ("float32", ())


@pytest.mark.parametrize(
    ("text", "columns", "wanted", "read_as"),
    [
        pytest.param("y\n7\n\n8\n", {"y": "y"}, {"y": NUMBER}, {"y": [7, 8]}, id="a line of one character"),
        pytest.param(
            "y,x10,x2,x1\n0,10,2,1\n",
            {"x": "x*"},
            {"x": ("float32", (3,))},
            {"x": [[1, 2, 10]]},
            id="columns of a glob that differ in their numbers go by these",
        ),
        pytest.param(
            "size.w,size.h,n\n1,2,3\n",
            {"v": "size.*"},
            {"v": ("float32", (2,))},
            {"v": [[1, 2]]},
            id="other columns of a glob go as in the header",
        ),
        pytest.param(
            "a,b,c\n1,2,3\n",
            {"v": ("c", "a")},
            {"v": ("float32", (2,))},
            {"v": [[3, 1]]},
            id="a list gives the columns in its order",
        ),
        pytest.param(
            "n1,m[0]\n1,2\n",
            {"a": "n1", "b": "n*", "c": "m[0]"},
            {"a": FLOAT, "b": ("float32", (1,)), "c": FLOAT},
            {"a": [1], "b": [[1]], "c": [2]},
            id="a name makes a scalar and goes before a glob, which makes a vector",
        ),
        pytest.param(
            "n,m\n3,4\n",
            {"a": "n", "b": "n", "c": ("n", "m")},
            {"a": NUMBER, "b": FLOAT, "c": ("float32", (2,))},
            {"a": [3], "b": [3.0], "c": [[3, 4]]},
            id="a column feeds inputs of different dtypes",
        ),
    ],
)
def test_which_columns_are_read(reader: Any, text: str, columns: Any, wanted: Any, read_as: Any) -> None:
    """Names, globs and lists of names; of lines only those without any character are left out."""
    assert read(reader, text, wanted, **columns) == read_as


def test_a_gzip_file_is_read(reader: Any) -> None:
    """A file that was packed by gzip is unpacked on the way."""
    assert read(reader, gzip.compress(b"x1,x2,y\n1,2.5,3\n4,5,6\n"), name="data.csv.gz") == TWO_ROWS


def test_cells_are_read_as_the_dtype_of_the_input(reader: Any) -> None:
    """The dtype of each input decides how its cells are read, to the last digit and the last bit."""
    dtypes = [
        "uint8",
        "int8",
        "uint16",
        "int64",
        "uint32",
        "uint64",
        "float64",
        "float16",
        "bfloat16",
        "bool",
        "string",
    ]
    wanted = {f"t_{each}": (each, ()) for each in dtypes}
    cells = [
        "255",
        "-128",
        "65535",
        "9007199254740993",
        "4294967295",
        "+18446744073709551615 ",
        "0.1",
        "0.5",
        "3",
        "1",
        "ab c",
    ]
    text = ",".join(wanted) + "\n" + ",".join(cells) + "\n"
    (reader.base / "data.csv").write_text(text)
    stream = reader.open(reader.call("csv", "data.csv", **{name: name for name in wanted}), wanted=wanted)
    (batch,) = reader.batches(stream, 2)
    assert [batch[name].dtype.name for name in wanted] == [*dtypes[:-1], "object"]
    assert [batch[name].tolist()[0] for name in wanted] == [
        255, -128, 65535, 9007199254740993, 4294967295, 2**64 - 1, 0.1, 0.5, 3, True, b"ab c",
    ]  # fmt: skip


def test_files_of_a_glob_are_read_one_after_the_other(reader: Any) -> None:
    """Files that a glob matches are taken in natural order, each without its header."""
    for number in (10, 2, 1):
        (reader.base / f"part-{number}.csv").write_text(f"n\n{number}\n{number}.5\n")
    stream = reader.open(reader.call("csv", "part-*.csv", n="n"), wanted={"n": ("float32", ())})
    assert reader.column(stream, "n") == [1, 1.5, 2, 2.5, 10, 10.5]
    assert stream.size == 6


def test_a_path_is_relative_to_the_spec_or_absolute(reader: Any, tmp_path_factory: Any) -> None:
    """Paths start at the folder of the spec; an absolute path is taken as it is."""
    other: Path = tmp_path_factory.mktemp("other")
    for folder, number in ((reader.base / "sub", 1), (other, 2)):
        folder.mkdir(exist_ok=True)
        (folder / "n.csv").write_text(f"n\n{number}\n")
    paths = ["sub/n.csv", str(other / "n.csv")]
    streams = [reader.open(reader.call("csv", each, n="n"), wanted={"n": ("int32", ())}) for each in paths]
    assert [reader.column(each, "n") for each in streams] == [[1], [2]]


def test_the_digits_are_read_as_numpy_reads_them(reader: Any) -> None:
    """The example data comes out as NumPy loads it, reshaped and scaled as the example spec says."""
    reader.base = ROOT / "examples"
    expected = np.loadtxt(reader.base / "data/digits/train.csv", delimiter=",", skiprows=1, dtype=np.float32)
    stream = reader.open(
        reader.call("csv", "data/digits/train.csv", image="pixel_*", digit="digit"),
        reader.call("reshape", "image", (8, 8, 1)),
        reader.call("scale", "image", 1 / 16),
        wanted={"image": ("float32", (8, 8, 1)), "digit": ("int32", ())},
    )
    (batch,) = reader.batches(stream, 2000)
    assert stream.size == 1438
    np.testing.assert_array_equal(batch["image"], expected[:, :64].reshape(-1, 8, 8, 1) / 16)
    np.testing.assert_array_equal(batch["digit"], expected[:, 64])


def test_sound_data_explains_nothing(reader: Any) -> None:
    """Errors that the data has not caused are not explained by it."""
    (reader.base / "n.csv").write_text("n\n1\n")
    stream = reader.open(reader.call("csv", "n.csv", n="n"), wanted={"n": ("int32", ())})
    assert stream.explain(tf.errors.InvalidArgumentError(None, None, "[[IteratorGetNext]]")) is None
    assert stream.explain(tf.errors.InvalidArgumentError(None, None, "a label of the model")) is None
    assert stream.explain(tf.errors.ResourceExhaustedError(None, None, "memory")) is None
    assert stream.explain(ValueError("nothing of ours")) is None


def test_columns_must_be_named(reader: Any) -> None:
    """A csv source without tensors is a fault of the spec."""
    (reader.base / "n.csv").write_text("n\n1\n")
    found = refusal_of(lambda: reader.open(reader.call("csv", "n.csv"), wanted={"n": ("int32", ())}))
    assert (found.code, found.message) == ("TFD724", "`csv` names no tensor")


def test_files_are_found_in_natural_order(tmp_path: Path) -> None:
    """Folders that a glob matches are left out; a name with numbers in it sorts by these."""
    for name in ("part-10.csv", "part-2.csv", "other.csv"):
        (tmp_path / name).touch()
    (tmp_path / "part-3.csv").mkdir()
    found = [each.name for each in find_files("part-*.csv", tmp_path, None)]
    assert found == ["part-2.csv", "part-10.csv"]
    assert find_folder("part-3.csv", tmp_path, None) == tmp_path / "part-3.csv"
    assert sorted(["b2", "b10", "10", "9", "a", "b"], key=natural_key) == ["9", "10", "a", "b", "b2", "b10"]
