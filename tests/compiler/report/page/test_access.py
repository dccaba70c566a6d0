"""Whom the page serves: without a network, at any width, by keys alone, dark and light."""

from pathlib import Path

import pytest
from attrs import evolve

from compiler.mapping.records import LinkTime, MapTensor
from compiler.report.page.tree import Details
from compiler.time.measured_trace import RunTrace, TraceEvent
from tests.browser import Tab
from tests.compiler.report.page.pages import (
    CELL_TEXTS,
    CELLS,
    DETAIL,
    NAMES,
    NEEDS_BROWSER,
    OVERFLOWING,
    model,
    show_in,
    timed_page,
    timed_step,
    write,
)
from tests.placement_maps import make_map

pytestmark = NEEDS_BROWSER
HEADS_OF_DEVICES = "[...document.querySelectorAll('#devices th')].map((head) => head.innerText.trim())"


def test_it_opens_alone_and_without_complaint(tab: Tab, page: Path) -> None:
    """The page asks for nothing but itself, and no script of it fails."""
    tab.open(page)
    assert tab.requests == [page.as_uri()]
    assert tab.evaluate("document.getElementById('svg').getBoundingClientRect().height") == 0
    assert tab.evaluate("document.title") == "Placement of train.tfdeploy"
    assert tab.evaluate(NAMES) == ["input", "conv1", "logits", "clone_0", "clone_1", "update"]
    assert tab.evaluate(CELLS)[3] == "▸clone_0/ 9 2 7 ."
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


def test_on_a_telephone(tab: Tab, tmp_path: Path) -> None:
    """At 390 pixels nothing but the boxes scrolls sideways, and what was tapped is told within the window."""
    show_in(tab, 390, 800)
    tab.open(timed_page(tmp_path / "narrow.html"))
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tops = "[...document.querySelectorAll('#timeline-bar button')].map((each) => each.offsetTop)"
    assert len(set(tab.evaluate(tops))) == 1
    tab.click("#devices tbody tr:nth-child(1) td")
    tab.click('tr[data-path="clone_1"] .name')
    top, bottom = tab.evaluate(
        "(() => { const box = document.getElementById('detail').getBoundingClientRect();"
        "return [box.top, box.bottom]; })()"
    )
    assert 0 < top < bottom <= 800


def test_tables_in_a_usual_window(tab: Tab, tmp_path: Path) -> None:
    """At 1280 pixels no table of a few devices scrolls sideways, with all the columns that one can have."""
    show_in(tab, 1280, 900)
    tab.open(timed_page(tmp_path / "usual.html"))
    assert tab.evaluate(HEADS_OF_DEVICES)[-3:] == ["busy", "in / step", "out / step"]
    assert tab.evaluate(OVERFLOWING) == []


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


def full_page(path: Path) -> Path:
    """Write a page with all that one can have: times, a measured step, a model, clones that are alike."""
    found = timed_step()
    placement = make_map(8)
    shares = [(0.05, 0.2, 0.45, 0.8)[at % 4] for at in range(len(placement.transfers))]
    links = tuple(
        LinkTime(each.from_device, each.to_device, share / 100, share, each.bytes)
        for each, share in zip(placement.transfers, shares, strict=True)
    )
    largest = (MapTensor("clone_1/conv1/Relu:0", 4096),)
    devices = tuple(
        evolve(each, step_bytes=9000, other_bytes=4, memory_bytes=9004, memory_limit=5000, largest=largest)
        for each in placement.devices
    )
    time = evolve(found.for_map(), links=links)
    event = TraceEvent("X", 9000.0, {"name": "clone_0/conv1/Relu"}, 100.0)
    details = Details(model=model(), time=found, trace=RunTrace((event,)))
    return write(path, evolve(placement, time=time, devices=devices), details)


