"""Records show themselves as HTML and by rich: what is in the summaries, and that no text becomes markup."""

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from attrs import evolve, frozen
from rich.console import Console

import tfdeploy
from compiler.graph.compiled import CompiledGraph
from compiler.kinds.kind_map import KindMap
from compiler.mapping.records import MapTime
from compiler.report.compare import compare
from compiler.time import forecast
from dsl.shown import MOST_ROWS, Shown, Summary, Table
from tests.placement_maps import make_map
from tests.support import spec_of
from tfdeploy import looking
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.records.result import Best, Result, Seconds, SplitResult
from tfdeploy.showing import of_map, register_summaries

EVIL = "<script>alert(1)</script>[bold]&"
SPEC = """
tfdeploy = 1
model "two" {
  x = input(float32, [4])
  label = input(int32, [])
  y = x -> Dense(2, name = "y")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
  metrics { accuracy = [label, y] -> SparseCategoricalAccuracy() }
}
devices { gpu = 2, cpu = 1 }
clones { batch = 8 }
place { clones -> gpu[*], variables -> cpu[0], variables("y/bias") -> gpu[1] }
update { optimizer = Adam(1e-3) }
train { steps = 10 }
"""


@pytest.fixture(autouse=True)
def registered() -> None:
    """Register the summaries, as the first use of a function of `import tfdeploy` does."""
    register_summaries()


def printed(record: object) -> str:
    """Return what rich prints of a record."""
    console = Console(file=StringIO(), width=100)
    console.print(record)
    file = console.file
    assert isinstance(file, StringIO)
    return file.getvalue()


def cells(record: Any) -> list[list[str]]:
    """Return the cells of all tables of the HTML of a record, which has to be well-formed."""
    whole = ET.fromstring(record._repr_html_())  # noqa: S314  # made here
    return [["".join(cell.itertext()) for cell in row] for row in whole.iter("tr")]


@pytest.fixture(scope="module")
def graph() -> CompiledGraph:
    """Return a graph of two towers."""
    return tfdeploy.compile(spec_of(SPEC), emulate=True)


def test_a_spec_is_a_line_for_each_block() -> None:
    """And its whole text, behind a click in a notebook."""
    spec = spec_of(SPEC)
    assert ["clones", "one on each device of their rule, 8 examples each"] in cells(spec)
    assert ["inputs", "x float32 [4], label int32 []"] in cells(spec)
    assert ["devices", "gpu = 2, cpu = 1"] in cells(spec)
    assert ["update", "sync, Adam"] in cells(spec)
    assert "<details>" in (spec._repr_html_() or "")
    assert "y = x -&gt; Dense(2, name = &quot;y&quot;)" in (spec._repr_html_() or "")
    assert re.search(r"^train +10 steps *$", printed(spec), re.MULTILINE)


def test_a_plan_has_its_towers() -> None:
    """Which need no graph."""
    plan = tfdeploy.plan(spec_of(SPEC), emulate=True)
    assert ["1", "gpu[1]", "8", "clones -> gpu[*]"] in cells(plan)
    assert ["batch", "16 examples in a step of all clones"] in cells(plan)
    assert "gpu[0..1], cpu[0], emulated" in printed(plan) or "cpu[0], gpu[0..1], emulated" in printed(plan)


def test_a_map_has_its_devices_and_largest_variables(graph: CompiledGraph) -> None:
    """With the line of the rule; the memory of a step if it was forecast."""
    placement = tfdeploy.map_placement(graph)
    found = cells(placement)
    kernel = next(row for row in found if row[0] == "y/kernel")
    bias = next(row for row in found if row[0] == "y/bias")
    assert kernel[1:3] + kernel[4:] == ["[4, 2]", "cpu[0]", "32 B"]
    assert (bias[2], bias[3].startswith('variables("y/bias") -> gpu[1] (line ')) == ("gpu[1]", True)
    assert found.index(kernel) < found.index(bias)
    assert [each.left for each in of_map(placement).tables] == [1, 4]  # all but the bytes are words
    assert ["device", "ops", "variables", "slots", "in/step", "out/step"] in found
    forecast = cells(tfdeploy.looking.map_of(graph))
    assert ["device", "ops", "variables", "slots", "memory", "in/step", "out/step"] in forecast
    assert "y/kernel" in printed(placement)


