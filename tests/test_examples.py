"""The examples check, are formatted, and compile; the models in them are what they say."""

from functools import cache
from pathlib import Path

import pytest

import grammar
from compiler.graph.build import compile_graph
from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.placement_map import map_placement
from compiler.pipeline import make_plan
from dsl.source import Source
from grammar.format import format_text
from tests.folders import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.tfdeploy"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_without_a_word_of_complaint(path: Path) -> None:
    """No error, no warning, and nothing for the formatter to do."""
    assert list(grammar.read(path).diagnostics) == []
    text = path.read_text()
    assert format_text(Source(str(path), text)) == text


@cache
def compiled_example(name: str) -> CompiledGraph:
    """Return the graph of an example on emulated devices, which is built once."""
    path = next(each for each in EXAMPLES if each.stem == name)
    return compile_graph(make_plan(grammar.load(path), emulate=True))


LARGE = ("recommender", "resnet50", "transformer")
"""Examples whose graphs take long."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=pytest.mark.full if path.stem in LARGE else ())
        for path in EXAMPLES
    ],
)
def test_every_example_compiles_on_emulated_devices(path: Path) -> None:
    """The graph is built, each op where a rule or default put it."""
    placement = map_placement(compiled_example(path.stem))
    assert {op.requested for op in placement.ops} <= {device.ref for device in placement.devices}


@pytest.mark.full
def test_resnet50_has_the_trainable_weights_of_the_published_model() -> None:
    """The count equals that of `keras.applications.ResNet50` with 1,000 classes."""
    weights = compiled_example("resnet50").weights.values()
    assert sum(each.bytes // 4 for each in weights if each.trainable) == 25_583_592


def test_cifar10_runs_three_towers_on_three_gpus_over_variables_on_the_cpu() -> None:
    """Each clone has a GPU of its own, and every variable and slot is on the CPU."""
    placement = map_placement(compiled_example("cifar10"))
    assert [clone.devices for clone in placement.clones] == [("gpu[0]",), ("gpu[1]",), ("gpu[2]",)]
    assert {variable.device for variable in placement.variables} == {"cpu[0]"}
    assert {slot.device for variable in placement.variables for slot in variable.slots} == {"cpu[0]"}
    gpus = [device.variable_bytes for device in placement.devices if device.ref.startswith("gpu")]
    assert gpus == [0, 0, 0]


def test_the_tables_of_the_recommender_are_in_pieces_on_both_servers() -> None:
    """Each server has half of the rows of each large table with their slots; that of the shops is whole."""
    placement = map_placement(compiled_example("recommender"))
    pieces = [each for each in placement.variables if each.shard is not None]
    assert {(each.shard.of, each.device, each.shape[0]) for each in pieces if each.shard} == {
        (f"{name}/rows/embeddings", f"ps[{server}].cpu[0]", rows // 2)
        for name, rows in (("users", 4000), ("items", 2000))
        for server in (0, 1)
    }
    assert all(slot.device == each.device for each in pieces for slot in each.slots)
    (shops,) = (each for each in placement.variables if each.name.startswith("shops/"))
    assert "4.00 KiB" in shops.fewer
