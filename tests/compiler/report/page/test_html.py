"""The page as a file, without a browser: self-contained, small, and nothing in it taken as markup."""

import json
import re
from html.parser import HTMLParser
from typing import Any

from attrs import evolve

from compiler.report.page.data import lines_of
from compiler.report.page.html import bundle, html_page
from tests.placement_maps import SPEC, make_map

TEXT = "\n" * 10 + "place {\n  clones -> gpu[*]\n  variables -> cpu[0]\n}\n"
NASTY = "</script><img src=x onerror=alert(1)>&<!--"


class Outline(HTMLParser):
    """Takes down every element with its attributes, and the text of those that hold scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take an element down."""
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        """Take the text of the element that was opened last."""
        self.texts.setdefault(self._inside, []).append(data)


def page_of(placement: Any) -> str:
    """Return the page of a map of a spec whose text is TEXT."""
    return html_page(placement, lines_of(placement, {SPEC: TEXT}))


def data_of(page: str) -> dict[str, Any]:
    """Return the data in a page."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    found: dict[str, Any] = json.loads(text)
    return found


def test_nothing_is_loaded() -> None:
    """The page has no address of anything outside it, and its policy lets nothing be loaded."""
    page = page_of(make_map(2))
    outline = Outline(page)
    assert not [tag for tag, attrs in outline.elements if {"src", "href", "action"} & set(attrs)]
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", page)
    (policy,) = (
        attrs["content"]
        for _, attrs in outline.elements
        if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_names_cannot_break_out() -> None:
    """Whatever a path, a name or a rule holds, the page has the same elements, and the data comes back."""
    placement = make_map(1)
    ops = tuple(
        evolve(op, name=f"{NASTY}{op.name}", rule=evolve(op.rule, text=NASTY)) for op in placement.ops
    )
    evil = evolve(placement, spec=evolve(placement.spec, path=NASTY), ops=ops)
    page = page_of(evil)
    tags = [tag for tag, _ in Outline(page).elements]
    assert tags == [tag for tag, _ in Outline(page_of(placement)).elements]
    assert NASTY not in page
    assert "<title>Placement of &lt;/script&gt;&lt;img" in page
    data = data_of(page)
    assert data["title"] == f"Placement of {NASTY}"
    assert f"{NASTY}input".partition("/")[0] in data["names"]


def test_the_page_does_not_grow_with_clones_that_are_alike() -> None:
    """Five hundred and twelve clones take hardly more than their devices and links."""
    few, many = (len(page_of(make_map(clones, host="worker[{}]."))) for clones in (8, 512))
    assert many < few + 512 * 700


def test_scripts_are_joined_without_comments() -> None:
    """Each module comes after those that it imports, and no comment or import is left."""
    script = bundle("map.js")
    assert "import" not in script
    assert "export " not in script
    assert "/**" not in script
    assert not re.search(r"^\s*//", script, re.MULTILINE)
    names = re.findall(r"^const (m\d+) = ", script, re.MULTILINE)
    assert names == [f"m{at}" for at in range(len(names))]
    for at, part in enumerate(script.split("\nconst m")[1:]):
        assert all(int(used) < at for used in re.findall(r"^const \{[^}]*\} = m(\d+);", part, re.MULTILINE))