@pytest.mark.family(every=2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(tab: Tab, tmp_path: Path, scheme: str) -> None:
    """Text stands out from its ground by 4.5 to 1 and what is drawn by 3 to 1 (WCAG AA), dark and light."""
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    page = full_page(tmp_path / "full.html")
    for state in ("sel=clone_0..7/conv1/kernel/read&by=flops", "device=cpu[0]", "q=conv1&sort=all"):
        tab.open(page, f"#{state}")
        faint = tab.evaluate(f"{CONTRAST}.texts(4.5)")
        assert faint == [], (state, faint)
        assert tab.evaluate(f"{CONTRAST}.count") > 150
    for name in ("accent", "slots", "other", "step", "quiet", "hot1", "hot2", "hot3", "edge"):
        for ground in ("page", "panel"):
            assert tab.evaluate(f"{CONTRAST}.between('--{name}', '--{ground}')") >= 3, (name, ground)
    assert tab.evaluate(f"{CONTRAST}.layers(4.5)") == []


CONTRAST = """
(() => {
  const parse = (color) => {
    const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    pen.fillStyle = color;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, ground) => [0, 1, 2].map((at) => top[at] * top[3] + ground[at] * (1 - top[3]));
  const light = (color) => {
    const [r, g, b] = color.slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [a, b] = [light(one), light(other)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const known = new Map();
  const read = (color) => known.get(color) ?? known.set(color, parse(color)).get(color);
  const groundOf = (element) => {
    if (!element) return [255, 255, 255];
    const color = read(getComputedStyle(element).backgroundColor);
    return color[3] === 1 ? color : over(color, groundOf(element.parentElement));
  };
  const hasText = (each) => [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const shown = [...document.body.querySelectorAll("*")]
    .filter((each) => each.checkVisibility() && !each.closest("svg, script, option") && hasText(each));
  const onGround = (each) => contrast(read(getComputedStyle(each).color), groundOf(each));
  const colors = (one, other) => [one, other].map((name) => read(style.getPropertyValue(name).trim()));
  const inside = (box, tag) => read(getComputedStyle(box.querySelector(tag)).fill);
  const style = getComputedStyle(document.documentElement);
  return {
    count: shown.length,
    texts: (least) => shown.map((each) => [each.innerText.slice(0, 30), onGround(each)])
      .filter(([, found]) => found < least),
    between: (one, other) => contrast(...colors(one, other)),
    layers: (least) => [...document.querySelectorAll("#model [data-box]")]
      .map((box) => contrast(inside(box, "text"), inside(box, "rect"))).filter((found) => found < least),
  };
})()
"""


def test_everything_has_a_role_and_a_name(tab: Tab, tmp_path: Path) -> None:
    """Whatever can have the focus tells a screen reader what it is; none is put before its turn."""
    tab.open(full_page(tmp_path / "full.html"), "#sel=clone_0..7/conv1")
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    focusable = [
        each
        for each in nodes
        if not each["ignored"]
        and any(one["name"] == "focusable" and one["value"]["value"] for one in each.get("properties", []))
    ]
    roles = {each["role"]["value"] for each in focusable}
    assert {"button", "combobox", "searchbox", "row", "region", "image", "DisclosureTriangle"} <= roles
    assert "generic" not in roles
    nameless = [each for each in focusable if not each.get("name", {}).get("value")]
    assert [each["role"]["value"] for each in nameless if each["role"]["value"] != "row"] == []
    early = "[...document.querySelectorAll('[tabindex]')].filter((each) => each.tabIndex > 0).length"
    assert tab.evaluate(early) == 0
    outside = "(each) => !each.closest('[aria-label], [aria-labelledby]')"
    unnamed = tab.evaluate(f"[...document.querySelectorAll('table, section')].filter({outside}).length")
    assert unnamed == 0


def test_the_focus_goes_from_top_to_bottom(tab: Tab, tmp_path: Path) -> None:
    """Tab leads through the parts of the page in their order, and each thing that has the focus shows it."""
    tab.open(full_page(tmp_path / "full.html"))
    seen: list[str] = []
    for _ in range(400):
        tab.press("Tab")
        part, outlined = tab.evaluate(
            "(() => { const it = document.activeElement; const part = it.closest('main > *, aside');"
            "const line = it.querySelector('rect, .hold, td'); const inner = line && getComputedStyle(line);"
            "const within = inner && (inner.boxShadow !== 'none' || inner.stroke !== 'none');"
            "return [part ? part.id || part.getAttribute('aria-labelledby') : '',"
            "getComputedStyle(it).outlineStyle !== 'none' || Boolean(within)]; })()"
        )
        if part:
            assert outlined, part
        if not seen or seen[-1] != part:
            seen.append(part)
        if part == "detail" or (seen.count("strip-title") > 1):
            break
    parts = [each for each in seen if each]
    assert parts[:7] == [
        "strip-title",
        "timeline-section",
        "matrix-section",
        "devices-section",
        "scopes-title",
        "transfers-section",
        "model-section",
    ]


def test_escape_and_the_button_end_an_explanation(tab: Tab, page: Path) -> None:
    """In a narrow window the explanation covers a part of the page until it is closed."""
    show_in(tab, 390, 800)
    tab.open(page, "#sel=clone_1%2Fconv1")
    assert tab.evaluate("document.getElementById('detail').offsetHeight") > 0
    tab.click("#close")
    assert tab.evaluate("document.getElementById('detail').offsetHeight") == 0
    assert "sel=" not in tab.evaluate("location.hash")
    tab.click('tr[data-path="clone_1"] .name')
    assert tab.evaluate("document.getElementById('detail').offsetHeight") > 0
    tab.press("Escape")
    assert tab.evaluate("document.getElementById('detail').offsetHeight") == 0


def test_five_hundred_clones_are_drawn_as_few(tab: Tab, tmp_path: Path) -> None:
    """A page of 512 clones has hardly more elements than one of 16, and shows any clone that is asked for."""
    elements = "document.querySelectorAll('*').length"
    tab.open(write(tmp_path / "few.html", make_map(16, host="worker[{}].")))
    few = tab.evaluate(elements)
    page = write(tmp_path / "many.html", make_map(512, host="worker[{}]."))
    tab.open(page)
    assert tab.evaluate(elements) < few + 1000  # up to 64 rows of devices and of transfers
    tab.open(page, "#sel=clone_300%2Fconv1%2FRelu&device=worker[40].gpu[3]")
    assert "worker[37].gpu[4]" in tab.evaluate(DETAIL)
    tab.click("#scopes thead .turn")
    assert tab.evaluate("document.querySelectorAll('#strip li').length") == 1 + 32 + 1
