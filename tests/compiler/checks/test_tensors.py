"""Tensors that are too large are refused from the spec alone, before anything is allocated."""

from __future__ import annotations

import pytest

from compiler.checks.shapes import tensors_can_be_held
from compiler.topology import declare
from tests.support import marked, spec_of

WIDE = """
tfdeploy = 1
model "net" {{
  x = input(float32, [{size}])
  label = input(float32, [4])
  z = x -> {layer} -> Dense(4)
  loss = [label, z] -> MeanSquaredError()
}}
devices {{ cpu = 2 }}
clones {{ count = 2, {clones} }}
update {{ optimizer = SGD(0.1){update} }}
"""


@pytest.mark.parametrize(
    ("size", "clones", "update", "layer", "place"),
    [
        (2**31 - 1, "batch = 1", "", "Dense(4)", None),
        (2**31, "batch = 1", "", "Dense(4)", "x"),
        (2**30, "batch = 2", "", "Dense(4)", "2"),
        (2**30, "batch = [1, 2]", "", "Dense(4)", "[1, 2]"),
        (2**30, "global_batch = 4", "", "Dense(4)", "4"),
        (2**30, "global_batch = 4", ", accumulate = 2", "Dense(4)", None),
        (4, f"batch = {2**29 - 1}", "", "Dense(4)", None),
        (4, f"batch = {2**29}", "", "Dense(4)", str(2**29)),
        (4, f"batch = {10**18}", "", "Dense(4)", str(10**18)),
        (4, f"batch = {2**28 - 1}", "", "Dense(8)", None),
        (4, f"batch = {2**28}", "", "Dense(8)", str(2**28)),
        (4, "batch = 2", "", f"Dense({10**12})", f"Dense({10**12})"),
    ],
)
def test_the_most_that_can_be_counted(
    size: int, clones: str, update: str, layer: str, place: str | None
) -> None:
    """The largest batch of a clone counts, in one micro-batch; inputs are tensors as well."""
    spec = spec_of(WIDE.format(size=size, clones=clones, update=update, layer=layer))
    found = list(tensors_can_be_held(spec, declare(spec.devices, 0)))
    assert [each.code for each in found] == ["TFD506"] * (place is not None)
    for each in found:
        assert place is not None
        assert marked(each) != ""
        assert marked(each).startswith(place)
