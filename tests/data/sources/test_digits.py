"""The example data in the repository."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.folders import ROOT

FOLDER = ROOT / "examples" / "data" / "digits"


@pytest.mark.full
def test_the_script_reproduces_the_files(tmp_path: Path) -> None:
    """The two CSV files in the repository are byte for byte what their script writes."""
    subprocess.run([sys.executable, FOLDER / "make_digits.py", tmp_path], check=True, capture_output=True)
    for name in ("train.csv", "test.csv"):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()


@pytest.mark.full
def test_every_fifth_digit_is_for_testing() -> None:
    """Of the 1,797 digits rows 5, 10, 15 and so on are in test.csv, and the others in train.csv."""
    rows = runpy.run_path(str(FOLDER / "make_digits.py"))["rows"]()
    written = {name: _read(FOLDER / name) for name in ("train.csv", "test.csv")}
    assert written["test.csv"] == rows[4::5]
    assert len(written["train.csv"]) == 1438
    assert sorted(written["train.csv"] + written["test.csv"]) == sorted(rows)


def _read(path: Path) -> list[list[int]]:
    header, *lines = path.read_text(encoding="ascii").splitlines()
    assert header.split(",") == [*(f"pixel_{index}" for index in range(64)), "digit"]
    return [[int(cell) for cell in line.split(",")] for line in lines]
