"""The benchmark of the search reads published inputs, and writes splits that have every node once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.placement import __main__ as benchmark
from benchmarks.placement.__main__ import main
from benchmarks.placement.files import InputError, places_of, read_json, workload_of
from benchmarks.placement.generated import GRAPHS, residual
from benchmarks.placement.table import PUBLISHED, Row, page
from compiler.search.problem import measure_loads
from compiler.search.search import search
from tests.folders import ROOT

INPUT = ROOT / "tests" / "compiler" / "search" / "published" / "bert24_training.json"


def test_one_line_is_printed_and_the_split_has_every_node(tmp_path: Path) -> None:
    """The split, scored by the definition, has the max-load that is printed; classes are together."""
    out = tmp_path / "split.json"
    result = CliRunner().invoke(main, [str(INPUT), "--out", str(out)])
    assert result.exit_code == 0, result.output
    (line,) = result.output.splitlines()
    printed = json.loads(line)
    assert list(printed) == ["input", "max_load", "seconds"]
    content, split = read_json(INPUT), read_json(out)
    written = [each for part in ("fpgas", "cpus") for device in split[part] for each in device["nodes"]]
    assert sorted(written) == sorted(node["id"] for node in content["nodes"])
    assert len(split["fpgas"]) == content["maxFPGAs"]
    places = places_of(content, split)
    assert max(measure_loads(workload_of(content), places)) == printed["max_load"]
    place_of: dict[Any, int] = {}
    for node, place in zip(content["nodes"], places, strict=True):
        assert place_of.setdefault(node["colorClass"], place) == place


def test_a_machine_without_time_gets_what_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is ended by the clock: here before it begins, so that simple placements are the result."""
    monkeypatch.setattr(benchmark, "TIME", -1.0)
    result = CliRunner().invoke(main, [str(INPUT)])
    assert result.exit_code == 0, result.output
    at_once = search(workload_of(read_json(INPUT)), hurry=lambda: True)
    assert json.loads(result.output)["max_load"] == at_once.max_load


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"maxFPGAs": 0}, "at least one accelerator"),
        ({"nodes": [{"id": 1}], "edges": []}, "fpgaLatency"),
        ({"edges": [{"sourceId": 1, "destId": -5, "cost": 1}]}, "no field or node -5"),
        ({"maxCPUs": "many"}, "many"),
        ({"nodes": 3}, "int"),
    ],
)
def test_bad_inputs_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """An input that is none ends with a message and not with a traceback."""
    path = tmp_path / "input.json"
    path.write_text(json.dumps({**read_json(INPUT), **change}))
    result = CliRunner().invoke(main, [str(path)])
    assert result.exit_code == 1
    assert message in result.output
    assert isinstance(result.exception, SystemExit)


def test_files_that_are_no_inputs_are_named(tmp_path: Path) -> None:
    """A file that is missing, or has no JSON object, is an error with its name."""
    with pytest.raises(InputError, match="nowhere"):
        read_json(tmp_path / "nowhere.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(InputError, match="no JSON object"):
        read_json(tmp_path / "list.json")


def test_splits_that_do_not_fit_are_named() -> None:
    """A node on two devices, on none, or from elsewhere is an error."""
    content = read_json(INPUT)
    ids = [node["id"] for node in content["nodes"]]
    for nodes, message in (
        (ids * 2, "twice"),
        (ids[1:], f"node {ids[0]} is on no device"),
        ([*ids, -7], "-7"),
    ):
        content_without_classes = {
            **content,
            "nodes": [{**node, "colorClass": node["id"]} for node in content["nodes"]],
        }
        with pytest.raises(InputError, match=message):
            places_of(content_without_classes, {"fpgas": [{"nodes": nodes}], "cpus": []})


def test_made_up_graphs_are_of_the_published_form() -> None:
    """They have up to 2,000 nodes and for each a backward node of the same class, and can be made again."""
    assert residual(4, training=True, accelerators=2) == residual(4, training=True, accelerators=2)
    for make in GRAPHS.values():
        content = make()
        assert len(content["nodes"]) <= 2000
        forward = [node for node in content["nodes"] if not node["isBackwardNode"]]
        backward = [node for node in content["nodes"] if node["isBackwardNode"]]
        if backward:
            assert sorted(node["colorClass"] for node in forward) == sorted(
                node["colorClass"] for node in backward
            )
        assert len(workload_of(content).operators) == len(content["nodes"])


def test_the_page_says_what_was_found() -> None:
    """Each graph is a row, with the best of the published results and the gap to the bound."""
    row = Row("gnmt_inference", 96, 33.0, 30.0, 1.25, 32.0)
    text = "\n".join(page([row], [Row("made_up", 5, 1.0, 1.0, 0.1, 1.0)]))
    assert "| gnmt_inference | 96 | 31.783 | 33.000 | 30.000 | 10.0% | 32.000 | 1.2 |" in text
    assert "| made_up | 5 | 1.000 | 1.000 | 0.0% | 1.000 | 0.1 |" in text
    assert min(PUBLISHED["resnet50_inference"]) == 33.775
