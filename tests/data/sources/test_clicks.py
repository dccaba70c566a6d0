"""The made-up clicks in the repository are those that their script makes, and can be learnt from."""

import runpy
from pathlib import Path

from tests.folders import ROOT

FOLDER = ROOT / "examples" / "data" / "clicks"


def test_the_script_reproduces_the_files(tmp_path: Path) -> None:
    """Both files are byte for byte what the script writes, and hold what their page says."""
    runpy.run_path(str(FOLDER / "make_clicks.py"))["main"](tmp_path)
    for name, count in (("train.csv", 12_000), ("test.csv", 3_000)):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()
        assert len((FOLDER / name).read_text().splitlines()) == count + 1
