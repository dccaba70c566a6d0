"""A condition of memory that fails names `recompute` if that would make it hold."""

from __future__ import annotations

import pytest
from attrs import evolve

from compiler.conditions import require_expectations
from compiler.graph.build import compile_step
from compiler.pipeline import make_plan
from compiler.step.read.memory import forecast_memory
from dsl import ir
from tests.compiler.graph.tower.test_recompute import chain
from tests.support import refusal_of


@pytest.mark.parametrize(
    ("limit", "written", "advice"),
    [(6_000_000, "6MB", "`update { recompute = memory(6MB) }`"), (20_000, "20KB", "smaller batches")],
)
def test_the_setting_is_named_only_if_it_suffices(limit: int, written: str, advice: str) -> None:
    """The limit is that of the condition; if nothing reaches that, the help is the one of others."""
    spec = chain("none", blocks=4, width=64, batch=64)
    condition = ir.Condition(
        "memory", (ir.DeviceSet((ir.DevicePattern("cpu"),)),), "<=", limit, f"memory(cpu[*]) <= {written}"
    )
    compiled = compile_step(make_plan(evolve(spec, expect=ir.Expect((condition,)))))
    found = refusal_of(lambda: require_expectations(compiled, forecast_memory(compiled.step)))
    assert found.code == "TFD532"
    assert advice in (found.help or "")
    assert ("recompute" in (found.help or "")) == (limit > 100_000)
