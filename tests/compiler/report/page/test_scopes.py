"""The table of scopes in a browser: search, open, explain, keys, measures, sorting, links into it."""

from pathlib import Path

import pytest
from attrs import evolve

from tests.browser import Tab
from tests.compiler.report.page.pages import (
    CELLS,
    DETAIL,
    FOUND,
    NAMES,
    NEEDS_BROWSER,
    timed_page,
    write,
)
from tests.placement_maps import make_map

pytestmark = NEEDS_BROWSER


def test_open_and_explain_with_the_mouse(tab: Tab, page: Path) -> None:
    """The triangle opens a scope; a click on a row explains it: devices, roles, rule, line of the spec."""
    tab.open(page)
    tab.click('tr[data-path="clone_1"] .twist')
    assert tab.evaluate(NAMES)[4:8] == ["clone_1", "clone_1/conv1", "clone_1/logits", "clone_1/gradients"]
    tab.click('tr[data-path="clone_1/conv1"] .name')
    detail = tab.evaluate(DETAIL)
    assert detail.startswith(
        "clone_1/conv1/\nOps\ngpu[1]\n3 ops\ncpu[0]\n1 op\nroles\nforward 3, read 1\nPlaced by\n"
    )
    assert (
        "3 ops: the rule clones -> gpu[*]\n\ntrain.tfdeploy:12:3\n\n11 | place {\n12 |   clones -> gpu[*]\n"
        in detail
    )
    assert "1 op, all following another: the rule variables -> cpu[0]" in detail
    assert tab.evaluate("document.querySelector('#detail .hit').innerText") == "12 |   clones -> gpu[*]"


def test_search_narrows_and_counts(tab: Tab, page: Path) -> None:
    """What is typed narrows the tree to the ops found, opens it and counts them by device; Escape ends it."""
    tab.open(page)
    tab.press("/")
    tab.write("conv1 role:forward")
    tab.until(f"{FOUND} === '6 ops found'")
    assert tab.evaluate(NAMES) == [
        "clone_0",
        "clone_0/conv1",
        "clone_0/conv1/Conv2D",
        "clone_0/conv1/BiasAdd",
        "clone_0/conv1/Relu",
        "clone_1",
        "clone_1/conv1",
        "clone_1/conv1/Conv2D",
        "clone_1/conv1/BiasAdd",
        "clone_1/conv1/Relu",
    ]
    assert tab.evaluate(CELLS)[0] == "▾clone_0/ 3 . 3 ."
    tab.press("Escape")
    tab.until(f"{FOUND} === '25 ops'")


@pytest.mark.family(every=3)
@pytest.mark.parametrize(
    ("clones", "query", "number"),
    [
        (2, "clone_*/conv1", 10),
        (2, "clone_?/conv1/*", 8),
        (2, "CONV2D", 4),
        (2, "type:matmul", 4),
        (2, "on:gpu[1]", 7),
        (2, "clone:0", 9),
        (2, "rule:variables", 10),
        (2, "role:read logits", 2),
        (2, "(", 0),
        # A search that names some of clones that are alike takes them apart; one that names all does not.
        (8, "clone_2/conv1", 4),
        (8, "clone:2", 9),
        (8, "clone_*/conv1/*", 40),
        (8, "clone_[", 0),
        (8, "clone_?", 72),
        (8, "on:gpu[7] role:forward", 5 * 8),
    ],
)
def test_queries(tab: Tab, tmp_path: Path, clones: int, query: str, number: int) -> None:
    """Words must all hold: part of a name in any case, a glob, role, type, device, clone or rule."""
    page = write(tmp_path / "found.html", make_map(clones))
    tab.open(page, f"#q={query.replace(' ', '%20')}")
    assert tab.evaluate(FOUND) == f"{number} ops found"


def test_keys(tab: Tab, page: Path) -> None:
    """Arrows move, open and close; Enter explains; the page is all there without a mouse."""
    tab.open(page)
    tab.press("/")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        tab.press(key)
    assert tab.evaluate("document.activeElement.dataset.path") == "clone_0/conv1"
    assert tab.evaluate(DETAIL).startswith("clone_0/conv1/\n")
    tab.press("ArrowLeft")
    tab.press("ArrowLeft")
    assert tab.evaluate("document.activeElement.dataset.path") == "clone_0"
    assert "clone_0/conv1" not in tab.evaluate(NAMES)
    assert tab.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false"
    tab.press("End")
    assert tab.evaluate("document.activeElement.dataset.path") == "update"


def test_what_follows_leads_to_what_it_follows(tab: Tab, page: Path) -> None:
    """An op that follows a variable has a link to it, and the rule that placed the variable."""
    tab.open(page, "#sel=clone_0%2Fconv1%2Fkernel%2Fread")
    detail = tab.evaluate(DETAIL)
    assert "role\nread, of clone 0\ndevice\ncpu[0]\n" in detail
    assert "follows conv1/kernel\n\nthe rule variables -> cpu[0]\n\ntrain.tfdeploy:13:3" in detail
    tab.click("#said button.plain")
    detail = tab.evaluate(DETAIL)
    assert detail.startswith("conv1/kernel/\n")
    assert (
        "variable\nfloat32 [3, 3, 1, 32], 1.13 KiB\nslot\nconv1/kernel/Adam, 1.13 KiB on cpu[0]\n" in detail
    )


