"""The page in a browser: search, open, explain, keys, links into it, dark and light."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from compiler.mapping.records import MapTensor
from compiler.report.page.html import html_page
from compiler.time.forecast import forecast_step
from tests.browser import Tab, find_chromium, start_browser
from tests.compiler.time.steps import GPU, Machine, op, step
from tests.placement_maps import SPEC, make_map

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from compiler.mapping.records import PlacementMap

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed to look at the page with")

LINES = {SPEC: {11: "place {", 12: "  clones -> gpu[*]", 13: "  variables -> cpu[0]", 14: "}"}}
ROWS = "[...document.querySelectorAll('#scopes tbody tr')]"
NAMES = f"{ROWS}.map((row) => row.dataset.path)"
CELLS = f"{ROWS}.map((row) => [...row.cells].map((cell) => cell.innerText).join(' ').trim())"
CELL_TEXTS = (
    "((id) => [...document.querySelectorAll(`#${id} tbody tr`)]"
    ".map((row) => [...row.cells].map((cell) => cell.innerText.trim())))"
)
DETAIL = "document.getElementById('detail').innerText"
FOUND = "document.getElementById('found').innerText"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """A browser for the tests of this file."""
    assert CHROMIUM is not None
    with start_browser(CHROMIUM, tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The page of a map with two clones."""
    return write(tmp_path / "map.html", make_map(2))


def write(path: Path, placement: PlacementMap) -> Path:
    """Write the page of a map."""
    path.write_text(html_page(placement, LINES), encoding="utf-8")
    return path


def test_it_opens_alone_and_without_complaint(tab: Tab, page: Path) -> None:
    """The page asks for nothing but itself, and no script of it fails."""
    tab.open(page)
    assert tab.requests == [page.as_uri()]
    assert tab.errors == []
    assert tab.evaluate("document.getElementById('svg').getBoundingClientRect().height") == 0
    assert tab.evaluate("document.title") == "Placement of train.tfdeploy"
    assert tab.evaluate(NAMES) == ["input", "conv1", "logits", "clone_0", "clone_1", "update"]
    assert tab.evaluate(CELLS)[3] == "▸clone_0/ 2 7 ."
    assert tab.evaluate(f"{CELL_TEXTS}('devices')")[0][:7] == [
        "cpu[0]",
        "11",
        "21.1 KiB",
        "21.1 KiB",
        "42.3 KiB",
        "42.3 KiB+",
        "46.3 KiB",
    ]
    links = tab.evaluate(f"{CELL_TEXTS}('transfers')")
    assert links[0] == ["cpu[0]", "gpu[0]", "3", "23.1 KiB", "."]
    assert len(links) == 4


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
    assert tab.evaluate(CELLS)[0] == "▾clone_0/ . 3 ."
    tab.press("Escape")
    tab.until(f"{FOUND} === '25 ops'")


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("clone_*/conv1", 10),
        ("clone_?/conv1/*", 8),
        ("CONV2D", 4),
        ("type:matmul", 4),
        ("on:gpu[1]", 7),
        ("clone:0", 9),
        ("rule:variables", 10),
        ("role:read logits", 2),
        ("(", 0),
    ],
)
def test_queries(tab: Tab, page: Path, query: str, number: int) -> None:
    """Words must all hold: part of a name in any case, a glob, role, type, device, clone or rule."""
    tab.open(page, f"#q={query.replace(' ', '%20')}")
    assert tab.evaluate(FOUND) == f"{number} op{'' if number == 1 else 's'} found"
    assert tab.errors == []


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
    tab.click("#detail button.plain")
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
    assert tab.evaluate(CELLS)[2] == "Relu Relu moved to cpu[0] . . 1"
    tab.click('tr[data-path="clone_1/conv1/Relu"] .name')
    assert "device\ngpu[1]\nassigned\ncpu[0]\n" in tab.evaluate(DETAIL)


