"""What the tests of the page share: a browser, and the page of a small map."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Tab, start_browser
from tests.compiler.report.page.pages import CHROMIUM, write
from tests.placement_maps import make_map


@pytest.fixture(scope="package")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """A browser for the tests of this folder."""
    assert CHROMIUM is not None
    with start_browser(CHROMIUM, tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def tab(browser: Tab) -> Iterator[Tab]:
    """The browser for a test, in whose pages no script may fail; it has its own size again afterwards."""
    browser.errors.clear()
    yield browser
    browser.call("Emulation.clearDeviceMetricsOverride")
    assert browser.errors == []


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The page of a map with two clones."""
    return write(tmp_path / "map.html", make_map(2))
