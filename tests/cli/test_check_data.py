"""`check` looks at the data that a spec names, as far as they are here."""

import gzip
import os
from pathlib import Path

import pytest

import grammar
from compiler.checks import check_spec
from dsl.diagnostics import Diagnostic
from tests.specs import CLASSES

SPEC = f"""{CLASSES}
data {{
  train = SOURCE
}}

train {{ steps = 1 }}
"""
ROWS = "a,b,c,d, label \n1,2,3,4,0\n"


def checked(folder: Path, source: str, text: str = SPEC) -> list[Diagnostic]:
    """Return what `check` says of a spec with a source."""
    path = folder / "spec.tfdeploy"
    path.write_text(text.replace("SOURCE", source))
    return check_spec(grammar.load(path, allow_python=True))


def found(folder: Path, source: str, text: str = SPEC) -> list[tuple[str, bool, str, str | None]]:
    """Return what is found: the code, whether it is an error, where, and the advice."""
    return [
        (each.code, each.is_error, each.span.text if each.span else "", each.help)
        for each in checked(folder, source, text)
    ]


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    """The nearest column is named; globs, lists, gzip and a byte order mark are read as a run reads them."""
    (tmp_path / "t.csv").write_text("\ufeff" + ROWS)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(ROWS.encode()))
    for name in ("t.csv", "t.csv.gz", "t.*"):
        assert found(tmp_path, f'csv("{name}", x = "[abcd]", label = "label")') == []
        assert found(tmp_path, f'csv("{name}", x = ["a", "b", "c", "d"], label = "label")') == []
        assert found(tmp_path, f'csv("{name}", x = "[abcd]", label = "lable")') == [
            ("TFD704", True, '"lable"', "there is a column with a similar name: `label`")
        ]
    (tmp_path / "two.csv").write_text('"a, b",label\n1,0\n')
    assert found(tmp_path, 'csv("two.csv", x = "a, b", label = "label")') == []
    assert [each[:3] for each in found(tmp_path, 'csv("two.csv", x = "a", label = "label")')] == [
        ("TFD704", True, '"a"')
    ]
    both = found(tmp_path, 'csv("t.csv", x = "pixel_*", label = ["label", "e"])')
    assert [each[:2] for each in both] == [("TFD704", True)] * 2


def test_files_that_are_not_there(tmp_path: Path) -> None:
    """A file that its folder lacks is a warning; where the folder is missing, data are elsewhere."""
    (tmp_path / "train.csv").write_text(ROWS)
    (tmp_path / "flowers").mkdir()
    missing = found(tmp_path, 'csv("trian.csv", x = "[abcd]", label = "label")')
    assert missing == [("TFD701", False, '"trian.csv"', "a file with a similar name is there: `train.csv`")]
    for source in (
        'npz("a.npz")',
        'tfrecord("part-*.tfrecord", x = feature(float32, [4]), label = feature(int32))',
        'npz("part-*.npz")',
    ):
        assert [each[:2] for each in found(tmp_path, source)] == [("TFD701", False)]
    for source in (
        'csv("elsewhere/train.csv", x = "[abcd]", label = "label")',
        'npz("/nowhere/at/all/*.npz")',
        "synthetic(10, x = feature(float32, [4]), label = feature(int32, classes = 2))",
    ):
        assert found(tmp_path, source) == []
    images = (
        SPEC.replace("x = input", "image = input")
        .replace("x ->", "image ->")
        .replace("float32, [4]", "uint8, [4, 4, 3]")
    )
    images = images.replace("image -> Dense", "image -> Flatten() -> Dense")
    assert found(tmp_path, 'images("flowers", [4, 4])', images) == []
    assert [each[:3] for each in found(tmp_path, 'images("flower", [4, 4])', images)] == [
        ("TFD701", False, '"flower"')
    ]
    for source, text, words in (
        ('images("flower", [4, 4])', images, "there is no such folder"),
        ('npz("a.npz")', SPEC, "there is no such file"),
        ('npz("trian.cs?")', SPEC, "no file matches"),
    ):
        (warning,) = checked(tmp_path, source, text)
        assert words in warning.message


def test_files_that_are_no_tables_are_left_to_a_run(tmp_path: Path) -> None:
    """Only a header that is one is held against the columns, and nothing keeps `check` waiting."""
    contents = {
        "numbers": b"1,2,3\n4,5,6\n",
        "one column": b"a b c d label\n",
        "empty": b"",
        "blank": b"\n\n",
        "binary": bytes(range(256)),
        "quotes": b'a,"b\n',
        "cut": gzip.compress(ROWS.encode())[:12],
        "long": b"a,b" * 1_000_000,
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in (*contents, "pipe", "folder"):
        assert found(tmp_path, f'csv("{name}", x = "[abcd]", label = "none")') == [], name


@pytest.mark.parametrize("data", ["", "data {\n  test = synthetic(4, x = feature(float32, [4]))\n}\n"])
def test_training_without_data_is_a_warning(tmp_path: Path, data: str) -> None:
    """A spec that is planned needs no data; one that says how long to train will."""
    text = SPEC[: SPEC.index("data {")] + data.replace("[4]))", "[4]), label = feature(int32))")
    assert found(tmp_path, "", text) == []
    for wanted in ("steps = 1", "epochs = 2"):
        warned = found(tmp_path, "", f"{text}\ntrain {{ {wanted} }}\n")
        assert [each[:2] for each in warned] == [("TFD509", False)]
