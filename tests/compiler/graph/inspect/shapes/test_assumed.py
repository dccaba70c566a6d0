"""Forecasts of a model with free axes are those of the same model with the sizes that they assume."""

from compiler.graph.inspect.placement_map import map_placement
from compiler.mapping.records import MapAssumption, PlacementMap
from compiler.report.terminal import terminal_map
from compiler.report.view import View
from compiler.step.read.memory import forecast_memory
from tests.graphs import graph_of
from tests.support import cloned, refusal_of, spec_of

TEXT = """
  words = input(int32, [{shape}])
  tags = input(int32, [{shape}])
  y = words -> Embedding(200, 16, mask_zero = true, name = "table") -> Dense(5, name = "tag")
  loss = [tags, y] -> SparseCategoricalCrossentropy(from_logits = true)
"""


def placement(shape: str) -> PlacementMap:
    """Return the map of a model, with its forecasts."""
    compiled = graph_of(spec_of(cloned(TEXT.format(shape=shape))))
    return map_placement(compiled, memory=forecast_memory(compiled.sized_step))


def test_forecasts_are_those_of_the_assumed_sizes() -> None:
    """Memory and traffic are equal to the byte, and the map says what it assumes."""
    free, fixed = placement("none], assume = [50"), placement("50")
    memory = [(each.step_bytes, each.memory_bytes) for each in fixed.devices]
    assert [(each.step_bytes, each.memory_bytes) for each in free.devices] == memory
    sent = [(each.from_device, each.to_device, each.bytes, each.bytes_unknown) for each in fixed.transfers]
    assert [(e.from_device, e.to_device, e.bytes, e.bytes_unknown) for e in free.transfers] == sent
    assert all(unknown == 0 for *_, unknown in sent)
    assert fixed.assumptions == ()
    assert free.assumptions == tuple(MapAssumption(name, 0, 50, "`assume`") for name in ("words", "tags"))
    shown = terminal_map(free, View())
    assert "forecasts assume the size 50 for axis 0 of `words` (`assume`)" in shown
    assert "assume" not in terminal_map(fixed, View())


def test_images_of_any_size() -> None:
    """Free axes of images are compiled like those of sequences."""
    text = TEXT.replace("words = input(int32, [{shape}])", "words = input(float32, [none, none, 3])").replace(
        'Embedding(200, 16, mask_zero = true, name = "table")',
        'Conv2D(4, 3, name = "conv") -> BatchNormalization() -> MaxPooling2D() -> GlobalAveragePooling2D()',
    )
    compiled = graph_of(spec_of(cloned(text.format(shape=""))))
    assert [each.assumed for each in compiled.plan.model.inputs[0].free] == [128, 128]
    assert compiled.train_input.batch["words"].shape.as_list() == [8, None, None, 3]


PLACES = """
  places = weight([50, 16])
  shift = weight([16])
  y = FOUND -> Dense(5)"""


def test_a_weight_for_each_position_needs_a_size() -> None:
    """What TensorFlow would find out at the first batch of another size is refused, with the axis named."""
    text = TEXT.format(shape="none").replace(' -> Dense(5, name = "tag")', PLACES)
    text = cloned(text.replace("  y = words", "  table = words"))
    found = refusal_of(lambda: graph_of(spec_of(text.replace("FOUND", "table + places"))))
    assert (found.code, found.message) == ("TFD506", "`add` cannot be applied here")
    assert found.text == "gets `[?, 16]` and `[50, 16]`"
    assert [each.text for each in found.labels] == ["axis 0 of `words` has no fixed size"]
    for fits in ("table[:, :50] + places", "table * places[:, :1] + shift"):
        graph_of(spec_of(text.replace("FOUND", fits)))
