"""Pipelines: micro-batches that pass from device to device of a clone's group are those of a loop."""

from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve

from compiler.graph.build import compile_step
from compiler.graph.inspect.one_step import read_assigned
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.session_options import session_config
from compiler.graph.stamp.pipeline import passes
from compiler.pipeline import make_plan
from compiler.report.terminal import headline, step_time
from compiler.report.view import View
from compiler.step.read.memory import forecast_memory
from compiler.step.read.work import forecast_time
from dsl import ir
from tests.compiler.graph.test_structure import expect_records_of
from tests.graphs import graph_of
from tests.models import data, model
from tests.support import Training, marked, refusal_of
from tfdeploy.runtime.session.engine import peak_of_tensors

STAGES = 'clones -> groups(cpu[*], size = 2)\nops("hidden/*") -> group[1]'
MEASURED = 4
"""Steps of which the lowest peak counts: which updates run at the same time at the end is chance."""

LAYERS = {
    "dense": '-> Flatten() -> Dense(8, activation = tanh, name = "first") -> Dropout(0.2)'
    ' -> Dense(8, activation = tanh, name = "hidden") -> Dropout(0.2)',
    "normal": '-> Conv2D(4, 3, use_bias = false, name = "conv") -> BatchNormalization(name = "norm")'
    ' -> ReLU() -> Flatten() -> Dense(8, name = "hidden") -> BatchNormalization(name = "late")',
    "words": '-> Embedding(40, 4, name = "table") -> Flatten() -> Dense(8, name = "hidden")',
    "recurrent": '-> Embedding(40, 4, name = "table") -> LSTM(5, name = "lstm") -> Dense(8, name = "hidden")',
}


def piped(schedule: str, kind: str = "dense", *, clones: int = 2, place: str = STAGES, **more: Any) -> Any:
    """Return the spec of clones on pairs of devices with four micro-batches."""
    settings = {"batch": 3, "devices": 2 * clones, "layers": LAYERS[kind], "update__accumulate": "4", **more}
    return model(kind, clones=clones, place=place, update__schedule=schedule, **settings)


def trained(kind: str, schedule: str, **more: Any) -> tuple[dict[str, bytes], list[float]]:
    """Return the bits of all variables after three steps, and the losses before each."""
    with Training(piped(schedule, kind, **more), data(kind, 3 * 24)) as training:
        losses = training.steps(3)
        return {name: value.tobytes() for name, value in training.values().items()}, losses


def test_threads_of_stages_on_cpus_do_not_look_for_work_in_vain() -> None:
    """They would take cores from other stages; GPUs leave the cores to them."""
    gpus = {"place": STAGES.replace("cpu", "gpu"), "devices__cpu": "1", "devices__gpu": "4"}
    plans = [make_plan(piped(each, **more)) for each, more in [("none", {}), ("gpipe", {}), ("gpipe", gpus)]]
    configs = [session_config(each) for each in plans]
    assert [each.experimental.disable_thread_spinning for each in configs] == [False, True, False]


@pytest.mark.family(every=12)
@pytest.mark.usefixtures("deterministic_ops")
@pytest.mark.parametrize("schedule", ["one_f_one_b", "gpipe"])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("dense", {"optimizer": "Adam(0.01)", "update__clip": "global_norm(0.1)"}),
        ("normal", {"update__batch_norm": "mean", "update__recompute": 'scopes("*")'}),
        ("words", {"place": f"{STAGES}\nvariables -> sharded(cpu[*])"}),
        ("recurrent", {"update__mode": "local", "update__average_every": "2"}),
        ("recurrent", {"update__recompute": "memory(1KB)"}),
        ("words", {"update__precision": "mixed_float16"}),
        ("dense", {"place": f"{STAGES}\nvariables -> replicated", "update__aggregate": "ring"}),
    ],
)
def test_numbers_are_those_of_a_loop_bit_for_bit(kind: str, schedule: str, settings: dict[str, str]) -> None:
    """Weights, slots, statistics and losses, with dropout, rows, cut variables and recomputation."""
    expected, losses = trained(kind, "none", **settings)
    found, piped_losses = trained(kind, schedule, **settings)
    assert piped_losses == losses
    assert found == expected


