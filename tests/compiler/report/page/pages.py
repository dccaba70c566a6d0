"""Pages to look at with a browser, and what to ask of them."""

from pathlib import Path

import pytest
from attrs import evolve

from compiler.mapping.records import PlacementMap
from compiler.model.graph import CallNode, InputNode, LayerNode, ModelGraph, ObjectiveNode
from compiler.report.page.html import html_page
from compiler.report.page.tree import Details
from compiler.time.forecast import StepForecast, forecast_step
from compiler.time.measured_trace import RunTrace
from dsl import ir
from dsl.source import Source, Span
from tests.browser import Tab, find_chromium
from tests.compiler.time.steps import GPU, Machine, op, step
from tests.placement_maps import SPEC, make_map

CHROMIUM = find_chromium()
NEEDS_BROWSER = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium is installed to look at the page with"
)

LINES = {SPEC: {11: "place {", 12: "  clones -> gpu[*]", 13: "  variables -> cpu[0]", 14: "}"}}
ROWS = "[...document.querySelectorAll('#scopes tbody tr')]"
NAMES = f"{ROWS}.map((row) => row.dataset.path)"
CELLS = f"{ROWS}.map((row) => [...row.cells].map((cell) => cell.innerText).join(' ').trim())"
CELL_TEXTS = (
    "((id) => [...document.querySelectorAll(`#${id} tbody tr`)]"
    ".map((row) => [...row.cells].map((cell) => cell.innerText.trim())))"
)
DETAIL = "document.getElementById('said').innerText"
FOUND = "document.getElementById('found').innerText"
OVERFLOWING = (
    "[...document.querySelectorAll('.scroll > table')]"
    ".filter((table) => table.scrollWidth > table.parentElement.clientWidth).map((table) => table.id)"
)
"""The tables that are wider than what is seen of them."""

TEXT = "\n" * 11 + "clones -> gpu[*]"


def write(path: Path, placement: PlacementMap, details: Details | None = None) -> Path:
    """Write the page of a map."""
    path.write_text(html_page(placement, LINES, details), encoding="utf-8")
    return path


def show_in(tab: Tab, width: int, height: int, *, mobile: bool = False) -> None:
    """Give the window a size in pixels for the rest of a test."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1}
    tab.call("Emulation.setDeviceMetricsOverride", **size, mobile=mobile)


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


def timed_step() -> StepForecast:
    """Return a forecast of 28 ms: an op, its tensor on a link, two ops of a GPU, and an op beside them."""
    arrows = [
        ("input/IteratorGetNext", "clone_0/conv1/Conv2D"),
        ("clone_0/conv1/Conv2D", "clone_0/conv1/Relu"),
    ]
    ops = [op("input/IteratorGetNext=10"), op("clone_0/conv1/Conv2D=5", GPU), op("clone_0/conv1/Relu=3", GPU)]
    work = step([*ops, op("beside=2")], arrows, {"input/IteratorGetNext": 1000})
    timed = forecast_step(work, Machine(speed=1e5, step_start=0.0, source="a.profile.json"))
    # The names of the ops of the machine made by hand have their times; the map has the names alone.
    plain = tuple(
        evolve(each, name=each.name.partition("=")[0], flops=1000 * (at + 1), bytes=2048)
        for at, each in enumerate(work.ops)
    )
    path_parts = tuple(evolve(each, name=each.name.partition("=")[0]) for each in timed.path)
    return evolve(timed, work=evolve(work, ops=plain), path=path_parts)


def timed_page(
    path: Path, trace: RunTrace | None = None, around: float = 0.0, found: StepForecast | None = None
) -> Path:
    """Write the page of a map of two clones with that forecast, and so many seconds around the ops."""
    found = timed_step() if found is None else found
    found = evolve(found, seconds=found.seconds + around)
    placement = evolve(make_map(2), time=found.for_map())
    return write(path, placement, Details(time=found, trace=trace))


def model() -> ModelGraph:
    """Return `conv1 -> logits` with a way around both, and a loss against labels."""
    span = Span(Source(SPEC, TEXT), 11, 17)
    layers = [
        LayerNode(name, "layer", ir.Call(kind), span)
        for name, kind in (("conv1", "Conv2D"), ("logits", "Dense"))
    ]
    layers.append(LayerNode("sum", "operation", ir.Call("add")))
    return ModelGraph(
        name="m",
        inputs=(InputNode("image", "float32", (8, 8, None), 0), InputNode("label", "int32", (), 1)),
        layers=tuple(layers),
        calls=(
            CallNode(0, (0,), (2,), 1),
            CallNode(1, (2,), (3,), 1),
            CallNode(2, (3, 0), (4,), 2),
        ),
        losses=(ObjectiveNode("cross", ir.Call("CrossEntropy"), 1, 4),),
        metrics=(),
        outputs=(),
    )
