"""The timeline of a step in a browser."""

import json
from pathlib import Path

from compiler.time.forecast import forecast_step
from compiler.time.measured_trace import RunTrace, read_trace
from tests.browser import Tab
from tests.compiler.report.page.pages import (
    CELL_TEXTS,
    DETAIL,
    NEEDS_BROWSER,
    show_in,
    timed_page,
)
from tests.compiler.time.steps import GPU, Machine, op, step

pytestmark = NEEDS_BROWSER


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
TOLD = (
    "[...document.querySelectorAll('#beneath-told li')]"
    ".map((each) => each.textContent.replaceAll('\u00a0', ' '))"
)
KEYS = "[...document.querySelectorAll('#timeline-keys .key')].map((each) => each.innerText)"
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
    assert tab.evaluate(KEYS) == ["on the critical path", "other ops", "other transfers"]
    assert tab.evaluate("document.getElementById('timeline-span').innerText") == "0 µs to 28.0 ms"
    for row, at, color in [(0, 9.5, ORANGE), (0, 20, NOTHING), (2, 19.5, ORANGE), (1, 19.5, NOTHING)]:
        assert tab.evaluate(f"{PIXEL}([{row}, {at / 28}, 4])") == color, (row, at)
    assert tab.evaluate(f"{PIXEL}([1, {24.8 / 28}, 4])") == ORANGE
    assert tab.evaluate(f"{PIXEL}([0, {1 / 28}, 18])") == BLUE  # on the second thread, off the path
    tab.click("#timeline canvas[data-row='2']")
    detail = tab.evaluate(DETAIL)
    assert detail.startswith(
        "Transfer of input/IteratorGetNext\nlink\ncpu[0] -> gpu[0]\nstarts after\n10.0 ms\n"
    )
    assert "takes\n10.0 ms, 35.7% of the step\nbytes\n1000 B\ncritical path\non it\n" in detail
    assert tab.evaluate("location.hash") == "#bar=2,0"


def test_it_says_what_the_rows_do_not_show(tab: Tab, tmp_path: Path) -> None:
    """The step is longer than the rows by what it costs before its first op and after its last one."""
    about = "document.getElementById('timeline-about').innerText"
    tab.open(timed_page(tmp_path / "timed.html", around=0.0))
    assert tab.evaluate(about).startswith("A step takes 28.0 ms, forecast by a.profile.json. Keys in a row: ")
    tab.open(timed_page(tmp_path / "around.html", around=2e-3))
    said = "The rows do not show 2.00 ms of it, before its first op and after its last one."
    assert tab.evaluate(about).startswith(f"A step takes 30.0 ms, forecast by a.profile.json. {said} Keys ")
    assert tab.evaluate("document.getElementById('timeline-span').innerText") == "0 µs to 28.0 ms"
    loops = forecast_step(
        step([op("a=10"), op("b=10", GPU)], [], loops=((0,), (1,))), Machine(cores=4, source="a.profile.json")
    )
    tab.open(timed_page(tmp_path / "loops.html", found=loops))
    assert tab.evaluate(about).startswith(
        "There is an update every 5.00 ms, forecast by a.profile.json. Keys "
    )
    assert tab.evaluate("document.getElementById('timeline-span').innerText") == "0 µs to 40.0 ms"
    title = "document.getElementById('timeline-title').innerText"
    assert tab.evaluate(title) == "Timeline of several updates"


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
    tab.click("#said h2 button")
    assert tab.evaluate("location.hash").endswith("&sel=clone_0%2Fconv1%2FRelu")


def test_no_timeline_without_a_forecast(tab: Tab, page: Path) -> None:
    """A map without a forecast of time has no timeline; an address that names a bar opens it all the same."""
    tab.open(page, "#bar=0,0&time=1,2")
    assert tab.evaluate("document.getElementById('timeline-section').offsetHeight") == 0
    assert tab.evaluate(DETAIL).startswith("Why is it there?")


def trace_of(path: Path) -> RunTrace:
    """Write and read the trace of two steps of 22 and 24 ms, with an op that has no forecast."""
    events = []
    for begin, slow in ((1_000, 0), (50_000, 2_000)):
        for name, start, long in (
            ("input/IteratorGetNext", 0, 8_000),
            ("clone_0/conv1/Conv2D", 8_000, 12_000 + slow),
            ("clone_0/conv1/Relu", 20_000 + slow, 2_000),
            ("metrics/add", 500, 100),
        ):
            args = {"name": name}
            events.append({"ph": "X", "ts": begin + start, "dur": long, "args": args, "name": "Op", "pid": 1})
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    return read_trace(path)


