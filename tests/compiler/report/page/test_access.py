"""Whom the page serves: without a network, at any width, by keys alone, dark and light."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from tests.compiler.report.page.pages import (
    CELL_TEXTS,
    CELLS,
    NAMES,
    NEEDS_BROWSER,
    timed_page,
    write,
)
from tests.placement_maps import make_map

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser import Tab

pytestmark = NEEDS_BROWSER


def test_it_opens_alone_and_without_complaint(tab: Tab, page: Path) -> None:
    """The page asks for nothing but itself, and no script of it fails."""
    tab.open(page)
    assert tab.requests == [page.as_uri()]
    assert tab.errors == []
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
    for selector in ("body", "#facts", "thead th", "#said p", "#strip small", "#strip-keys"):
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
