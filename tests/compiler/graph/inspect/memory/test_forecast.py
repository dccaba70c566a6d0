"""Memory forecasts: variables and slots to the byte, the peak of a step near what the allocator counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import tensorflow as tf

import grammar
from compiler.conditions.capacity import forecast_if_needed
from compiler.graph.build import compile_graph
from compiler.graph.inspect.mapping.placement_map import map_placement
from compiler.graph.inspect.memory import forecast
from compiler.graph.inspect.memory.forecast import forecast_step_memory
from compiler.pipeline import make_plan
from compiler.step.read.ops import step_ops
from dsl.diagnostics import SpecError
from tests.allocations import peak_of_tensors
from tests.compiler.step.read.test_transfers import (
    CIFAR,
    DIGITS,
    SEVERAL,
    SEVERAL_DATA,
    WAITING,
    made_up,
)
from tests.folders import EXAMPLES
from tests.support import Training, classifier, spec_of


def measured_peaks(training: Training) -> dict[str, int]:
    """Return, by device of the session, the most bytes of tensors that a step had at once."""
    compiled = training.compiled
    metadata = tf.compat.v1.RunMetadata()
    options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
    training.session.run([compiled.data_loss, compiled.train_op], options=options, run_metadata=metadata)
    return {device.device: peak_of_tensors(device.node_stats) for device in metadata.step_stats.dev_stats}


@pytest.mark.parametrize(
    ("name", "inputs", "towers"),
    [
        ("digits", DIGITS, ["cpu[1]"]),
        pytest.param("cifar10", CIFAR, ["gpu[0]", "gpu[1]", "gpu[2]"], marks=pytest.mark.full),
    ],
)
def test_peak_of_a_step_is_near_what_the_allocator_counts(name: str, inputs: Any, towers: list[str]) -> None:
    """For the devices of towers: not below a tenth less, and at most two thirds more."""
    spec = grammar.load(EXAMPLES / f"{name}.tfdeploy")
    with Training(spec, made_up(spec, inputs), emulate=True) as training:
        training.steps(2)
        peaks = measured_peaks(training)
        memory = forecast_step_memory(training.compiled)
        for device in map_placement(training.compiled, memory=memory).devices:
            assert device.step_bytes is not None
            if device.ref in towers:
                assert 0.9 <= device.step_bytes / peaks[device.device] <= 1.7
            else:  # one process shares what real devices would each have a copy of
                assert device.step_bytes >= peaks[device.device]


@pytest.mark.full
@pytest.mark.parametrize(
    "rules", ["variables -> replicated", "variables -> balanced(cpu[*])\n slots -> cpu[5]"]
)
def test_bytes_of_variables_and_slots_are_exact(rules: str) -> None:
    """What the map says of each device is what the values of its variables take, copies and averages too."""
    spec = spec_of(SEVERAL.format(rules=rules), update__ema="0.9")
    with Training(spec, made_up(spec, SEVERAL_DATA)) as training:
        training.steps(1)
        compiled = training.compiled
        devices = map_placement(compiled).devices
        reads = []
        for op in compiled.graph.get_operations():
            if op.type == "VarHandleOp":
                with compiled.graph.as_default(), tf.device(op.device):
                    value = tf.raw_ops.ReadVariableOp(resource=op.outputs[0], dtype=op.get_attr("dtype"))
                reads.append(value)
        held: Counter[str] = Counter()
        for read, value in zip(reads, training.session.run(reads), strict=True):
            held[read.op.device] += value.nbytes
    assert {each.device: each.variable_bytes + each.slot_bytes + each.other_bytes for each in devices} == {
        each.device: held[each.device] for each in devices
    }
    assert sum(each.slot_bytes for each in devices) > 0


@pytest.mark.full
def test_memory_is_forecast_for_devices_that_are_not_there() -> None:
    """Three GPUs, emulated or only declared, need the same; nothing is forecast unless asked for."""
    spec = grammar.load(EXAMPLES / "cifar10.tfdeploy")
    forecasts = []
    for emulate in (False, True):
        compiled = compile_graph(make_plan(spec, emulate=emulate))
        assert {(each.step_bytes, each.memory_bytes) for each in map_placement(compiled).devices} == {
            (None, None)
        }
        memory = forecast_step_memory(compiled)
        forecasts.append(
            [
                (each.ref, each.step_bytes, each.largest)
                for each in map_placement(compiled, memory=memory).devices
            ]
        )
        for each in map_placement(compiled, memory=memory).devices:
            held = each.variable_bytes + each.slot_bytes + each.other_bytes
            assert each.memory_bytes == held + (each.step_bytes or 0)
    assert forecasts[0] == forecasts[1]


@pytest.mark.full
def test_memory_grows_with_the_batch_where_the_towers_are() -> None:
    """Every further 1,024 examples need as much again on the GPUs, beside the variables only themselves."""
    peaks: dict[str, list[int]] = {"gpu[2]": [], "cpu[0]": []}
    for batch in ("1024", "2048", "3072"):
        compiled = compile_graph(
            make_plan(grammar.load(EXAMPLES / "cifar10.tfdeploy", [("clones.batch", batch)]))
        )
        memory = forecast_step_memory(compiled)
        for each in map_placement(compiled, memory=memory).devices:
            if each.ref in peaks:
                peaks[each.ref].append(each.step_bytes or 0)
    first, second, third = peaks["gpu[2]"]
    assert third - second == pytest.approx(second - first, rel=0.02)
    assert second - first > 200_000_000
    examples = 3 * 1024 * 32 * 32 * 3 * 4
    assert peaks["cpu[0]"][1] - peaks["cpu[0]"][0] < 3 * examples


def test_a_device_on_which_nothing_runs_needs_nothing() -> None:
    """Its step is forecast at zero bytes, not at some other number of the simulation."""
    spec = spec_of(SEVERAL.format(rules=""), devices__cpu="9")
    compiled = compile_graph(make_plan(spec, emulate=True))
    memory = forecast_step_memory(compiled)
    idle = map_placement(compiled, memory=memory).devices[8]
    assert (idle.ref, idle.ops, idle.step_bytes, idle.memory_bytes) == ("cpu[8]", 0, 0, 0)


def test_only_reads_that_wait_for_an_update_are_tensors_of_their_own() -> None:
    """What towers read copies nothing; what an average reads after the update counts, old and new."""
    text = WAITING.replace("input(float32, [2])", "input(float32, [500])")
    spec = spec_of(text.replace("Dense(1", 'Dense(400, name = "wide") -> Dense(1'), update__ema="0.9")
    compiled = compile_graph(make_plan(spec))
    memory = forecast_step_memory(compiled)
    (cpu, *_) = map_placement(compiled, memory=memory).devices
    kernel = 500 * 400 * 4
    large = {each.name for each in cpu.largest if each.bytes == kernel}
    reads = {f"update/wide/kernel/ReadVariableOp{suffix}:0" for suffix in ("", "_1")}
    assert reads < large
    assert "wide/kernel/read:0" not in large
    assert cpu.step_bytes is not None
    assert 3 * kernel <= cpu.step_bytes < 4 * kernel


def test_a_simulation_without_room_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow would be ended by the system in the midst of it, so that it is never begun."""
    compiled = compile_graph(make_plan(classifier(layers="", devices__cpu_memory="1GiB")))
    ops = len(step_ops(compiled.step))
    monkeypatch.setattr(forecast, "memory_left", lambda: 40_000 * ops)
    assert forecast_step_memory(compiled).keys() == {"cpu[0]", "cpu[1]"}
    monkeypatch.setattr(forecast, "memory_left", lambda: 40_000 * ops - 1)
    with pytest.raises(SpecError) as caught:
        forecast_if_needed(compiled)
    (found,) = caught.value.diagnostics
    assert found.code == "TFD546"
    assert found.message.startswith(f"to forecast the memory of a step of {ops:,} ops takes about ")
    assert found.span is not None
    assert found.span.text == "2"