def test_a_measured_step_beneath_the_forecast(tab: Tab, tmp_path: Path) -> None:
    """The step of median length lies beneath the forecast, and the ops that differ most lead to it."""
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    page = timed_page(tmp_path / "timed.html", trace_of(tmp_path / "trace.json"))
    tab.open(page)
    assert tab.evaluate("document.getElementById('beneath-about').innerText") == (
        "Measured in 2 steps: its ops took 23.0 ms together, forecast 20.0 ms, and 100 µs in ops that the "
        "forecast leaves out. The step that is drawn took 24.0 ms from its first op to its last one, "
        "forecast 28.0 ms. Ops take longer while they are traced. The largest differences, 100% of the "
        "sum of all:"
    )
    assert tab.evaluate(TOLD) == [
        "clone_0/conv1/Conv2D on gpu[0] took 13.0 ms, 8.00 ms longer than forecast (5.00 ms).",
        "beside on cpu[0] is forecast to take 2.00 ms and did not run.",
        "input/IteratorGetNext on cpu[0] took 8.00 ms, 2.00 ms shorter than forecast (10.0 ms).",
        "clone_0/conv1/Relu on gpu[0] took 2.00 ms, 1.00 ms shorter than forecast (3.00 ms).",
    ]
    assert tab.evaluate(f"{CELL_TEXTS}('beneath')") == [
        ["clone_0/conv1/Conv2D\ngpu[0]", "5.00 ms", "13.0 ms", "+8.00 ms"],
        ["beside\ncpu[0]", "2.00 ms", "0 µs", "\N{MINUS SIGN}2.00 ms"],
        ["input/IteratorGetNext\ncpu[0]", "10.0 ms", "8.00 ms", "\N{MINUS SIGN}2.00 ms"],
        ["clone_0/conv1/Relu\ngpu[0]", "3.00 ms", "2.00 ms", "\N{MINUS SIGN}1.00 ms"],
    ]
    busy = "[...document.querySelectorAll('#timeline .said')].map((each) => each.textContent)"
    assert tab.evaluate(busy) == [
        "36% busy33% busy as measured",
        "29% busy67% busy as measured",
        "36% busy",
    ]
    assert tab.evaluate(KEYS)[-1] == "a measured step, that of median length"
    grey = [95, 107, 122, 255]
    beneath = 16 + 2 + 3 + 1  # pixels from the top of a row with one lane
    assert tab.evaluate(f"{PIXEL}([1, {9 / 28}, {beneath}])") == grey
    assert tab.evaluate(f"{PIXEL}([1, {21.5 / 28}, {beneath}])") == grey  # the second step took 14 ms for it
    assert tab.evaluate(f"{PIXEL}([1, {7 / 28}, {beneath}])") == NOTHING
    assert tab.evaluate(f"{PIXEL}([1, {9 / 28}, 4])") == NOTHING  # of the forecast
    tab.click("#beneath tbody tr button")
    assert tab.evaluate("location.hash") == "#bar=1,0,measured"
    tab.click("#beneath-told li:nth-child(2) button")  # which was not measured
    assert tab.evaluate("location.hash") == "#bar=0,1"
    tab.click("#beneath-told li button")
    assert tab.evaluate("location.hash") == "#bar=1,0,measured"
    detail = tab.evaluate(DETAIL)
    assert detail.startswith(
        "clone_0/conv1/Conv2D\ndevice\ngpu[0]\nmeasured, starts after\n8.00 ms\ntakes\n14.0 ms"
    )
    assert "forecast, measured\n5.00 ms, 13.0 ms\n" in detail
    assert "the rule clones -> gpu[*]\n\ntrain.tfdeploy:12:3" in detail
    tab.open(page, tab.evaluate("location.hash"))
    assert tab.evaluate(DETAIL) == detail
    tab.evaluate("document.querySelector('#timeline canvas[data-row=\"1\"]').focus()")
    tab.press("ArrowUp")  # from what was measured to what was forecast above it
    assert tab.evaluate("location.hash") == "#bar=1,0"
    tab.press("ArrowDown")
    assert tab.evaluate("location.hash") == "#bar=1,0,measured"


def test_a_name_of_many_parts_has_its_figures_in_sight(tab: Tab, tmp_path: Path) -> None:
    """The names of ops break after a slash, so that no table or sentence is wider than a telephone."""
    show_in(tab, 390, 900, mobile=True)
    tab.open(timed_page(tmp_path / "timed.html", trace_of(tmp_path / "trace.json")))
    for part in ("beneath", "beneath-told", "timeline"):
        box = f"document.getElementById('{part}').parentElement"
        assert tab.evaluate(f"{box}.scrollWidth <= {box}.clientWidth"), part
    assert tab.evaluate("document.querySelectorAll('#beneath tbody tr:first-child wbr').length") == 2
