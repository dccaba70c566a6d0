"""Clones that compute layers again do what one tower does that computes nothing again."""

from __future__ import annotations

import pytest

from tests.support import spec_of
from tfdeploy.runtime.verify.session import Options, Verification

MODEL = """
tfdeploy = 1
layer "block" {{
  x = input()
  inner = x -> Conv2D(6, 3, padding = same, use_bias = false) {normalised} -> Activation(gelu)
    -> Conv2D(3, 3, padding = same)
  output = [x, inner] -> Add()
}}
model "small" {{
  image = input(float32, [4, 4, 3])
  digit = input(int32, [])
  logits = image -> repeat(3, block()) -> Flatten() -> Dense(4)
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
  regularize = L2(0.01)
}}
data {{
  train = synthetic(256, image = feature(float32, [4, 4, 3]), digit = feature(int32, classes = 4))
}}
update {{ {update} }}
train {{ seed = 3 }}
"""
NORMALISED = "-> BatchNormalization()"
SPECS = {
    "scopes": ("-> LayerNormalization()", 'optimizer = Adam(0.01), recompute = scopes("block*")'),
    "memory": ("", "optimizer = Momentum(0.1, momentum = 0.9), recompute = memory(1KB)"),
    "synchronized": (NORMALISED, "optimizer = SGD(0.1), batch_norm = synchronized"),
    "mean": (NORMALISED, "optimizer = SGD(0.1), batch_norm = mean, ema = 0.9"),
    "accumulated": ("", "optimizer = Adam(0.01), accumulate = 2, clip = global_norm(0.5)"),
    "float16": ("", "optimizer = SGD(0.1), precision = mixed_float16"),
    "bfloat16": ("", "optimizer = SGD(0.1), precision = mixed_bfloat16, reduce = sum"),
}


@pytest.mark.full
@pytest.mark.parametrize("name", SPECS)
def test_all_combinations_agree_with_one_that_keeps_all(name: str) -> None:
    """In every mode that there is, aggregation and placement, for two clones and three."""
    normalised, update = SPECS[name]
    if "recompute" not in update:
        update += ', recompute = scopes("block*")'
    spec = spec_of(MODEL.format(normalised=normalised, update=update))
    verification = Verification(spec, Options(steps=2, quick=True))
    cases = verification.selected.cases
    found = [*verification.outcomes()]
    assert len(found) == len(cases) > 3
    assert {each.mode for each in cases} >= {"sync"}
    for each in found:
        assert each.differences.largest <= verification.tolerance, each.case.title