def test_what_memory_and_traffic_are_made_of(tab: Tab, tmp_path: Path) -> None:
    """A click on the memory of a device, or on the tensors of a link, names the largest of them."""
    placement = make_map(1)
    largest = (MapTensor("conv1/Relu:0", 4096), MapTensor("conv1/Conv2D:0", 2048))
    devices = tuple(
        evolve(each, step_bytes=8192, memory_bytes=8192 + each.variable_bytes, largest=largest)
        for each in placement.devices
    )
    transfers = tuple(evolve(each, largest=largest[1:]) for each in placement.transfers)
    page = write(tmp_path / "memory.html", evolve(placement, devices=devices, transfers=transfers))
    tab.open(page)
    tab.click("#devices tbody tr:nth-child(2) button")
    assert tab.evaluate(DETAIL).split("\n") == [
        *("Memory forecast of gpu[0]", "variables", ".", "slots", ".", "other variables", "."),
        *("tensors of a step at their peak", "8.00 KiB", "in all", "8.00 KiB"),
        *("Largest tensors at the peak", "4.00 KiB conv1/Relu", "2.00 KiB conv1/Conv2D"),
    ]
    tab.click("#transfers tbody tr:nth-child(1) button")
    assert tab.evaluate(DETAIL).split("\n") == [
        *("From cpu[0] to gpu[0]", "", "3 tensors, 23.1 KiB a step", ""),
        *("Largest tensors of a step", "2.00 KiB conv1/Conv2D"),
    ]
    tab.click("#detail button")
    assert tab.evaluate(DETAIL).startswith("conv1/Conv2D\nop\nConv2D\n")
    assert tab.errors == []


def forecast_map() -> PlacementMap:
    """Return a map with one clone whose devices have a forecast of memory; only the CPU has a limit."""
    placement = make_map(1)
    cpu, gpu = placement.devices
    held = cpu.variable_bytes + cpu.slot_bytes
    return evolve(
        placement,
        devices=(
            evolve(cpu, step_bytes=held, memory_bytes=2 * held, memory_limit=4 * held),
            evolve(gpu, step_bytes=500, other_bytes=500, memory_bytes=1000),
        ),
    )


def test_the_strip_is_filled_against_memory(tab: Tab, tmp_path: Path) -> None:
    """Boxes are filled against the limit, or the fullest device; links are as wide as their bytes."""
    tab.open(write(tmp_path / "strip.html", forecast_map()))
    texts = "[...document.querySelectorAll('#strip button')].map((box) => box.innerText.split('\\n'))"
    assert tab.evaluate(texts) == [
        ["cpu[0]", "9 ops", "84.5 KiB of 169 KiB"],
        ["gpu[0]", "7 ops", "1000 B"],
    ]
    fills = tab.evaluate(
        "[...document.querySelectorAll('#strip .fill')].map((fill) => [...fill.children]"
        ".map((part) => [part.className, parseFloat(part.style.width)]))"
    )
    assert fills[0] == [["variables", 12.5], ["slots", 12.5], ["step", 25]]
    assert fills[1] == [["other", 0.58], ["step", 0.58]]  # of the 86,528 bytes that the CPU takes
    links = tab.evaluate(
        "[...document.querySelectorAll('#strip [data-link]')].map((link) => [link.getAttribute('aria-label'),"
        "parseFloat(link.querySelector('.line').getAttribute('stroke-width'))])"
    )
    assert links == [["cpu[0] to gpu[0]: 23.1 KiB a step", 12], ["gpu[0] to cpu[0]: 21.1 KiB a step", 11]]
    assert tab.errors == []


def test_a_device_that_holds_too_much(tab: Tab, tmp_path: Path) -> None:
    """A device that takes more than the spec gives it says so in words."""
    placement = forecast_map()
    cpu, gpu = placement.devices
    full = evolve(placement, devices=(cpu, evolve(gpu, memory_limit=999)))
    tab.open(write(tmp_path / "full.html", full))
    assert tab.evaluate("document.querySelector('#strip .moved').innerText") == "1000 B of 999 B: too much"


def test_devices_and_links_are_chosen_in_the_address(tab: Tab, page: Path) -> None:
    """By key or mouse: the strip, the explanation and the address agree, and the address opens it again."""
    tab.open(page)
    tab.click('#strip [data-devices="2"]')
    assert tab.evaluate("location.hash") == "#device=gpu%5B1%5D"
    tab.evaluate("document.querySelector('#strip [data-link=\"0>1\"]').focus()")
    tab.press("Enter")
    assert tab.evaluate("location.hash") == "#link=cpu%5B0%5D,gpu%5B0%5D"
    pressed = (
        "[...document.querySelectorAll('#strip [aria-pressed=true]')]"
        ".map((each) => each.dataset.link || each.dataset.devices)"
    )
    assert tab.evaluate(pressed) == ["0>1"]
    tab.open(page, tab.evaluate("location.hash"))
    assert tab.evaluate(pressed) == ["0>1"]
    assert tab.evaluate(DETAIL).startswith("From cpu[0] to gpu[0]\n")
    tab.click('tr[data-path="update"] .name')
    assert tab.evaluate("location.hash") == "#sel=update"
    assert tab.evaluate(pressed) == []
    tab.open(page, "#device=gpu[9]&link=cpu[0],cpu[0]")
    assert tab.evaluate(DETAIL).startswith("Why is it there?")
    assert tab.errors == []


