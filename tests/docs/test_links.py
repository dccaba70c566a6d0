"""Links lead somewhere, in the repository as well as in the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, page_files, prose_of

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
