"""Weights that a layer gives other values in its forward pass, to which their gradients are applied then."""

import pytest
from attrs import evolve

from compiler.graph.build import compile_step
from compiler.pipeline import make_plan
from dsl import ir
from tests.support import refusal_of, spec_of
from tfdeploy.runtime.verify import Options, Verification
from tfdeploy.runtime.verify.cases import SLOTS_SHARDED, Case

NORMED = """
tfdeploy = 1
model "normed" {
  x = input(float32, [6])
  y = input(int32, [])
  z = x -> SpectralNormalization(Dense(5, activation = tanh, kernel_constraint = NonNeg())) -> Dense(3)
  loss = [y, z] -> SparseCategoricalCrossentropy(from_logits = true)
  regularize = L2(0.01)
}
data { train = synthetic(200, x = feature(float32, [6]), y = feature(int32, [], classes = 3)) }
update { optimizer = Adam(0.05), accumulate = 2, ema = 0.5 }
train { seed = 1 }
"""
ADD, RING = ir.Call("add_n"), ir.Call("ring")
CASES = (
    Case("sync", RING, "sharded", (15, 9)),
    Case("sync", RING, "replicated", (15, 9)),
    Case("sync", ADD, SLOTS_SHARDED, (12, 12)),
    Case("async", ADD, "spread", (15, 9)),
    Case("local", ADD, "replicated", (12, 12)),
)


@pytest.mark.full
def test_their_gradients_are_applied_to_the_values_that_they_were_given() -> None:
    """Clones in every mode end with the weights, slots and averages of single towers."""
    found = Verification(spec_of(NORMED), Options(steps=3, synthetic=True))
    found.selected = evolve(found.selected, cases=CASES)
    differences = [each.differences.largest for each in found.outcomes()]
    assert len(differences) == len(CASES)
    assert max(differences) < 1e-5, differences


def test_workers_that_send_gradients_alone_refuse_them() -> None:
    """The message names such a weight, and verify leaves these combinations out."""
    workers = 'devices { job "worker" { tasks = 2 } }\nclones { count = 2 }\nupdate {'
    spec = spec_of(NORMED.replace("update {", workers))
    found = refusal_of(lambda: compile_step(make_plan(spec, emulate=True)))
    assert (found.code, found.notes[-1]) == (
        "TFD528",
        "`spectral_normalization/dense/kernel` is such a weight",
    )
    selected = Verification(spec_of(NORMED), Options(synthetic=True)).selected
    assert not any(each.between for each in selected.cases)