@pytest.mark.parametrize(("stages", "count"), [(1, 1), (2, 1), (2, 8), (3, 8), (4, 2), (5, 5)])
def test_a_stage_holds_no_more_micro_batches_than_its_schedule_says(stages: int, count: int) -> None:
    """Each pass comes once, forward before backward; `one_f_one_b` holds one for each stage from here on."""
    for stage in range(stages):
        behind = stages - 1 - stage
        for schedule, most in (("gpipe", count), ("one_f_one_b", min(behind + 1, count))):
            order = [*passes(schedule, behind, count)]  # type: ignore[arg-type]
            held, highest = 0, 0
            for kind, _ in order:
                held += 1 if kind == "forward" else -1
                highest = max(highest, held)
            assert highest == most
            for kind in ("forward", "backward"):
                assert [number for each, number in order if each == kind] == [*range(count)]


@pytest.mark.parametrize("schedule", ["one_f_one_b", pytest.param("gpipe", marks=pytest.mark.full)])
def test_devices_take_passes_in_the_order_of_the_schedule(schedule: str) -> None:
    """Each pass begins when that before it has ended on its device, as TensorFlow has really run them."""
    with Training(piped(schedule, clones=1), data("dense", 24)) as training:
        metadata = training.traced()
        placement = map_placement(training.compiled, read_assigned(training.compiled.graph, metadata))
    assert placement.misplaced == ()
    roles = {each.name: each.role for each in placement.ops}
    for stage in (0, 1):
        (device,) = (each for each in metadata.step_stats.dev_stats if each.device.endswith(f"CPU:{stage}"))
        spans: dict[tuple[str, int], list[int]] = {}
        for node in device.node_stats:
            micro, _, inner = node.node_name.partition("/")
            weighs = inner.startswith(("first/MatMul", "hidden/MatMul", "logits/MatMul", "gradients/"))
            if not micro.startswith("micro_") or not weighs:
                continue
            kind = "backward" if roles[node.node_name] == "gradient" else "forward"
            begin, end = node.all_start_micros, node.all_start_micros + node.op_end_rel_micros
            span = spans.setdefault((kind, int(micro.removeprefix("micro_"))), [begin, end])
            span[:] = min(span[0], begin), max(span[1], end)
        ordered = sorted(spans, key=lambda each: spans[each][0])
        assert ordered == [*passes(schedule, 1 - stage, 4)]  # type: ignore[arg-type]
        for before, after in pairwise(ordered):
            assert spans[before][1] <= spans[after][0]


def test_a_stage_goes_on_until_a_rule_begins_the_next() -> None:
    """What comes after a layer on `group[1]` is there too; gradients are where their forward ops are."""
    compiled = compile_step(make_plan(piped("gpipe")))
    entries = compiled.ledger.entries
    for clone in (0, 1):
        scope = f"clone_{clone}/micro_3"
        first, second = f"cpu[{2 * clone}]", f"cpu[{2 * clone + 1}]"
        for inner, ref in (
            ("first/MatMul", first),
            ("dropout/stateless_dropout/SelectV2", first),
            ("hidden/MatMul", second),
            ("dropout_1/stateless_dropout/SelectV2", second),
            ("logits/MatMul", second),
            ("gradients/logits/MatMul_grad/MatMul", second),
            ("gradients/hidden/MatMul_grad/MatMul_1", second),
            ("gradients/first/MatMul_grad/MatMul_1", first),
        ):
            assert entries[f"{scope}/{inner}"].device.ref == ref, inner
        reason = entries[f"{scope}/logits/MatMul"].placed.reason
        assert (reason.kind, reason.rule is not None) == ("follows", True)
        assert reason.text.startswith("hidden/")


