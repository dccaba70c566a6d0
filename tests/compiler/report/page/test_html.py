"""The page as a file, without a browser: self-contained, small, and nothing in it taken as markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

from attrs import evolve

from compiler.report.page.data.spec_lines import lines_of, texts_on_disk
from compiler.report.page.html import html_page
from tests.placement_maps import SPEC, VARIABLES, make_map

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
    assert policy is not None
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


def test_tree_holds_every_op_once() -> None:
    """The tree of names gives back every op with type, role, clone, device and rule."""
    placement = make_map(2)
    data = data_of(page_of(placement))
    found = {}

    def visit(node: list[Any], path: str) -> None:
        name = "/".join(filter(None, (path, data["names"][node[0]])))
        is_op = len(node) > 1 and isinstance(node[1], int)
        if is_op:
            found[name] = (data["kinds"][node[1]], data["rules"][node[2]])
        for child in node[3 if is_op else 1 :]:
            visit(child, name)

    visit(data["tree"], "")
    assert set(found) == {op.name for op in placement.ops}
    kind, rule = found["clone_1/conv1/kernel/read"]
    assert kind == ["ReadVariableOp", "read", 1, data["places"].index("cpu[0]"), -1]
    assert rule == ["follows", "conv1/kernel", 0, 13, 3, VARIABLES.text]


def test_lines_around_the_rules() -> None:
    """The lines of the spec on which rules stand are in the page, with a few before and after."""
    data = data_of(page_of(make_map(2)))
    assert data["files"] == [SPEC]
    assert data["lines"] == [
        {
            "9": "",
            "10": "",
            "11": "place {",
            "12": "  clones -> gpu[*]",
            "13": "  variables -> cpu[0]",
            "14": "}",
        }
    ]


def test_a_spec_that_has_changed_is_not_quoted(tmp_path: Any, monkeypatch: Any) -> None:
    """A map from a file quotes its spec only where that is still the text that it was made of."""
    import hashlib

    monkeypatch.chdir(tmp_path)
    (tmp_path / SPEC).write_text(TEXT)
    placement = make_map(1)
    assert texts_on_disk(placement) == {}
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    assert texts_on_disk(evolve(placement, spec=evolve(placement.spec, sha256=digest))) == {SPEC: TEXT}