def timed_page(path: Path) -> Path:
    """Write the page of a map with a forecast of 28 ms: an op, its tensor on a link, two ops of a GPU."""
    arrows = [
        ("input/IteratorGetNext", "clone_0/conv1/Conv2D"),
        ("clone_0/conv1/Conv2D", "clone_0/conv1/Relu"),
    ]
    ops = [op("input/IteratorGetNext=10"), op("clone_0/conv1/Conv2D=5", GPU), op("clone_0/conv1/Relu=3", GPU)]
    work = step([*ops, op("beside=2")], arrows, {"input/IteratorGetNext": 1000})
    timed = forecast_step(work, Machine(speed=1e5, step_start=0.0))
    # The names of the ops of the machine made by hand have their times; the map has the names alone.
    plain = tuple(evolve(each, name=each.name.partition("=")[0]) for each in work.ops)
    path_parts = tuple(evolve(each, name=each.name.partition("=")[0]) for each in timed.path)
    found = evolve(timed, work=evolve(work, ops=plain), path=path_parts)
    placement = evolve(make_map(2), time=found.for_map("a.profile.json"))
    path.write_text(html_page(placement, LINES, found), encoding="utf-8")
    return path


PIXEL = """
(([row, x, y]) => {
  const canvas = document.querySelector(`#timeline canvas[data-row="${row}"]`);
  const size = { width: canvas.width, height: canvas.height };
  const copy = Object.assign(document.createElement("canvas"), size);
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  return [...pen.getImageData(Math.round(x * canvas.width), y, 1, 1).data];
})
"""
ORANGE, BLUE, NOTHING = [168, 86, 10, 255], [36, 99, 194, 255], [0, 0, 0, 0]


def test_the_timeline_of_a_step(tab: Tab, tmp_path: Path) -> None:
    """Each device and link has a row; bars are where the forecast has them, and explain themselves."""
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    page = timed_page(tmp_path / "timed.html")
    tab.open(page)
    rows = (
        "[...document.querySelectorAll('#timeline li')].map((row) => row.innerText.trim().split(/\\s*\\n/))"
    )
    assert tab.evaluate(rows) == [
        ["cpu[0]", "36% busy"],
        ["gpu[0]", "29% busy"],
        ["cpu[0] -> gpu[0]", "36% busy"],
    ]
    assert tab.evaluate("document.getElementById('timeline-span').innerText") == "0 µs to 28.0 ms"
    for row, at, color in [(0, 9.5, ORANGE), (0, 20, NOTHING), (2, 19.5, ORANGE), (1, 19.5, NOTHING)]:
        assert tab.evaluate(f"{PIXEL}([{row}, {at / 28}, 4])") == color, (row, at)
    assert tab.evaluate(f"{PIXEL}([1, {24.8 / 28}, 4])") == ORANGE
    assert tab.evaluate(f"{PIXEL}([0, {1 / 28}, 20])") == BLUE  # on the second thread, off the path
    tab.click("#timeline canvas[data-row='2']")
    detail = tab.evaluate(DETAIL)
    assert detail.startswith(
        "Transfer of input/IteratorGetNext\nlink\ncpu[0] -> gpu[0]\nstarts after\n10.0 ms\n"
    )
    assert "takes\n10.0 ms, 35.7% of the step\nbytes\n1000 B\ncritical path\non it\n" in detail
    assert tab.evaluate("location.hash") == "#bar=2,0"
    assert tab.errors == []


