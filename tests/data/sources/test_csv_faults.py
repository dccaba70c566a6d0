"""Broken CSV files: each kind of fault with its code, message and place in the file."""

from __future__ import annotations

import gzip
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from dsl.diagnostics import SpecError
from dsl.formats.render import human

XY = {"x": ("float32", (2,)), "y": ("int32", ())}
LONG = "".join(f"{each},{each}.5,{each}\n" for each in range(3000))

# Content of bad.csv; code, message after the file's name, and the place: (line, column), None for the spec.
BROKEN: dict[str, tuple[str | bytes, str, str, tuple[int, int] | None]] = {
    "empty file": ("", "TFD703", ": the file is empty", None),
    "only blank lines": ("\n\r\n\n", "TFD703", ": the file holds nothing but blank lines", None),
    "blank first line": (
        "\nx1,x2,y\n1,2,3\n",
        "TFD709",
        ": the first line is blank, but should have the names of the columns",
        None,
    ),
    "missing column": ("x1,x2\n1,2\n", "TFD704", ", row 1: there is no column `y`", None),
    "no header": (
        "1,2,3\n4,5,6\n",
        "TFD709",
        ", row 1: the first row holds numbers in place of the names of the columns",
        None,
    ),
    "semicolons": (
        "x1;x2;y\n1;2;3\n",
        "TFD709",
        ", row 1: the header is a single column: the cells are not separated by commas",
        None,
    ),
    "column twice": ("x1,x2,y,y\n1,2,3,4\n", "TFD709", ", row 1: there are 2 columns `y`", None),
    "globbed column twice": ("x1,x1,y\n1,2,3\n", "TFD709", ", row 1: there are 2 columns `x1`", None),
    "old line ends": ("x1,x2,y\r1,2,3\r", "TFD702", ": the lines end with lone carriage returns", None),
    "UTF-16": ("x1,x2,y\n1,2,3\n".encode("utf-16"), "TFD702", ": the text is UTF-16", None),
    "not UTF-8": (b"x1,x2,\xe4,y\n1,2,0,3\n", "TFD702", ": the header is not UTF-8 (byte 7)", None),
    "binary": (b"\x7fELF\0\0,x1", "TFD702", ": this is not text", None),
    "header quote": ('x1,x2,"y\n1,2,3\n', "TFD708", ", row 1: a quote that is never closed", (1, 7)),
    "short first row": (
        "x1,x2,y\n1,2\n",
        "TFD705",
        ", row 2, column `y`: 2 cells, but the header has 3",
        (2, 4),
    ),
    "short row": (
        f"x1,x2,y\n{LONG}1\n{LONG}",
        "TFD705",
        ", row 3002, column `x2`: 1 cell, but the header has 3",
        (3002, 2),
    ),
    "long row": (
        f"x1,x2,y\n{LONG}1,2,3,4\n",
        "TFD705",
        ", row 3002: 4 cells, but the header has 3",
        (3002, 7),
    ),
    "hexadecimal": (
        f"x1,x2,y\n{LONG}1,-0X1p3,2\n",
        "TFD706",
        ", row 3002, column `x2`: `-0X1p3` is not a number",
        (3002, 3),
    ),
    "row after blank lines": (
        "x1,x2,y\n1,2,3\n\n\n1,oops,3\n",
        "TFD706",
        ", row 5, column `x2`: `oops` is not a number",
        (5, 3),
    ),
    "row after quoted lines": (
        'x1,x2,t,y\n1,2,"a\nb",3\n1,oops,c,3\n',
        "TFD706",
        ", row 4, column `x2`: `oops` is not a number",
        (4, 3),
    ),
    "no number": (
        f"x1,x2,y\n{LONG}1,abc,3\n",
        "TFD706",
        ", row 3002, column `x2`: `abc` is not a number",
        (3002, 3),
    ),
    "fraction": ("x1,x2,y\n1,2,3.5\n", "TFD706", ", row 2, column `y`: `3.5` is not a whole number", (2, 5)),
    "empty cell": (
        "x1,x2,y\n1,,3\n",
        "TFD706",
        ", row 2, column `x2`: the cell is empty, not a number",
        (2, 3),
    ),
    "blank cell": (
        "x1,x2,y\n1,2, \n",
        "TFD706",
        ", row 2, column `y`: the cell is empty, not a whole number",
        (2, 5),
    ),
    "nan": (
        f"x1,x2,y\n{LONG}1,nan,3\n",
        "TFD706",
        ", row 3002, column `x2`: `nan` is not a finite number",
        (3002, 3),
    ),
    "infinite": (
        "x1,x2,y\n-inf,2,3\n",
        "TFD706",
        ", row 2, column `x1`: `-inf` is not a finite number",
        (2, 1),
    ),
    "too large a float": (
        "x1,x2,y\n1,1e50,3\n",
        "TFD707",
        ", row 2, column `x2`: `1e50` is too large for float32",
        (2, 3),
    ),
    "too large a number": (
        "x1,x2,y\n1,2,3000000000\n",
        "TFD707",
        ", row 2, column `y`: `3000000000` is outside int32, which holds -2147483648 to 2147483647",
        (2, 5),
    ),
    "open quote": (
        f'x1,x2,y\n{LONG}1,2,"3\n{LONG}',
        "TFD708",
        ", row 3002: a quote that is never closed",
        (3002, 5),
    ),
    "stray quote": (
        f'x1,x2,y\n1,2"2,3\n{LONG}1,"2",3\n',
        "TFD708",
        ", row 2: a quote inside a cell that does not begin with one",
        (2, 4),
    ),
    "text after quote": (
        'x1,x2,y\n1,"2"3,4\n',
        "TFD708",
        ", row 2: text after the closing quote of a cell",
        (2, 6),
    ),
    "cut off": (
        gzip.compress(f"x1,x2,y\n{LONG}".encode())[:-20],
        "TFD710",
        ": unpacking it fails: compressed file ended before the end-of-stream marker was reached",
        None,
    ),
}


