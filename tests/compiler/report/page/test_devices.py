"""Devices and links in a browser: the strip, the matrix, the tables, and what is said about each."""

from pathlib import Path

from attrs import evolve

from compiler.mapping.records import DeviceTime, LinkTime, MapTensor, MapTime, PlacementMap
from tests.browser import Tab
from tests.compiler.report.page.pages import (
    CELL_TEXTS,
    DETAIL,
    NEEDS_BROWSER,
    forecast_map,
    write,
)
from tests.placement_maps import make_map

pytestmark = NEEDS_BROWSER


def test_what_memory_and_traffic_are_made_of(tab: Tab, tmp_path: Path) -> None:
    """A click on a device, or on the tensors of a link, names the largest of them."""
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
        *("Memory forecast of gpu[0]", "name in TensorFlow", devices[1].device),
        *("variables", ".", "slots", ".", "other variables", "."),
        *("tensors of a step at their peak", "8.00 KiB", "in all", "8.00 KiB"),
        *("Largest tensors at the peak", "4.00 KiB conv1/Relu", "2.00 KiB conv1/Conv2D"),
    ]
    tab.click("#transfers tbody tr:nth-child(1) button")
    assert tab.evaluate(DETAIL).split("\n") == [
        *("From cpu[0] to gpu[0]", "", "3 tensors, 23.1 KiB a step", ""),
        *("Largest tensors of a step", "2.00 KiB conv1/Conv2D"),
    ]
    tab.click("#said button")
    assert tab.evaluate(DETAIL).startswith("conv1/Conv2D\nop\nConv2D\n")


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


MATRIX = (
    "[...document.querySelectorAll('#matrix tr')]"
    ".map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
)


def timed_links() -> PlacementMap:
    """Return a map of two clones whose links are busy for 5%, 20%, 45% and 80% of a step of 10 ms."""
    placement = make_map(2)
    shares = (0.05, 0.2, 0.45, 0.8)
    links = tuple(
        LinkTime(each.from_device, each.to_device, share / 100, share, each.bytes)
        for each, share in zip(placement.transfers, shares, strict=True)
    )
    devices = tuple(DeviceTime(each.ref, 0.005, 0.5) for each in placement.devices)
    return evolve(placement, time=MapTime(0.01, True, 0.0, "v100", devices, links, (), ()))


def test_the_matrix_of_links(tab: Tab, page: Path) -> None:
    """A row for each device that sends a column for each that receives, sums, and in each cell a link."""
    tab.open(page)
    assert tab.evaluate(MATRIX) == [
        ["from, to", "cpu[0]", "gpu[0]", "gpu[1]", "sent"],
        ["cpu[0]", "", "23.1 KiB", "23.1 KiB", "46.3 KiB"],
        ["gpu[0]", "21.1 KiB", "", ".", "21.1 KiB"],
        ["gpu[1]", "21.1 KiB", ".", "", "21.1 KiB"],
        ["received", "42.3 KiB", "23.1 KiB", "23.1 KiB", "88.5 KiB"],
    ]
    tab.click('#matrix [data-cell="2 0"] button')
    assert tab.evaluate(DETAIL).startswith("From gpu[1] to cpu[0]\n\n2 tensors, 21.1 KiB a step, and 1 of")
    assert tab.evaluate("location.hash") == "#link=gpu%5B1%5D,cpu%5B0%5D"


def test_the_matrix_of_many_devices_is_one_of_groups(tab: Tab, tmp_path: Path) -> None:
    """GPUs of many workers are one row and one column, with the bytes of all their links."""
    tab.open(write(tmp_path / "many.html", make_map(64, host="worker[{}].")))
    assert tab.evaluate(MATRIX)[:2] == [
        ["from, to", "cpu[0]", "worker[*].gpu[*]", "sent"],
        ["cpu[0]", "", "1.45 MiB", "1.45 MiB"],
    ]


def test_links_are_coloured_by_their_share_of_the_step(tab: Tab, tmp_path: Path) -> None:
    """Colours change at 10%, 30% and 60%; the share is in words too, in strip, matrix and list."""
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    tab.open(write(tmp_path / "timed.html", timed_links()))
    colors = tab.evaluate(
        "[...document.querySelectorAll('#strip [data-link]')].map((link) => [link.getAttribute('aria-label'),"
        "getComputedStyle(link.querySelector('.line')).stroke])"
    )
    assert dict(colors) == {
        "cpu[0] to gpu[0]: 23.1 KiB a step, 5% of its time": "rgb(95, 107, 122)",
        "cpu[0] to gpu[1]: 23.1 KiB a step, 20% of its time": "rgb(138, 109, 0)",
        "gpu[0] to cpu[0]: 21.1 KiB a step, 45% of its time": "rgb(194, 65, 12)",
        "gpu[1] to cpu[0]: 21.1 KiB a step, 80% of its time": "rgb(179, 18, 29)",
    }
    assert tab.evaluate(MATRIX)[3][1] == "21.1 KiB\n80% of the step"
    assert "from 30%" in tab.evaluate("document.getElementById('strip-keys').innerText")
    assert tab.evaluate(f"{CELL_TEXTS}('transfers')")[0] == ["cpu[0]", "gpu[0]", "3", "23.1 KiB", ".", "5%"]
    assert tab.evaluate("document.querySelector('#strip small').innerText") == "11 ops, 50% busy"
    tab.click("#matrix [data-cell='2 0'] button")
    assert "It carries something in 80% of the step." in tab.evaluate(DETAIL)


def test_tables_are_sorted_by_their_heads(tab: Tab, page: Path) -> None:
    """Devices and transfers are sorted by any column, and the address has it."""
    tab.open(page)
    tab.click("#devices th:nth-child(2) button")
    first = f"{CELL_TEXTS}('devices').map((row) => row[0])"
    assert tab.evaluate(first) == ["cpu[0]", "gpu[0]", "gpu[1]"]
    tab.press("Enter")
    assert tab.evaluate(first) == ["gpu[0]", "gpu[1]", "cpu[0]"]
    tab.click("#transfers th:nth-child(1) button")
    assert tab.evaluate("location.hash") == "#devices=-1&transfers=0"
    ways = f"{CELL_TEXTS}('transfers').map((row) => row[0])"
    assert tab.evaluate(ways) == ["cpu[0]", "cpu[0]", "gpu[0]", "gpu[1]"]
    tab.press("Enter")
    assert tab.evaluate("location.hash") == "#devices=-1&transfers=-0"
    tab.open(page, tab.evaluate("location.hash"))
    assert tab.evaluate(first) == ["gpu[0]", "gpu[1]", "cpu[0]"]
    assert tab.evaluate(ways) == ["gpu[1]", "gpu[0]", "cpu[0]", "cpu[0]"]
