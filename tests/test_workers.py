"""Workers that are forked report what those report that import the tests for themselves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.folders import ROOT


@pytest.mark.full
def test_a_file_that_cannot_be_imported_is_an_error(tmp_path: Path) -> None:
    """The tests before its fault are not run, and those of other files are, in a forked process."""
    (tmp_path / "test_bad.py").write_text("def test(): pass\nimport nothing_there\n")
    (tmp_path / "test_good.py").write_text(
        "import os\nfrom tests import forked\n"
        "def test(): assert os.path.exists(f'/proc/self/fd/{forked.WORDS}')\n"
    )
    options = ["--import-mode=importlib", "--continue-on-collection-errors", "-c", os.devnull, "--rootdir=."]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-n1", *options, "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'nothing_there'" in done.stdout
    assert done.stdout.splitlines()[-1].strip("= ").startswith("1 passed, 1 error in "), (
        done.stdout + done.stderr
    )
