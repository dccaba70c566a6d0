"""The site can be built strictly, and loads nothing from anywhere else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dsl.codes import CODES
from tests.docs.pages import ROOT, name_of, page_files

pytestmark = pytest.mark.full  # as `make docs` builds it too

LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?P<src>[^\"'\s>]+)"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|icon|preload|preconnect))[^>]*\bhref=[\"']?(?P<href>[^\"'\s>]+)",
)
IN_STYLES = re.compile(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    # Without --quiet, with which nothing counts as a warning, and --strict has no effect.
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_and_every_code_is_there(site: Path) -> None:
    """A page of the docs is a page of the site, and so is the page of each code."""
    wanted = {Path(name_of(path)).with_suffix(".html") for path in page_files()}
    wanted |= {Path("reference/codes") / f"{code}.html" for code in CODES}
    assert wanted <= {path.relative_to(site) for path in site.rglob("*.html")}


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and images are files of the site."""
    loaded = [
        (path.relative_to(site).as_posix(), found["src"] or found["href"])
        for path in site.rglob("*.html")
        for found in LOADED.finditer(path.read_text(encoding="utf-8"))
    ]
    assert loaded, "pages have styles and scripts"
    assert [each for each in loaded if re.match(r"(?:https?:)?//", each[1])] == []
    styles = [IN_STYLES.findall(path.read_text(encoding="utf-8")) for path in site.rglob("*.css")]
    assert [each for found in styles for each in found] == []


def test_specs_are_in_colour(site: Path) -> None:
    """Blocks of the language are taken apart by a lexer of their own."""
    assert '<span class="nf">Conv2D</span>' in (site / "how-to" / "model.html").read_text(encoding="utf-8")
