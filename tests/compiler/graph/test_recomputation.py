"""`recompute = memory(...)`: as little as brings the forecast below the limit, and nothing else."""

from functools import cache
from typing import Any

import pytest

from compiler.graph.build import compile_step
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.tower.recompute import SCOPE
from compiler.pipeline import make_plan
from compiler.report.terminal import headline
from compiler.step.read.memory import forecast_memory
from tests.compiler.graph.tower.test_recompute import chain, trained
from tests.support import cloned, marked, spec_of

FORMS: dict[str, Any] = {"blocks": 4, "width": 64, "batch": 64, "devices": 1}


@cache
def needed(recompute: str) -> tuple[int, Any]:
    """Return what the device of a chain needs for a step, and its compiled step."""
    compiled = compile_step(make_plan(chain(recompute, **FORMS)))
    (device,) = map_placement(compiled, memory=forecast_memory(compiled.step)).devices
    assert device.memory_bytes is not None
    return device.memory_bytes, compiled


def again(compiled: Any) -> int:
    """Return how many ops are computed again."""
    return sum(name.startswith(f"{SCOPE}/") for name in compiled.ledger.entries)


def test_the_limit_holds_at_the_least_cost() -> None:
    """Nothing is done for a limit that holds anyway; the lower the limit, the more is computed again."""
    whole, plain = needed("none")
    assert plain.plan.recomputed is None
    assert again(needed(f"memory({whole}B)")[1]) == 0
    found, before = [], 0
    for part in (0.8, 0.6):
        limit = int(part * whole)
        peak, compiled = needed(f"memory({limit}B)")
        told = compiled.plan.recomputed
        assert peak <= limit
        assert told.kept_bytes < limit
        assert 0 < told.flops_again < 0.5 * told.flops
        assert compiled.warnings == ()
        assert again(compiled) > before
        before = again(compiled)
        found.append(told.flops_again)
    assert found == sorted(found)
    (line,) = (each for each in headline(map_placement(compiled)) if "again" in each)
    assert f"{told.segments} segments computed again" in line


def test_a_limit_that_nothing_reaches_is_said_where_it_stands() -> None:
    """The least that was found is what is built, and a warning says how much that is."""
    whole, _ = needed("none")
    peak, compiled = needed("memory(1KB)")
    (warning,) = compiled.warnings
    assert (warning.code, warning.severity.value) == ("TFD530", "warning")
    assert marked(warning) == "memory(1KB)"
    assert peak < 0.6 * whole


UNET = """
  x = input(float32, [32, 32, 1])
  y = input(float32, [32, 32, 1])
  a = x -> Conv2D(4, 3, padding = same, activation = relu)
  b = a -> MaxPooling2D(2) -> Conv2D(4, 3, padding = same, activation = relu)
  c = b -> MaxPooling2D(2) -> Conv2D(4, 3, padding = same, activation = relu) -> UpSampling2D(2)
  d = [b, c] -> Concatenate() -> Conv2D(4, 3, padding = same, activation = relu) -> UpSampling2D(2)
  e = [a, d] -> Concatenate() -> Conv2D(1, 3, padding = same)
  loss = [y, e] -> MeanSquaredError()
"""


@pytest.mark.parametrize("wanted", ["memory(1KB)", 'scopes("*")'])
def test_skip_connections_never_make_it_worse(wanted: str) -> None:
    """What crosses segments is kept as it was, and a choice that needs more is not taken."""
    found = []
    for recompute in ("none", wanted):
        step = compile_step(make_plan(spec_of(cloned(UNET, 1, batch=16), update__recompute=recompute))).step
        found.append(forecast_memory(step)["cpu[0]"].bytes)
    assert found[1] <= found[0]


@pytest.mark.usefixtures("deterministic_ops")
def test_weights_are_the_same_bits_with_a_limit() -> None:
    """Whatever the search has chosen."""
    plain, losses, _ = trained("none")
    found, after, some = trained("memory(1KB)")
    assert (found, after) == (plain, losses)
    assert some > 0


BEFORE = """
  x = input(float32, [16])
  y = input(float32, [16])
  z = x -> repeat(4, block())
  loss = [y, z] -> MeanSquaredError()
"""
NORMALIZED = """
layer "block" {
  x = input()
  inner = x -> LayerNormalization() -> Dense(64, activation = gelu) -> Dense(16)
  output = [x, inner] -> Add()
}
"""


def test_cuts_within_a_normalization_save_as_much() -> None:
    """Its gradient begins with ops that take nothing of what comes back, but wait for it."""
    text = cloned(BEFORE, 1, batch=64, update="optimizer = SGD(0.1), recompute = memory(1KB)") + NORMALIZED
    found = compile_step(make_plan(spec_of(text))).plan.recomputed
    assert found.saved_bytes > found.kept_bytes


RESIDUAL = """
tfdeploy = 1
layer "block" {
  x = input()
  inner = x -> Conv2D(8, 3, padding = same) -> BatchNormalization() -> Activation(relu)
    -> Conv2D(16, 3, padding = same) -> BatchNormalization(name = "last")
  output = [x, inner] -> Add() -> Activation(relu)
}
model "residual" {
  x = input(float32, [8, 8, 16])
  y = input(int32, [])
  z = x -> repeat(4, block()) -> GlobalAveragePooling2D() -> Dense(10)
  loss = [y, z] -> SparseCategoricalCrossentropy(from_logits = true)
  regularize = L2(0.001)
}
devices { cpu = 1 }
clones { batch = 8 }
update { optimizer = SGD(0.1) }
"""


def test_what_is_not_needed_again_is_not_there() -> None:
    """Gradients of regularizers come when they are due; of a normalisation, moments are kept."""
    peaks, steps = [], []
    for recompute in ("none", 'scopes("block*")'):
        compiled = compile_step(make_plan(spec_of(RESIDUAL, update__recompute=recompute)))
        steps.append(compiled.ledger.ops)
        peaks.append(forecast_memory(compiled.step)["cpu[0]"].bytes)
    assert peaks[1] < 0.5 * peaks[0]
    plain, tied = ([op.waits for name, op in ops.items() if name.endswith("/slope")] for ops in steps)
    assert len(plain) == len(tied) == 9
    assert not any(plain)
    assert all(tied)
    again = {name.rpartition("/")[0] for name in steps[1] if name.startswith(f"{SCOPE}/block")}
    assert any(name.endswith("/batch_normalization") for name in again)
    assert not any(name.endswith("/last") for name in again)
