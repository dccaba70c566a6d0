"""The pictures of the documentation are there, are shown, and are those of what they are made of today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, page_files, prose_of
from tools import make_pictures

SHOWN = re.compile(r"!\[(?P<words>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def test_every_picture_is_made_of_what_is_there_today() -> None:
    """If the placement page, the curves or their specs have changed: `make pictures`."""
    assert make_pictures.stale() == []


def test_a_change_of_a_source_or_a_missing_picture_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other test can fail: for another spec, other drawing, and a picture that is not there."""
    monkeypatch.setattr(make_pictures, "start_spec", lambda: "tfdeploy = 1\n")
    assert make_pictures.stale() == ["curves.svg"]
    (tmp_path / "page.css").write_text("")
    monkeypatch.setattr(make_pictures, "PAGE", tmp_path)
    assert make_pictures.stale() == list(make_pictures.PICTURES)
    monkeypatch.undo()
    monkeypatch.setattr(make_pictures, "FOLDER", tmp_path)
    assert make_pictures.stale() == list(make_pictures.PICTURES)


def test_pictures_that_pages_show_are_there_and_have_words() -> None:
    """For those who cannot see them; and every picture that is made is shown."""
    shown = set()
    for page in page_files():
        for found in SHOWN.finditer(prose_of(page)):
            assert len(found["words"].split()) > 3, (page, found["target"])
            shown.add((page.parent / found["target"]).resolve())
    assert {each for each in shown if not each.is_file()} == set()
    assert {path for path in (DOCS / "pictures").iterdir() if path.suffix != ".json"} <= shown
    assert {path.name for path in (DOCS / "pictures").iterdir()} == {*make_pictures.PICTURES, "sources.json"}


def test_the_spec_of_the_first_page_fits_beside_its_picture() -> None:
    """No line is longer than the column that `docs/look.css` gives it in a window of 1,280 pixels."""
    assert max(map(len, make_pictures.first_spec().splitlines())) <= 64
    assert '<div class="first" markdown>' in (DOCS / "index.md").read_text()
    assert ".md-typeset .first {" in (DOCS / "look.css").read_text()
