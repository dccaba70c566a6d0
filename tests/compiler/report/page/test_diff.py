"""Two placements side by side in a browser: their strips, what moved, and why each thing is where it is."""

from pathlib import Path

import pytest
from attrs import evolve

from compiler.mapping.records import RuleRef
from compiler.report.compare import compare
from compiler.report.page.data import Side
from compiler.report.page.html import diff_page
from tests.browser import Tab
from tests.compiler.report.page.pages import CELL_TEXTS, DETAIL, LINES, NEEDS_BROWSER, OVERFLOWING, show_in
from tests.placement_maps import SPEC, make_kinds, make_map, with_counts

pytestmark = NEEDS_BROWSER
RULE = RuleRef(SPEC, 14, 3, "conv1 -> gpu[0]", "rule")
AFTER = {SPEC: {12: "  clones -> gpu[*]", 13: "  variables -> cpu[0]", 14: "  conv1 -> gpu[0]", 15: "}"}}


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The page of two clones, and of the same with a layer's variable and one op on other devices."""
    before = make_map(2)
    variables = tuple(
        evolve(each, device="gpu[0]", rule=RULE) if each.name == "conv1/kernel" else each
        for each in before.variables
    )
    moved = {"conv1/kernel": "gpu[0]", "clone_1/conv1/Relu": "gpu[0]"}
    ops = tuple(
        evolve(each, requested=moved[each.name], rule=RULE) if each.name in moved else each
        for each in before.ops
    )
    transfers = (evolve(before.transfers[0], bytes=1024), *before.transfers[1:])
    after = with_counts(evolve(before, variables=variables, ops=ops, transfers=transfers))
    sides = Side("old.tfdeploy", before, LINES), Side("new.tfdeploy, x=1", after, AFTER)
    path = tmp_path / "diff.html"
    path.write_text(diff_page(*sides, compare(before, after)), encoding="utf-8")
    return path


def test_links_of_groups_are_drawn_to_one_scale(tab: Tab, tmp_path: Path) -> None:
    """The widest of both strips is that between the groups that are shown, also after one is opened."""
    before, after = make_kinds(2, 8), make_kinds(3, 4)
    sides = Side("old.tfdeploy", before, LINES), Side("new.tfdeploy", after, LINES)
    page = tmp_path / "groups.html"
    page.write_text(diff_page(*sides, compare(before, after)), encoding="utf-8")
    tab.open(page)
    widths = (
        "['strip-0', 'strip-1'].map((side) => Math.max(...[...document.getElementById(side)"
        ".querySelectorAll('[data-link] .line')].map((line) => Number(line.getAttribute('stroke-width')))))"
    )
    assert tab.evaluate(widths) == [12, 9]  # of 16 tensors and of 12
    tab.evaluate("document.querySelector('#strip-0 [data-devices^=\"1..\"]').click()")
    assert tab.evaluate(widths) == [1.5, 12]  # of one tensor and of 12


def test_two_placements_side_by_side(tab: Tab, page: Path) -> None:
    """Both strips are drawn to one scale, beside each other; what differs has its figures."""
    tab.open(page)
    assert tab.requests == [page.as_uri()]
    titles = "[...document.querySelectorAll('#sides h2')].map((title) => title.innerText)"
    assert tab.evaluate(titles) == ["old.tfdeploy", "new.tfdeploy, x=1"]
    boxes = "[...document.querySelectorAll('#sides section')].map((side) => side.getBoundingClientRect())"
    left, right = tab.evaluate(f"{boxes}.map((box) => [box.left, box.right, box.top])")
    assert left[1] <= right[0]
    assert left[2] == right[2]
    widths = tab.evaluate(
        "['strip-0', 'strip-1'].map((side) => Number(document.getElementById(side)"
        ".querySelector('[data-link=\"0>1\"] .line').getAttribute('stroke-width')))"
    )
    assert widths == [12, 1.5]  # of 23.1 KiB and of 1 KiB
    assert tab.evaluate(f"{CELL_TEXTS}('devices')")[:3] == [
        ["cpu[0]", "ops", "11", "10", "-1"],
        ["", "variables", "21.1 KiB", "20.0 KiB", "-1.13 KiB"],
        ["", "out / step", "46.3 KiB", "24.1 KiB", "-22.1 KiB"],
    ]
    assert tab.evaluate(f"{CELL_TEXTS}('links')") == [
        ["cpu[0]", "gpu[0]", "23.1 KiB in 3", "1.00 KiB in 3", "-22.1 KiB"]
    ]
    scopes = tab.evaluate(f"{CELL_TEXTS}('scopes')")
    assert sum(int(row[2]) for row in scopes) == 2