def test_links_into_the_page(tab: Tab, page: Path) -> None:
    """The address keeps what is open and chosen, and opens the page like that again."""
    tab.open(page)
    tab.click('tr[data-path="clone_1"] .twist')
    tab.click('tr[data-path="clone_1/gradients"] .twist')
    tab.click('tr[data-path="update"] .name')
    fragment = tab.evaluate("location.hash")
    assert fragment == "#open=clone_1,clone_1%2Fgradients&sel=update"
    before = tab.evaluate(NAMES)
    tab.open(page, fragment)
    assert tab.evaluate(NAMES) == before
    assert tab.evaluate("document.querySelector('tr[aria-selected=true]').dataset.path") == "update"


def test_misplaced_ops(tab: Tab, tmp_path: Path) -> None:
    """After a step, ops that are elsewhere than asked are marked, and can be shown alone."""
    placement = make_map(2)
    ops = tuple(
        evolve(op, assigned="cpu[0]" if op.name == "clone_1/conv1/Relu" else op.requested)
        for op in placement.ops
    )
    tab.open(write(tmp_path / "moved.html", evolve(placement, ops=ops)))
    tab.click("#misplaced")
    assert tab.evaluate(NAMES) == ["clone_1", "clone_1/conv1", "clone_1/conv1/Relu"]
    assert tab.evaluate(CELLS)[2] == "Relu Relu moved to cpu[0] 1 . . 1"
    tab.click('tr[data-path="clone_1/conv1/Relu"] .name')
    assert "device\ngpu[1]\nassigned\ncpu[0]\n" in tab.evaluate(DETAIL)


HEADS = "[...document.querySelectorAll('#scopes thead th')].map((head) => head.innerText.split('\\n'))"
SHOWN = "[...document.querySelectorAll('#scopes tbody .name')].map((name) => name.innerText)"
OPTIONS = "[...document.getElementById('measure').options].map((each) => each.value)"


def test_many_devices(tab: Tab, tmp_path: Path) -> None:
    """Sixty-four GPUs start as one column, their sum, and open by thirty-two, here and in the strip."""
    tab.open(write(tmp_path / "many.html", make_map(64, host="worker[{}].")))
    assert tab.evaluate(HEADS)[1:] == [["all"], ["cpu[0]"], ["worker[*].gpu[*]", "sum of 64", "+"]]
    assert tab.evaluate(CELLS)[3] == "▸clone_0..63/ 576 128 448"
    tab.click("#scopes thead .turn")
    heads = tab.evaluate(HEADS)
    assert len(heads) == 3 + 32 + 1
    assert heads[-1] == ["32 more worker[*].gpu[*]", "sum of 32", "+"]
    assert heads[3] == ["worker[0].gpu[0]"]
    assert tab.evaluate(CELLS)[3].startswith("▸clone_0..63/ 576 128 7 7 ")
    assert tab.evaluate(CELLS)[3].endswith(" 7 224")
    assert tab.evaluate("document.querySelectorAll('#strip li').length") == 1 + 32 + 1
    tab.open(tmp_path / "many.html", tab.evaluate("location.hash"))
    assert tab.evaluate(HEADS) == heads
    tab.click("#scopes thead .turn")
    assert tab.evaluate(HEADS)[-1] == ["worker[7].gpu[7]\N{MINUS SIGN}"]
    tab.click("#scopes thead .turn")
    assert len(tab.evaluate(HEADS)) == 4


def test_clones_that_are_alike_are_one(tab: Tab, tmp_path: Path) -> None:
    """Eight clones are one scope with the ops of all; one of them can be taken out, and put back."""
    tab.open(write(tmp_path / "eight.html", make_map(8)))
    assert tab.evaluate(NAMES) == ["input", "conv1", "logits", "clone_0..7", "update"]
    assert tab.evaluate(CELLS)[3] == "▸clone_0..7/ 72 16 7 7 7 7 7 7 7 7"
    tab.click('tr[data-path="clone_0..7"] .twist')
    tab.click('tr[data-path="clone_0..7/conv1"] .name')
    detail = tab.evaluate(DETAIL)
    assert detail.startswith("clone_0..7/conv1/\nOps\ncpu[0]\n8 ops\ngpu[0]\n3 ops\n")
    assert "24 ops: the rule clones -> gpu[*]" in detail
    tab.evaluate("(document.getElementById('clone').value = 3, 0)")
    tab.click("#said button[type=button]:last-of-type")
    assert tab.evaluate(DETAIL).startswith("clone_3/conv1/\nOps\ngpu[3]\n3 ops\ncpu[0]\n1 op\n")
    assert tab.evaluate(CELLS)[3] == "▾clone_3/ 9 2 . . . 7 . . . ."
    assert tab.evaluate(CELLS)[7] == "▾clone_0..7 but 1/ 63 14 7 7 7 . 7 7 7 7"
    assert "clones=3" in tab.evaluate("location.hash")
    tab.open(tmp_path / "eight.html", tab.evaluate("location.hash"))
    assert tab.evaluate(CELLS)[3] == "▾clone_3/ 9 2 . . . 7 . . . ."
    tab.click("#join")
    assert tab.evaluate(CELLS)[3].endswith("clone_0..7/ 72 16 7 7 7 7 7 7 7 7")
    assert tab.evaluate("location.hash.includes('clones')") is False
    tab.open(tmp_path / "eight.html", "#sel=clone_5%2Fconv1%2Fkernel%2Fread")
    assert "follows conv1/kernel\n" in tab.evaluate(DETAIL)