def test_why_returns_explanations(graph: CompiledGraph) -> None:
    """The rule, those that it overrode, and what is followed; for a wrong name the nearest ones."""
    (bias,) = tfdeploy.why(graph, "y/bias")
    facts = dict(map(tuple, cells(bias)))
    assert facts["placed by"].startswith('variables("y/bias") -> gpu[1] (')
    assert facts["not by"].startswith("variables -> cpu[0] (")
    reads = tfdeploy.why(graph, "clone_*/y/kernel/read")
    assert {each.clone for each in reads} == {0, 1}
    assert "follows    the variable y/kernel" in printed(reads[0])
    with pytest.raises(
        LookupError, match="'y/kernle' names no op or variable; the nearest names are y/kernel"
    ):
        tfdeploy.why(graph, "y/kernle")


def test_diff_takes_maps_graphs_and_specs(graph: CompiledGraph) -> None:
    """What it finds is what the command finds; equal placements have no tables."""
    placement = tfdeploy.map_placement(graph)
    same = tfdeploy.diff(graph, graph)
    assert not same.different
    assert cells(same) == []
    assert "no difference" in printed(same)
    moved = evolve(
        placement,
        variables=tuple(evolve(each, device="gpu[0]") for each in placement.variables),
    )
    found = tfdeploy.diff(placement, moved)
    assert found == compare(placement, moved)
    assert ["y/kernel", "cpu[0]", "gpu[0]", "32 B"] in cells(found)
    assert "y/bias" in printed(found)


def test_devices_that_differ_have_a_row_before_and_after() -> None:
    """A device that one map lacks has nothing in it."""
    rows = [row for row in cells(tfdeploy.diff(make_map(1), make_map(2))) if "gpu[1]" in row]
    assert [row[0] for row in rows] == ["before", "after"]
    assert set(rows[0][2:]) == {"."}
    assert rows[1][2] != "."


def test_the_time_of_a_step_is_shown_if_it_was_forecast() -> None:
    """Of a map, and of a comparison of two maps that have a forecast."""
    quick = MapTime(
        0.002, estimate=True, measured=0.0, source="v100", devices=(), links=(), by_scope=(), by_rule=()
    )
    one, two = evolve(make_map(1), time=evolve(quick, seconds=0.004)), evolve(make_map(2), time=quick)
    assert ["", "a step takes 2.00 ms, an estimate for the hardware `v100`"] in cells(two)
    assert ["step", "4.00 ms -> 2.00 ms"] in cells(compare(one, two))
    assert "step" not in {row[0] for row in cells(compare(make_map(1), make_map(2)))}


def test_to_html_is_the_page_of_plan(graph: CompiledGraph) -> None:
    """With the lines of the rules, if they are known."""
    page = tfdeploy.to_html(graph)
    assert page.startswith("<!doctype html>")
    assert 'variables(\\"y/bias\\") -\\u003e gpu[1]' in page
    placement = tfdeploy.map_placement(graph)
    assert tfdeploy.to_html(evolve(placement, spec=evolve(placement.spec, path="none"))) != page


def test_a_comparison_has_the_page_of_diff(graph: CompiledGraph) -> None:
    """Both placements are on it with what moved, and sides of the same name are told apart."""
    placement = tfdeploy.map_placement(graph)
    moved = evolve(placement, variables=tuple(evolve(each, device="gpu[0]") for each in placement.variables))
    page = tfdeploy.to_html(tfdeploy.diff(placement, moved))
    path = placement.spec.path
    assert f'"label":"{path}, before"' in page
    assert f'"label":"{path}, after"' in page
    assert '["y/kernel",[' in page
    renamed = evolve(moved, spec=evolve(moved.spec, path="other.tfdeploy"))
    page = tfdeploy.to_html(tfdeploy.diff(placement, renamed))
    assert '"label":"other.tfdeploy"' in page
    with pytest.raises(ValueError, match="has no placement maps"):
        tfdeploy.to_html(evolve(tfdeploy.diff(placement, moved), maps=None))