def test_what_moved_and_why(tab: Tab, page: Path) -> None:
    """Each thing that moved has its rule and the line of it on both sides, and the address keeps it."""
    tab.open(page)
    assert [row[:3] for row in tab.evaluate(f"{CELL_TEXTS}('ops')")] == [
        ["conv1/kernel", "cpu[0]", "gpu[0]"],
        ["clone_1/conv1/Relu", "gpu[1]", "gpu[0]"],
    ]
    tab.evaluate("document.getElementById('search').focus()")
    tab.write("relu gpu[1]")
    tab.until("document.getElementById('found').innerText === '1 change'")
    tab.click("#ops tbody button")
    detail = tab.evaluate(DETAIL)
    assert detail.startswith("clone_1/conv1/Relu\n")
    assert "Before\n\ngpu[1]\n\nthe rule clones -> gpu[*]\n\ntrain.tfdeploy:12:3" in detail
    assert "After\n\ngpu[0]\n\nthe rule conv1 -> gpu[0]\n\ntrain.tfdeploy:14:3" in detail
    assert tab.evaluate("[...document.querySelectorAll('#said .hit')].map((line) => line.innerText)") == [
        "12 |   clones -> gpu[*]",
        "14 |   conv1 -> gpu[0]",
    ]
    assert tab.evaluate("location.hash") == "#q=relu%20gpu%5B1%5D&sel=clone_1%2Fconv1%2FRelu"
    tab.open(page, tab.evaluate("location.hash"))
    assert tab.evaluate(DETAIL) == detail
    tab.evaluate("document.querySelector('#strip-1 [data-link=\"0>1\"]').focus()")
    tab.press("Enter")
    assert "before\n23.1 KiB in 3 tensors\nafter\n1.00 KiB in 3 tensors" in tab.evaluate(DETAIL)
    tab.click("#devices tbody button")
    assert tab.evaluate(DETAIL).startswith("cpu[0]\nops\n11 → 10 (-1)\n")
    assert tab.evaluate("location.hash").endswith("device=cpu%5B0%5D")


def test_on_a_telephone_and_by_keys_alone(tab: Tab, page: Path) -> None:
    """At 390 pixels every column is seen, and keys reach what moved, which is told in the window."""
    show_in(tab, 390, 800)
    tab.open(page)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.evaluate(OVERFLOWING) == []
    tab.evaluate("document.getElementById('search').focus()")
    for _ in range(3):  # the box of the table, and the first and second change in it
        tab.press("Tab")
    tab.press("Enter")
    assert tab.evaluate("location.hash") == "#sel=clone_1%2Fconv1%2FRelu"
    detail = "document.getElementById('detail').getBoundingClientRect()"
    assert 0 < tab.evaluate(f"{detail}.top") < tab.evaluate(f"{detail}.bottom") <= 800
    tab.press("Escape")
    assert tab.evaluate(f"{detail}.height") == 0
    assert tab.evaluate("document.activeElement.innerText") == "clone_1/conv1/Relu"


def test_no_difference(tab: Tab, tmp_path: Path) -> None:
    """Two placements that are the same have a page that says so."""
    placement = make_map(1)
    side = Side("a.tfdeploy", placement, LINES)
    path = tmp_path / "same.html"
    path.write_text(diff_page(side, side, compare(placement, placement)), encoding="utf-8")
    tab.open(path)
    assert tab.evaluate(f"{CELL_TEXTS}('scopes')") == [["no op has moved"]]
    assert tab.evaluate(f"{CELL_TEXTS}('devices')") == [["no device differs"]]