@pytest.mark.family(every=9)
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_located(reader: Any, kind: str) -> None:
    """The diagnostic names file, row and column, and points at the cell, or else at the spec."""
    content, code, message, place = BROKEN[kind]
    path = reader.base / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = reader.fault(reader.call("csv", "bad.csv", x="x*", y="y"), wanted=XY)
    assert (found.code, found.message) == (code, f"`{path}`{message}")
    assert found.span is not None
    begin = found.span.begin
    if place is None:
        assert (found.span.source.name, found.labels) == ("spec.tfdeploy", ())
    else:
        assert (found.span.source.name, begin.line, begin.column) == (str(path), *place)
        assert ": a quote " not in message or found.span.text == '"'
        assert [(each.span.source.name, each.text) for each in found.labels] == [
            ("spec.tfdeploy", "read by this source")
        ]


def test_a_missing_file_names_the_nearest(reader: Any) -> None:
    """A file that is not there is named in full, with one of a similar name."""
    (reader.base / "train.csv").write_text("n\n1\n")
    found = reader.fault(reader.call("csv", "trian.csv", n="n"), wanted={"n": ("int32", ())})
    assert (found.code, found.message) == ("TFD701", f"`{reader.base / 'trian.csv'}`: there is no such file")
    assert found.help == "a file with a similar name is there: `train.csv`"


def test_a_glob_without_files_a_folder_and_a_locked_file(reader: Any) -> None:
    """What cannot be opened says why."""
    (reader.base / "folder").mkdir()
    cases = {
        "*.csv": ("TFD701", "no file matches"),
        "folder": ("TFD702", "this is a folder, not a file"),
        "folder/x/y.csv": ("TFD701", "there is no such file"),
    }
    for path, (code, message) in cases.items():
        found = reader.fault(reader.call("csv", path, n="n"), wanted={"n": ("int32", ())})
        assert (found.code, found.message) == (code, f"`{reader.base / path}`: {message}")


def test_a_header_alone_is_no_data(reader: Any) -> None:
    """A file without rows is said to hold no example, and so is one of which nothing is left."""
    (reader.base / "h.csv").write_text("n\n")
    (reader.base / "three.csv").write_text("n\n1\n2\n3\n")
    wanted = {"n": ("int32", ())}
    (reader.base / "one.csv").write_text("n\n1\n")
    reader.open(reader.call("csv", "one.csv", n="n"), wanted=wanted).check()
    header = reader.fault(reader.call("csv", "h.csv", n="n"), wanted=wanted)
    skipped = reader.fault(reader.call("csv", "three.csv", n="n"), reader.call("skip", 3), wanted=wanted)
    assert (header.code, header.message) == ("TFD703", "`train`: there is no example")
    assert (skipped.code, skipped.message) == (
        "TFD703",
        "`train`: none of the 3 examples is left after the transforms",
    )