def test_the_timeline_by_keys_and_in_the_address(tab: Tab, tmp_path: Path) -> None:
    """Arrows lead from bar to bar and row to row, + zooms, and the address has the bar and what is shown."""
    page = timed_page(tmp_path / "timed.html")
    tab.open(page)
    tab.evaluate("document.querySelector('#timeline canvas[tabindex=\"0\"]').focus()")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        tab.press(key)
    assert tab.evaluate("location.hash") == "#bar=1,1"
    detail = tab.evaluate(DETAIL)
    assert detail.startswith("clone_0/conv1/Relu\ndevice\ngpu[0]\nstarts after\n25.0 ms\n")
    assert "the rule clones -> gpu[*]\n\ntrain.tfdeploy:12:3" in detail
    tab.press("+")
    assert tab.evaluate("location.hash") == "#time=7000.000,21000.000&bar=1,1"
    tab.press("ArrowLeft")
    tab.press("ArrowRight")  # which is out of sight, so that it is brought into the window
    assert tab.evaluate("location.hash") == "#time=14000.000,28000.000&bar=1,1"
    tab.open(page, tab.evaluate("location.hash"))
    assert tab.evaluate("document.getElementById('timeline-span').innerText") == "14.0 ms to 28.0 ms"
    assert tab.evaluate(DETAIL) == detail
    tab.click("#timeline-bar button:last-of-type")
    assert tab.evaluate("location.hash") == "#bar=1,1"
    tab.click("#detail h2 button")
    assert tab.evaluate("location.hash").endswith("&sel=clone_0%2Fconv1%2FRelu")
    assert tab.errors == []


def test_no_timeline_without_a_forecast(tab: Tab, page: Path) -> None:
    """A map without a forecast of time has no timeline; an address that names a bar opens it all the same."""
    tab.open(page, "#bar=0,0&time=1,2")
    assert tab.evaluate("document.getElementById('timeline-section').offsetHeight") == 0
    assert tab.evaluate(DETAIL).startswith("Why is it there?")
    assert tab.errors == []


def test_on_a_telephone(tab: Tab, tmp_path: Path) -> None:
    """At 390 pixels nothing but the boxes scrolls sideways, and what was tapped is told within the window."""
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1}
    tab.call("Emulation.setDeviceMetricsOverride", **size, mobile=False)
    try:
        tab.open(timed_page(tmp_path / "narrow.html"))
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        tab.click("#devices tbody tr:nth-child(1) td")
        tab.click('tr[data-path="clone_1"] .name')
        top, bottom = tab.evaluate(
            "(() => { const box = document.getElementById('detail').getBoundingClientRect();"
            "return [box.top, box.bottom]; })()"
        )
        assert 0 < top < bottom <= 800
    finally:
        tab.call("Emulation.clearDeviceMetricsOverride")


def test_many_devices(tab: Tab, tmp_path: Path) -> None:
    """Sixty-four GPUs start as one column, their sum, which opens at a click."""
    tab.open(write(tmp_path / "many.html", make_map(64, host="worker[{}].")))
    heads = "[...document.querySelectorAll('#scopes thead th')].map((head) => head.innerText)"
    assert tab.evaluate(heads) == ["scope", "cpu[0]", "+ worker[*].gpu[*]\nsum of 64"]
    assert tab.evaluate(CELLS)[3] == "▸clone_0/ 2 7"
    tab.click("#scopes thead button")
    assert len(tab.evaluate(heads)) == 2 + 64
    assert tab.evaluate("document.querySelectorAll('#strip li').length") == 1 + 64
    tab.open(tmp_path / "many.html", tab.evaluate("location.hash"))
    assert len(tab.evaluate(heads)) == 2 + 64
    assert tab.errors == []


def test_names_are_never_markup(tab: Tab, tmp_path: Path) -> None:
    """Names that look like markup or script are shown as they are, and nothing of them runs."""
    evil = "<img src=x onerror=document.title='broken'>"
    placement = make_map(1)
    ops = tuple(evolve(op, name=f"{evil}/{op.name}", rule=evolve(op.rule, text=evil)) for op in placement.ops)
    tab.open(write(tmp_path / "evil.html", evolve(placement, ops=ops)), "#q=Conv2D")
    tab.click("#scopes tbody tr .name")
    assert tab.evaluate(CELLS)[0].startswith(f"▾{evil}/")
    assert tab.evaluate("document.images.length") == 0
    assert tab.evaluate("document.title") == "Placement of train.tfdeploy"
    assert tab.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(tab: Tab, page: Path, scheme: str) -> None:
    """Text stands out from its ground by at least 4.5 to 1, whichever colours the reader has chosen."""
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    tab.open(page)
    for selector in ("body", "#facts", "thead th", "#detail p", "#strip small", "#strip-keys"):
        assert tab.evaluate(CONTRAST.replace("SELECTOR", selector)) >= 4.5, selector


CONTRAST = """
(() => {
  const light = (color) => {
    const parts = color.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const element = document.querySelector("SELECTOR");
  let ground = element;
  const clear = "rgba(0, 0, 0, 0)";
  while (getComputedStyle(ground).backgroundColor === clear) ground = ground.parentElement;
  const [one, other] = [getComputedStyle(element).color, getComputedStyle(ground).backgroundColor].map(light);
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
})()
"""
