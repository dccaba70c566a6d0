"""The sources `parquet` and `arrow`, on files of every form that pyarrow writes."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsl.diagnostics import RunError
from tests.data.sources.test_images import png
from tests.support import refusal_of
from tfdeploy.data.sources import arrow_files


def arrow() -> Any:
    """Return pyarrow, which starts threads, so that it cannot be imported before processes are forked."""
    return import_module("pyarrow")


ROWS, COUNT = 50, 120
NUMBERS = np.arange(COUNT)
LISTS = [list(range(each % 4)) for each in range(COUNT)]


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read few rows at a time, so that small files have several pieces."""
    monkeypatch.setattr(arrow_files, "ROWS", ROWS)


def table() -> Any:
    """Return a table with a column of each kind."""
    vectors = NUMBERS[:, None] + np.array([0.25, 0.5, 0.75])
    return arrow().table(
        {
            "n": NUMBERS,
            "v_10": (NUMBERS % 5).astype(np.int8),
            "v_9": NUMBERS * 0.5,
            "odd": NUMBERS % 2 == 1,
            "kind": arrow().array([f"k{each % 3}" for each in NUMBERS]).dictionary_encode(),
            "fixed": arrow().FixedSizeListArray.from_arrays(arrow().array(vectors.ravel()), 3),
            "equal": [[[each, each + 1], [each + 2, each + 3]] for each in NUMBERS.tolist()],
            "list": LISTS,
            "pairs": arrow().array(
                [[[each, -each] for each in row] for row in LISTS],
                arrow().list_(arrow().list_(arrow().int64(), 2)),
            ),
            "image": [{"bytes": png(each % 256, 2, 2), "path": None} for each in NUMBERS.tolist()],
            "raw": [each.tobytes() for each in vectors.astype(np.float32)],
        }
    )


def written(path: Path, data: Any) -> None:
    """Write a table by the name of the file."""
    if path.suffix == ".parquet":
        import_module("pyarrow.parquet").write_table(data, path, row_group_size=70)
        return
    if path.suffix == ".feather":
        import_module("pyarrow.feather").write_feather(data, path)
        return
    opened = arrow().ipc.new_stream if path.suffix == ".stream" else arrow().ipc.new_file
    with arrow().OSFile(str(path), "wb") as file, opened(file, data.schema) as writer:
        writer.write_table(data, max_chunksize=70)


FORMS = ["f.parquet", "f.arrow", "f.stream", "f.feather"]


def source(reader: Any, path: str, **tensors: Any) -> Any:
    """Return the call that reads a file."""
    return reader.call("parquet" if path.endswith("parquet") else "arrow", path, **tensors)


@pytest.mark.family(every=2)
@pytest.mark.parametrize("form", FORMS)
def test_columns_of_every_kind_are_read(reader: Any, form: str) -> None:
    """By name, glob and list, as the dtype of the input, over the borders of pieces."""
    written(reader.base / form, table())
    feature = reader.call
    stream = reader.open(
        source(
            reader,
            form,
            n="n",
            v="v_*",
            one=("n",),
            odd="odd",
            kind="kind",
            fixed="fixed",
            equal=feature("feature", "int32", (2, 2)),
            image=feature("feature", "uint8", (2, 2, 3), key="image.bytes", encoding="image"),
            raw=feature("feature", "float32", (3,), encoding="raw"),
        ),
        reader.call("cast", "image", "float32"),
        wanted={
            "n": ("int32", ()),
            "v": ("float32", (2,)),
            "one": ("float32", (1,)),
            "odd": ("int64", ()),
            "kind": ("string", ()),
            "fixed": ("float32", (3,)),
            "equal": ("int32", (2, 2)),
            "image": ("float32", (2, 2, 3)),
            "raw": ("float32", (3,)),
        },
    )
    stream.check()
    batches = reader.batches(stream, 100)
    found = {name: np.concatenate([each[name] for each in batches]) for name in batches[0]}
    assert stream.size == COUNT
    np.testing.assert_array_equal(found["n"], NUMBERS)
    np.testing.assert_array_equal(found["v"], np.stack([NUMBERS * 0.5, NUMBERS % 5], 1))
    np.testing.assert_array_equal(found["one"][:, 0], NUMBERS)
    np.testing.assert_array_equal(found["odd"], NUMBERS % 2)
    assert found["kind"].tolist() == [f"k{each % 3}".encode() for each in NUMBERS]
    np.testing.assert_array_equal(found["fixed"], NUMBERS[:, None] + np.array([0.25, 0.5, 0.75]))
    np.testing.assert_array_equal(found["raw"], found["fixed"])
    np.testing.assert_array_equal(found["equal"].reshape(COUNT, 4), NUMBERS[:, None] + np.arange(4))
    np.testing.assert_array_equal(found["image"][:, 1, 1, 2], NUMBERS % 256)