def test_files_of_different_columns_do_not_go_together(reader: Any) -> None:
    """All files of a glob must have the columns of the first."""
    (reader.base / "a1.csv").write_text("x,y\n1,2\n")
    (reader.base / "a2.csv").write_text("y,x\n1,2\n")
    found = reader.fault(reader.call("csv", "a*.csv", x="x"), wanted={"x": ("int32", ())})
    assert found.code == "TFD709"
    assert found.message == (
        f"`{reader.base / 'a2.csv'}`, row 1: the columns are not those of `{reader.base / 'a1.csv'}`"
    )


def test_a_fault_in_a_later_file_is_found_there(reader: Any) -> None:
    """Rows are counted in the file in which they are."""
    (reader.base / "p1.csv").write_text("n\n1\n2\n")
    (reader.base / "p2.csv").write_text("n\n3\nfour\n")
    found = reader.fault(reader.call("csv", "p*.csv", n="n"), wanted={"n": ("int32", ())})
    assert found.message == f"`{reader.base / 'p2.csv'}`, row 3, column `n`: `four` is not a whole number"


def test_a_label_that_is_no_class_is_found(reader: Any) -> None:
    """A number that `one_hot` does not know is located like a fault of the file."""
    (reader.base / "n.csv").write_text("n\n" + "1\n" * 2000 + "7\n")
    found = reader.fault(
        reader.call("csv", "n.csv", n="n"), reader.call("one_hot", "n", 3), wanted={"n": ("float32", (3,))}
    )
    assert found.code == "TFD707"
    assert found.message == (
        f"`{reader.base / 'n.csv'}`, row 2002: `7` in `n` is no class of `one_hot`, which knows 0 to 2"
    )
    assert found.span is not None
    assert (Path(found.span.source.name).name, found.span.begin.line) == ("n.csv", 2002)


def test_a_fault_beyond_what_is_used_is_none(reader: Any) -> None:
    """Rows that `take` leaves out may be broken: they are read by nobody, and blamed for nothing."""
    import tensorflow as tf

    (reader.base / "n.csv").write_text("n\n" + "1\n" * 50 + "bad\n")
    stream = reader.open(
        reader.call("csv", "n.csv", n="n"), reader.call("take", 50), wanted={"n": ("int32", ())}
    )
    assert len(reader.column(stream, "n")) == 50
    assert stream.explain(tf.errors.InvalidArgumentError(None, None, "Iterator::Model")) is None


def test_sound_data_explains_nothing(reader: Any) -> None:
    """Errors that the data has not caused are not explained by it."""
    import tensorflow as tf

    (reader.base / "n.csv").write_text("n\n1\n")
    stream = reader.open(reader.call("csv", "n.csv", n="n"), wanted={"n": ("int32", ())})
    assert stream.explain(tf.errors.InvalidArgumentError(None, None, "[[IteratorGetNext]]")) is None
    assert stream.explain(tf.errors.InvalidArgumentError(None, None, "a label of the model")) is None
    assert stream.explain(tf.errors.ResourceExhaustedError(None, None, "memory")) is None
    assert stream.explain(ValueError("nothing of ours")) is None


def test_columns_must_be_named(reader: Any) -> None:
    """A csv source without tensors is a fault of the spec."""
    (reader.base / "n.csv").write_text("n\n1\n")
    with pytest.raises(SpecError) as caught:
        reader.open(reader.call("csv", "n.csv"), wanted={"n": ("int32", ())})
    assert [(each.code, each.message) for each in caught.value.diagnostics] == [
        ("TFD724", "`csv` names no tensor")
    ]


def test_a_fault_is_shown_in_the_file_and_in_the_spec(reader: Any) -> None:
    """What a person sees: the row with its cell marked, and below it the source that reads the file."""
    (reader.base / "n.csv").write_text("a,b,n\n" + "1,2,3\n" * 11 + "1,2,three\n")
    found = reader.fault(reader.call("csv", "n.csv", n="n"), wanted={"n": ("int32", ())})
    (text,) = human([found])
    assert text.replace(str(reader.base), "data") == dedent(
        """\
        error[TFD706]: `data/n.csv`, row 13, column `n`: `three` is not a whole number
          --> data/n.csv:13:5
           |
        13 | 1,2,three
           |     ^^^^^ not a whole number
          ::: spec.tfdeploy:1:1
           |
         1 | csv(...)
           | -------- read by this source
        """
    )