@pytest.mark.full
def test_specs_of_many_clones_are_compared_and_shown_by_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on the command line: the graph of all clones is not built, and conditions are checked."""
    text = SPEC.replace("gpu = 2, cpu = 1", "cpu = 24")
    text = text.replace('place { clones -> gpu[*], variables -> cpu[0], variables("y/bias") -> gpu[1] }', "")
    monkeypatch.setattr(looking, "compile_spec", lambda *_: pytest.fail("the graph of all clones is built"))
    spec = spec_of(text, devices__kind="cpu")
    found = tfdeploy.diff(spec, spec)
    assert not found.different
    assert isinstance(found.maps[0], KindMap)
    assert '"boxes":[["x"' in tfdeploy.to_html(spec)
    step, placement = tfdeploy.forecast(spec), tfdeploy.map_placement(spec)
    assert isinstance(placement, KindMap)
    assert placement.time.seconds == step.seconds
    (reason,) = tfdeploy.why(spec, "clone_17/y/MatMul")
    assert (reason.clone, reason.requested) == (17, "cpu[17]")
    with pytest.raises(tfdeploy.SpecError):
        tfdeploy.to_html(spec_of(text + 'expect { ops(cpu[*], "*") == 0 }\n'))


def test_to_html_simulates_the_step_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The map and the timeline on the page are of the same simulation."""
    made = []
    simulate = forecast.simulate
    monkeypatch.setattr(forecast, "simulate", lambda *each: made.append(each) or simulate(*each))
    assert '"timeline"' in tfdeploy.to_html(spec_of(SPEC, devices__kind="v100"))
    assert len(made) == 1


@pytest.fixture
def result(tmp_path: Path) -> Result:
    """Return a result with the history of its run."""
    lines = [HistoryRecord(step, "train", 1 / step, 1 / step, {"accuracy": step / 10}) for step in (1, 5, 10)]
    lines.append(HistoryRecord(10, "test", 0.2, 0.2, {"accuracy": 0.9}))
    (tmp_path / "history.jsonl").write_text("".join(f"{each.to_json()}\n" for each in lines))
    return Result(
        status="finished",
        steps=10,
        loss=0.1,
        metrics={"accuracy": 1.0},
        test=SplitResult(0.2, {"accuracy": 0.9}, 100),
        examples_per_second=1234.5,
        seconds=Seconds(1.0, 0.5, 2.0),
        directory=str(tmp_path),
        best=Best(5, "lowest", "loss", 0.2),
    )


def test_a_result_has_figures_and_curves(result: Result) -> None:
    """As pictures in a notebook, and in characters in a terminal."""
    text = result._repr_html_() or ""
    assert ["test", "0.2000", "0.9000", "100"] in cells(result)
    assert ["best", "loss 0.2000 at step 5"] in cells(result)
    assert (text.count("<svg"), text.count("<polyline")) == (2, 4)
    assert "train: 0.1 at step 10" in text
    assert "train: 0.1 at step 10" in printed(result)


def test_a_result_without_its_directory_has_no_curves(result: Result) -> None:
    """The figures are there all the same."""
    gone = evolve(result, directory=f"{result.directory}/gone")
    assert "<svg" not in (gone._repr_html_() or "")
    assert ["test", "0.2000", "0.9000", "100"] in cells(gone)


def test_no_text_becomes_markup(result: Result) -> None:
    """Neither HTML in a notebook nor the markup of rich."""
    evil = Summary(EVIL, ((EVIL, EVIL),), (Table((EVIL,), ((EVIL,),), EVIL),), EVIL)
    assert "<script" not in evil.as_html()
    assert printed(evil.as_rich()).count(EVIL) == 6
    shown = evolve(result, metrics={EVIL: 0.5})
    assert "<script" not in (shown._repr_html_() or "")
    assert EVIL in printed(shown)


def test_long_tables_are_cut() -> None:
    """The last line has the number of the rows that are not shown."""
    table = Table(("n",), tuple((str(number),) for number in range(MOST_ROWS + 5)))
    summary = Summary("numbers", (), (table,))
    assert f'<td style="text-align: left">{MOST_ROWS - 1}</td>' in summary.as_html()
    assert "and 5 more" in summary.as_html()
    assert "and 5 more\n" in printed(summary.as_rich())
    assert f"\n{MOST_ROWS}" not in printed(summary.as_rich())


def test_a_record_without_a_summary_is_its_repr() -> None:
    """A notebook falls back to the same."""

    @frozen
    class Other(Shown):
        name: str

    assert Other("a")._repr_html_() is None
    assert printed(Other("a")) == "Other(name='a')\n"


def test_plan_starts_no_tensorflow(tmp_path: Path) -> None:
    """In a process of its own, because this one has started it."""
    (tmp_path / "two.tfdeploy").write_text(SPEC.lstrip())
    code = (
        "import sys, tfdeploy; tfdeploy.plan(tfdeploy.load('two.tfdeploy'), emulate=True)._repr_html_(); "
        "print({'tensorflow', 'keras', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == "set()\n"
