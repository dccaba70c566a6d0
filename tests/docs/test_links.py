"""Links lead somewhere, named files are there, and pictures are those of today."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, page_files, prose_of
from tools import make_pictures

PAGES = [*page_files(), *sorted(ROOT.glob("*.md")), *sorted((ROOT / "tfdeploy" / "pages").glob("*.md"))]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """Return the anchors that the headings of a page become."""
    plain = (re.sub(r"[`*]|\]\([^)]*\)|\[", "", each) for each in HEADING.findall(prose_of(path)))
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", each).strip().lower()) for each in plain}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_somewhere(path: Path) -> None:
    """Files are there, and headings in them."""
    broken = []
    for target in LINK.findall(prose_of(path)):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def test_every_page_is_reached_from_the_first() -> None:
    """Following links from the index leads to every page, decisions apart, which the site's menu has."""
    docs = ROOT / "docs"
    reached, pending = set(), [docs / "index.md"]
    while pending:
        path = pending.pop()
        if path in reached or path.suffix != ".md":
            continue
        reached.add(path)
        targets = (target.partition("#")[0] for target in LINK.findall(prose_of(path)))
        pending += [(path.parent / each).resolve() for each in targets if each and "://" not in each]
    assert {path for path in page_files() if path.parent.name != "adr"} <= reached


PARTS = {
    "ARCHITECTURE.md": ("## Glossary", "## The way of a spec, file by file"),
    "CONTRIBUTING.md": ("## What to change for what", "## Commit messages"),
}
PLACE = re.compile(r"`((?:dsl|grammar|compiler|tfdeploy|tests|docs|tools|editors)/[\w./-]*)`")


@pytest.mark.parametrize("page", PARTS)
def test_every_place_is_there(page: str) -> None:
    """Each file and folder in backticks."""
    first, last = PARTS[page]
    text = (ROOT / page).read_text(encoding="utf-8").partition(first)[2].partition(last)[0]
    named = PLACE.findall(text)
    assert len(named) > 20
    assert [each for each in named if not (ROOT / each).exists()] == []


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