@pytest.mark.family(every=3)
@pytest.mark.parametrize("form", FORMS[:3])
def test_lists_of_different_lengths_are_filled_up(reader: Any, form: str) -> None:
    """Of numbers, and of rows of two numbers."""
    written(reader.base / form, table())
    call = source(reader, form, list="list", pairs="pairs")
    wanted: Any = {"list": ("int32", (None,)), "pairs": ("int64", (None, 2))}
    stream = reader.open(call, reader.call("pad", ("list", "pairs"), value=-9), wanted=wanted)
    stream.check()
    batches = reader.batches(stream, 64)
    rows = [row for batch in batches for row in batch["list"].tolist()]
    assert [[each for each in row if each != -9] for row in rows] == LISTS
    assert batches[0]["pairs"][3].tolist() == [[0, 0], [1, -1], [2, -2]]
    assert batches[0]["pairs"][1].tolist() == [[0, 0], [-9, -9], [-9, -9]]


def test_files_are_read_one_after_the_other_and_shared_whole(reader: Any) -> None:
    """In natural order; a worker has whole files, and a run goes on where another has stopped."""
    data = table()
    for at, start in enumerate([0, 35, 70, 105]):
        written(reader.base / f"part-{at * 5}.parquet", data.slice(start, 10 if at == 3 else 35))
    call = source(reader, "part-*.parquet", n="n")
    wanted = {"n": ("int32", ())}
    assert reader.column(reader.open(call, wanted=wanted), "n", 64) == NUMBERS[:115].tolist()
    (reader.base / "part-15.parquet").unlink()
    shares = [reader.open(call, wanted=wanted, shard=(at, 3)) for at in range(3)]
    assert [reader.column(each, "n", 64)[0] for each in shares] == [0, 35, 70]
    shuffle = reader.call("shuffle", 30)
    whole = reader.column(reader.open(call, shuffle, wanted=wanted, seed=3), "n", 10, repeat=True, most=40)
    rest = reader.open(call, shuffle, wanted=wanted, seed=3, skip_examples=222)
    assert reader.column(rest, "n", 10, repeat=True, most=10) == whole[222:322]


def test_floats_become_whole_numbers_by_a_cast_only(reader: Any) -> None:
    """As cells of a CSV file do, but with the digits that a float has."""
    written(reader.base / "f.parquet", arrow().table({"x": [1.0, 2.75]}))
    call = source(reader, "f.parquet", x="x")
    stream = reader.open(call, reader.call("cast", "x", "int32"), wanted={"x": ("int32", ())})
    assert reader.column(stream, "x") == [1, 2]


@pytest.mark.family(every=2)
@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_was_cut_off_is_told(reader: Any, form: str) -> None:
    """Whatever pyarrow says of it."""
    path = reader.base / form
    written(path, table())
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = reader.fault(source(reader, form, x="n"), wanted={"x": ("float32", ())})
    assert (found.code, found.message.split(": ")[0]) == ("TFD710", f"`{path}`")


def test_without_pyarrow_the_message_says_what_to_install(
    reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an extra of the package."""
    path = reader.base / "f.parquet"
    written(path, arrow().table({"x": [1]}))
    for name in [each for each in sys.modules if each.split(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    found = reader.fault(source(reader, "f.parquet", x="x"), wanted={"x": ("int64", ())})
    assert (found.code, found.help) == ("TFD702", "install it: `pip install pyarrow`")
    assert "only the Python package `pyarrow` reads this file" in found.message


def test_a_source_without_tensors_is_refused(reader: Any) -> None:
    """Which columns are read is said by the spec."""
    written(reader.base / "f.parquet", arrow().table({"x": [1]}))
    found = refusal_of(lambda: reader.open(source(reader, "f.parquet"), wanted={"x": ("int64", ())}))
    assert found.message == "`parquet` names no tensor"


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_files_that_are_replaced(tmp_path: Path, ending: str) -> None:
    """A column that is gone or of another type is said, in place of reading another one."""
    path = tmp_path / f"x.{ending}"
    made = {"parquet": arrow_files.ParquetTable, "arrow": arrow_files.ArrowTable}[ending]
    for other in ({"a": [1], "y": [3]}, {"a": [1], "b": ["x"], "y": [3]}):
        written(path, arrow().table({"a": [1], "b": [2.0], "y": [3]}))
        table = made(path, None)
        assert "b" in table.columns
        written(path, arrow().table(other))
        with pytest.raises(RunError, match=r"TFD710.*`b` is no longer as it was"):
            list(table.rows(["a", "b"]))