def test_what_is_measured(tab: Tab, tmp_path: Path) -> None:
    """Scopes by FLOPs, bytes and time of a step, and by the bytes that they hold; all of a column adds up."""
    page = timed_page(tmp_path / "timed.html")
    tab.open(page)
    words = tab.evaluate(OPTIONS)
    assert words == ["ops", "held", "flops", "bytes", "time"]
    cells = (
        "[...document.querySelectorAll('#scopes tr')]"
        ".map((row) => [...row.cells].slice(1).map((cell) => cell.innerText))"
    )
    tab.open(page, "#by=flops&open=clone_0")
    rows = dict(zip(["", *tab.evaluate(NAMES), "all"], tab.evaluate(cells), strict=True))
    assert rows["input"] == ["1.00 K", "1.00 K", ".", "."]
    assert rows["clone_0/conv1"] == ["5.00 K", ".", "5.00 K", "."]
    assert rows["all"] == ["6.00 K", "1.00 K", "5.00 K", "."]
    tab.open(page, "#by=bytes")
    assert tab.evaluate(cells)[-1] == ["6.00 KiB", "2.00 KiB", "4.00 KiB", "."]
    tab.open(page, "#by=time")
    assert tab.evaluate(cells)[-1] == ["18.0 ms", "10.0 ms", "8.00 ms", "."]
    tab.open(page, "#by=held")
    assert tab.evaluate(cells)[-1] == ["42.3 KiB", "42.3 KiB", ".", "."]
    tab.evaluate("document.getElementById('measure').focus()")
    tab.press("n")  # the list takes what begins so: numbers of ops
    assert tab.evaluate(cells)[-1] == ["25", "11", "7", "7"]
    assert "by=" not in tab.evaluate("location.hash")
    tab.open(page, "#sel=clone_0%2Fconv1%2FConv2D")
    assert "FLOPs\n2.00 K\nreads and writes\n2.00 KiB\ntakes\n5.00 ms\n" in tab.evaluate(DETAIL)


def test_a_map_without_costs_has_no_measures_of_them(tab: Tab, page: Path) -> None:
    """A map from a file knows ops and what they hold; an address that asks for more gets numbers of ops."""
    tab.open(page, "#by=flops")
    assert tab.evaluate(OPTIONS) == [
        "ops",
        "held",
    ]
    assert tab.evaluate(CELLS)[3] == "▸clone_0/ 9 2 7 ."


def test_sorting_by_a_column(tab: Tab, page: Path) -> None:
    """A press on a head sorts from the largest, then from the smallest, then as in the graph."""
    tab.open(page, "#open=clone_0")
    unsorted = tab.evaluate(NAMES)
    tab.click('#scopes [data-sort="cpu[0]"]')
    assert tab.evaluate(SHOWN)[:3] == ["conv1/", "logits/", "clone_0/"]
    assert (
        tab.evaluate("document.querySelector('#scopes th[aria-sort=descending]').innerText.trim()")
        == "cpu[0] ↓"
    )
    assert tab.evaluate("document.activeElement.dataset.sort") == "cpu[0]"
    tab.press("Enter")
    assert tab.evaluate(SHOWN)[0] == "input/"
    assert tab.evaluate("location.hash") == "#sort=-cpu%5B0%5D&open=clone_0"
    ascending = tab.evaluate(NAMES)
    tab.open(page, tab.evaluate("location.hash"))
    assert tab.evaluate(NAMES) == ascending
    tab.click('#scopes [data-sort="cpu[0]"]')
    assert tab.evaluate(NAMES) == unsorted
    tab.click('#scopes [data-sort="name"]')
    assert tab.evaluate(SHOWN) == [
        "clone_0/",
        "conv1/",
        "gradients/",
        "logits/",
        "clone_1/",
        "conv1/",
        "input/",
        "logits/",
        "update/",
    ]
    tab.click('#scopes [data-sort="all"]')
    assert tab.evaluate(SHOWN)[:3] == ["clone_0/", "conv1/", "logits/"]
