"""The page as a file, without a browser: self-contained, small, and nothing in it taken as markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

from attrs import evolve

from compiler.mapping.records import MapTensor
from compiler.report.page.data import lines_of, texts_on_disk
from compiler.report.page.html import bundle, html_page
from tests.placement_maps import KERNEL_BYTES, SPEC, VARIABLES, make_map

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


def ops_of(data: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return type, role, clone, device and rule of every op in the data of a page, by its name."""
    found: dict[str, tuple[Any, ...]] = {}

    def visit(node: list[Any], path: str, clone: int | None, place: int) -> None:
        name = "/".join(filter(None, (path, data["names"][node[0]])))
        is_op = len(node) > 1 and isinstance(node[1], int)
        if is_op:
            kind, role, own, spot = data["kinds"][node[1]]
            device, assigned = data["spots"][spot][place]
            assert assigned == -1
            shown = own if clone is None else clone
            assert name not in found
            found[name] = (kind, role, shown, data["places"][device], data["rules"][node[2]])
        for child in node[4 if is_op else 1 :]:
            if isinstance(child, dict):
                family = data["families"][child["family"]]
                for at, each in enumerate(family["clones"]):
                    for inner in family["tree"][1:]:
                        visit(inner, data["clones"][str(each)], each, at)
            else:
                visit(child, name, clone, place)

    visit(data["tree"], "", None, 0)
    return found


def test_tree_holds_every_op_once() -> None:
    """The tree of names gives back every op with type, role, clone, device and rule."""
    placement = make_map(2)
    found = ops_of(data_of(page_of(placement)))
    assert set(found) == {op.name for op in placement.ops}
    rule = ["follows", "conv1/kernel", 0, 13, 3, VARIABLES.text]
    costs = data_of(page_of(placement))["costs"]
    assert [0, 0, 0, 0.0] in costs
    assert sorted(held for held, *_ in costs) == [0, *sorted(KERNEL_BYTES.values())]
    assert found["clone_1/conv1/kernel/read"] == ("ReadVariableOp", "read", 1, "cpu[0]", rule)


def test_links_have_their_largest_tensors() -> None:
    """Links of clones that are alike share a list, in which the number of their clone is left out."""
    placement = make_map(3)
    large, update = MapTensor("input/image", 512), MapTensor("update/apply", 4)
    links = tuple(
        evolve(each, largest=(MapTensor(f"clone_{at % 3}/conv1/mul", 64), large if at < 3 else update))
        for at, each in enumerate(placement.transfers)
    )
    both = evolve(links[0], largest=(MapTensor("clone_0/a", 8), MapTensor("clone_1/a", 8)))
    data = data_of(page_of(evolve(placement, transfers=(*links, both))))
    assert len(data["tensors"]) == 3
    assert [row[7] for row in data["transfers"]] == [0, 1, 2, 0, 1, 2, -1]
    for row, link in zip(data["transfers"], (*links, both), strict=True):
        listed = [[name.replace("{}", str(row[7])), size] for name, size in data["tensors"][row[5]]]
        assert listed == [[each.name, each.bytes] for each in link.largest]


def test_clones_that_are_alike_are_in_the_page_once() -> None:
    """Eight clones are one family, from which every op comes back; an odd one stays by itself."""
    placement = make_map(8)
    odd = tuple(evolve(op, type="Gelu") if op.name == "clone_6/conv1/Relu" else op for op in placement.ops)
    placement = evolve(placement, ops=odd)
    data = data_of(page_of(placement))
    assert [each["label"] for each in data["families"]] == ["clone_0..5,7"]
    found = ops_of(data)
    assert len(found) == len(placement.ops)
    for op in placement.ops:
        assert found[op.name][:4] == (op.type, op.role, -1 if op.clone is None else op.clone, op.requested)
        assert found[op.name][4][1] == op.rule.text


def test_a_clone_that_is_not_where_it_was_asked_to_be_stays_by_itself() -> None:
    """Its ops have devices as unlike each other as those of the others have, and are still not alike."""
    placement = make_map(8)
    moved = tuple(evolve(op, assigned="cpu[0]:1") if op.clone == 3 else op for op in placement.ops)
    data = data_of(page_of(evolve(placement, ops=moved)))
    assert [each["label"] for each in data["families"]] == ["clone_0..2,4..7"]


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
