"""Tensors that are too large are refused from the spec alone, before anything is allocated."""

from __future__ import annotations

import pytest

from compiler.pipeline import make_plan
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
