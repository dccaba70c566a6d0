"""Figures that pages tell outside of what commands print: they are those of today."""

import re
from pathlib import Path

import pytest

import grammar
from compiler.graph.build import compile_graph
from compiler.graph.inspect.placement_map import map_placement
from compiler.pipeline import make_plan
from compiler.step.read.memory import forecast_memory
from tests.docs.pages import DOCS, ROOT, name_of, page_files, prose_of

FORECASTS = DOCS / "reference" / "forecasts.md"
ROW = re.compile(
    r"^\| `(?P<example>\w+)` \| `(?P<device>[^`]+)` \| (?P<there>[^|]+) \| (?P<forecast>[\d,]+) "
    r"\| [\d,]+ to (?P<highest>[\d,]+) \| (?P<ratio>[\d.]+) \|$",
    re.MULTILINE,
)
BYTES = re.compile(r"(?<![\w.])\d[\d.,]* [KMG]iB")


def number(text: str) -> int:
    """Read a whole number with commas."""
    return int(text.replace(",", ""))


def test_forecasts_of_the_table_are_those_of_today() -> None:
    """What `plan` forecasts for the examples is what the page compares with measurements, to the byte."""
    rows = [found.groupdict() for found in ROW.finditer(FORECASTS.read_text())]
    expected = {(row["example"], row["device"]): number(row["forecast"]) for row in rows}
    found = {}
    for example in sorted({name for name, _ in expected}):
        compiled = compile_graph(
            make_plan(grammar.load(ROOT / "examples" / f"{example}.tfdeploy"), emulate=True)
        )
        memory = forecast_memory(compiled.step)
        found |= {
            (example, each.ref): each.step_bytes for each in map_placement(compiled, memory=memory).devices
        }
    assert found == expected


def test_ratios_of_the_table_follow_from_it() -> None:
    """The last column is forecast over highest, and so is what the text below the table says."""
    text = FORECASTS.read_text()
    rows = [found.groupdict() for found in ROW.finditer(text)]
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for row in rows:
        ratio = number(row["forecast"]) / number(row["highest"])
        assert float(row["ratio"]) == pytest.approx(ratio, abs=0.005)
        ratios["a tower" in row["there"]].append(ratio)
    below, above = round(100 * (1 - min(ratios[True]))), round(100 * (max(ratios[True]) - 1))
    assert (
        f"For towers the forecast was between {below} % below and {above} % above the highest peak." in text
    )
    assert [f"{each:.1f}" for each in ratios[False]] == ["2.0"]
    assert "it was 2.0 times as much" in text


@pytest.mark.parametrize(
    "path", [path for path in page_files() if name_of(path).startswith(("how-to/", "tutorial"))], ids=name_of
)
def test_sizes_in_the_text_stand_in_what_is_shown(path: Path) -> None:
    """Bytes that the text of a page speaks of are figures of its blocks, which tests hold."""
    prose = prose_of(path)
    shown = path.read_text(encoding="utf-8")
    assert [each for each in BYTES.findall(prose) if shown.count(each) <= prose.count(each)] == []
