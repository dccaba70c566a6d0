"""Paths of specs: globs, whatever their folder is called, and what is no path."""

from pathlib import Path

import pytest

from dsl.files.regular import absolute, matches, scheme_of

ODD = ("plain", "a[1]", "[!a]", "a*", "a?", "a{b}", "a\\", "~", "$HOME", "a b", "a\nb", "-x", "\u00e9", "x[")


@pytest.mark.parametrize("name", ODD)
def test_a_folder_is_never_part_of_a_glob(name: str, tmp_path: Path) -> None:
    """Its files are found by their names and by globs, relative and absolute, and those of others are not."""
    base = tmp_path / name
    for folder in (base, tmp_path / "a1", tmp_path / "ab"):
        folder.mkdir()
        for each in ("part-1.csv", "part-2.csv", "b[1].csv", "b1.csv"):
            (folder / each).touch()
    parts = [base / "part-1.csv", base / "part-2.csv"]
    for written, found in (("part-*.csv", parts), ("b[1].csv", [base / "b[1].csv"]), ("b[2].csv", [])):
        assert sorted(matches(base, written)) == found
        assert sorted(matches(Path("elsewhere"), absolute(base, written))) == found
    (base / "b[1].csv").unlink()
    assert matches(base, "b[1].csv") == [base / "b1.csv"]
    assert matches(Path("elsewhere"), absolute(base, "b[1].csv")) == [base / "b1.csv"]


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    """There is no such file, and no glob finds one."""
    assert matches(tmp_path, "x" * 300) == matches(tmp_path, "x" * 300 + "*") == []


def test_addresses() -> None:
    """They begin with a scheme and two slashes; all else is a path."""
    for text in ("gs://bucket/x", "s3://b", "hdfs://host:9000/x", "http://h/x", "file:///x", "a+b-c.1://x"):
        assert scheme_of(text) == text.partition(":")[0]
    for text in ("gs:/x", "./gs://x", "//x", "://x", "a/b://c", "1a://x", "c:\\x", "-x://y", ""):
        assert scheme_of(text) is None