@pytest.mark.full
@pytest.mark.parametrize("recompute", ["none", 'scopes("*")'])
def test_activations_are_bounded_as_forecast_and_measured(recompute: str) -> None:
    """The first of two stages holds two micro-batches with `one_f_one_b`, and all eight with `gpipe`."""
    peaks: dict[str, list[int]] = {}
    for schedule in ("none", "one_f_one_b", "gpipe"):
        layers = "-> Flatten()" + "".join(
            f' -> Dense(256, activation = tanh, name = "{each}")' for each in ("a", "b", "hidden", "d")
        )
        spec = piped(
            schedule, clones=1, layers=layers, batch=128, update__accumulate="8", update__recompute=recompute
        )
        with Training(spec, data("dense", 8 * 128)) as training:
            training.steps(1)
            measured = min(_peak(training) for _ in range(MEASURED))
            peaks[schedule] = [forecast_memory(training.compiled.step)["cpu[0]"].bytes, measured]
    layer = 128 * 256 * 4
    for at, what in enumerate(("forecast", "measured")):
        loop, one, all_of_them = (peaks[each][at] for each in ("none", "one_f_one_b", "gpipe"))
        assert one < loop + 5 * layer, what
        assert all_of_them > one + 6 * layer, what
    for schedule in ("one_f_one_b", "gpipe"):
        forecast, measured = peaks[schedule]
        assert 0.75 < forecast / measured < 1.5


def _peak(training: Training) -> int:
    """Return the most bytes of tensors on the first device in a step."""
    (device,) = (each for each in training.traced().step_stats.dev_stats if each.device.endswith("CPU:0"))
    return peak_of_tensors(device.node_stats)


def test_plan_says_how_long_stages_wait() -> None:
    """The share that follows from the schedule, and that of the forecast, in which a step is shorter."""
    layers = "-> Flatten()" + "".join(
        f' -> Dense(512, activation = tanh, name = "{each}")' for each in ("a", "b", "hidden", "d")
    )
    seconds = {}
    for schedule in ("none", "one_f_one_b"):
        spec = piped(schedule, clones=1, layers=layers, batch=4096, place=f'{STAGES}\nops("d/*") -> group[1]')
        devices = evolve(spec.devices, cpu=1, gpu=2, kind="v100")
        gpus = ir.Groups(ir.DeviceSet((ir.DevicePattern("gpu"),)), 2)
        rules = (evolve(spec.place.rules[-3], target=gpus), *spec.place.rules[-2:])
        compiled = compile_step(make_plan(evolve(spec, devices=devices, place=ir.Place(rules))))
        time = forecast_time(compiled.step, None)
        seconds[schedule] = time.seconds
        found = map_placement(compiled, time=time.for_map())
        lines = "\n".join([*headline(found), *step_time(found, View())])
        assert (found.mode.pipelined is None) == (schedule == "none")
    assert found.mode.pipelined.bubble == pytest.approx(1 / 5)
    assert (
        "one_f_one_b over 2 stages: at most 2 of 4 micro-batches under way, 20% of the time waiting" in lines
    )
    assert 0.2 < found.time.bubble < 0.9
    assert f"the stages of its pipelines wait {found.time.bubble:.0%} of the time" in lines
    assert seconds["one_f_one_b"] < seconds["none"]


def test_the_record_is_that_of_the_graph() -> None:
    """Shapes are those that TensorFlow finds out."""
    expect_records_of(graph_of(piped("one_f_one_b", "words")))


def test_a_layer_that_goes_back_is_refused_at_its_line() -> None:
    """Its device comes before that of what it takes."""
    rules = 'ops("first/*") -> group[1]\nops("hidden/*") -> group[0]'
    found = refusal_of(
        lambda: compile_step(make_plan(piped("gpipe", place=f"clones -> groups(cpu[*], size = 2)\n{rules}")))
    )
    assert found.code == "TFD519"
    assert found.message.startswith("`hidden` on `group[0]` takes what `first` on `group[1]` makes, so that")
    assert marked(found) == 'Dense(8, activation = tanh, name = "hidden")'
    assert [each.span.text for each in found.labels] == ['ops("hidden/*") -> group[0]']


def test_a_single_stage_is_warned_of() -> None:
    """It trains all the same, and `suggest` can find stages for it."""
    compiled = compile_step(make_plan(piped("gpipe", place="clones -> groups(cpu[*], size = 2)")))
    (found,) = compiled.warnings
    assert (found.code, found.is_error) == ("TFD519", False)
    assert found.message == "all ops of a clone are on `cpu[0]`, so that `schedule` has no stages"
    assert marked(found) == "gpipe"
