"""The views at the size they are made for: eight clones of ResNet-50, some thirty thousand ops."""

from pathlib import Path

import pytest

import grammar
from compiler.mapping.records import LIMIT, PlacementMap
from compiler.report.page.data import lines_of, texts_of
from compiler.report.page.html import html_page
from compiler.report.terminal import terminal_map
from compiler.report.view import View
from dsl.files.typed_json import parse_record
from tests.browser import find_chromium, start_browser
from tests.folders import ROOT
from tests.graphs import map_of

SPEC = ROOT / "examples" / "resnet50.tfdeploy"
MOST_BYTES = 3_000_000
CHROMIUM = find_chromium()
FOUND = "document.getElementById('found').innerText"
ROWS = "document.querySelectorAll('#scopes tbody tr').length"


@pytest.mark.full
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed to look at the page with")
def test_views_of_resnet50(tmp_path: Path) -> None:
    """The map is read back whole; the page is small and answers; tables stay readable."""
    spec = grammar.load(SPEC, [("devices.gpu", "8")])
    placement = map_of(spec)
    assert len(placement.ops) > 11_000
    text = placement.to_json()
    assert parse_record(text, PlacementMap, LIMIT) == placement

    title, *lines = terminal_map(placement, View()).splitlines()
    assert title.startswith(str(SPEC))
    assert len(lines) < 60
    assert max(map(len, lines)) <= 80

    path = tmp_path / "resnet50.html"
    path.write_text(html_page(placement, lines_of(placement, texts_of(spec))), encoding="utf-8")
    assert path.stat().st_size < MOST_BYTES
    assert CHROMIUM is not None
    with start_browser(CHROMIUM, tmp_path / "profile") as tab:
        tab.open(path)
        assert tab.evaluate(FOUND) == f"{len(placement.ops):,} ops"
        tab.press("/")
        tab.write("clone_3 type:Conv2D")
        convolutions = sum(op.type.startswith("Conv2D") and op.clone == 3 for op in placement.ops)
        tab.until(f"{FOUND} === '{convolutions} ops found'")
        tab.press("Escape")
        tab.until(f"{FOUND}.endsWith(' ops')")
        before = tab.evaluate(ROWS)
        tab.click('tr[data-path="clone_3"] .twist')
        assert tab.evaluate(ROWS) > before
        tab.click('tr[data-path="clone_3"] .name')
        assert "the rule clones -> gpu[*]" in tab.evaluate("document.getElementById('detail').innerText")
        assert tab.errors == []
