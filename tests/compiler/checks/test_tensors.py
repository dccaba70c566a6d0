"""Tensors that are too large are refused from the spec alone, before anything is allocated."""

from __future__ import annotations

import pytest

from compiler.checks.shapes import tensors_can_be_held
from compiler.pipeline import make_plan
from compiler.topology import declare
from dsl.diagnostics import SpecError
from tests.support import spec_of

TEXT = """
tfdeploy = 1
model "net" {{
  x = input(float32, [4])
  label = input(int32, [])
  z = x -> Dense({units}) -> Dense(2)
  loss = [label, z] -> SparseCategoricalCrossentropy(from_logits = true)
}}
devices {{ cpu = 2 }}
clones {{ count = 2, batch = {batch} }}
update {{ optimizer = SGD(0.1) }}
"""


@pytest.mark.parametrize(
    ("units", "batch", "place"),
    [(8, 10**18, "batch"), (8, 10**9, "batch"), (8, 2**28, "batch"), (10**12, 2, "Dense")],
)
def test_too_large(units: int, batch: int, place: str) -> None:
    """The batch or the layer is named at its place."""
    with pytest.raises(SpecError) as caught:
        make_plan(spec_of(TEXT.format(units=units, batch=batch)), emulate=True)
    (found,) = caught.value.diagnostics
    assert found.code == "TFD506"
    assert found.span is not None
    assert place in found.span.text or found.span.text == str(batch)


def test_largest_that_can_be_counted() -> None:
    """One example less than too many is left to the machine."""
    make_plan(spec_of(TEXT.format(units=8, batch=2**28 - 1)), emulate=True)


WIDE = """
tfdeploy = 1
model "net" {{
  x = input(float32, [{size}])
  label = input(float32, [4])
  z = x -> {layer}
  loss = [label, z] -> MeanSquaredError()
}}
devices {{ cpu = 2 }}
clones {{ count = 2, {clones} }}
update {{ optimizer = SGD(0.1){update} }}
"""


@pytest.mark.parametrize(
    ("size", "clones", "update", "marked"),
    [
        (2**31 - 1, "batch = 1", "", None),
        (2**31, "batch = 1", "", "x"),
        (2**30, "batch = 2", "", "2"),
        (2**30, "batch = [1, 2]", "", "[1, 2]"),
        (2**30, "global_batch = 4", "", "4"),
        (2**30, "global_batch = 4", ", accumulate = 2", None),
        (4, f"batch = {2**29 - 1}", "", None),
        (4, f"batch = {2**29}", "", str(2**29)),
    ],
)
def test_the_most_that_can_be_counted(size: int, clones: str, update: str, marked: str | None) -> None:
    """The largest batch of a clone counts, in one micro-batch; inputs are tensors as well."""
    spec = spec_of(WIDE.format(size=size, clones=clones, update=update, layer="Dense(4)"))
    found = list(tensors_can_be_held(spec, declare(spec.devices, 0)))
    assert [each.code for each in found] == ["TFD506"] * (marked is not None)
    for each in found:
        assert each.span is not None
        assert marked is not None
        assert each.span.text.startswith(marked)
