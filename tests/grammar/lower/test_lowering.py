"""What each part of the language becomes in the IR."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import grammar
from dsl import ir
from dsl.diagnostics import SpecError
from grammar.unparse import unparse
from tests.folders import ROOT

SPECS = ROOT / "tests/grammar/specs"
MODEL = 'model "m" {\n  x = input(float32, [1])\n  y = x -> Dense(1)\n  output = y\n}\n'


def read(blocks: str, *, allow_python: bool = False) -> ir.Spec:
    """Return the spec of some blocks and a small model."""
    reading = grammar.read(
        "spec.tfdeploy", text=f"tfdeploy = 1\n{blocks}\n{MODEL}", allow_python=allow_python
    )
    assert reading.spec is not None, [each.message for each in reading.diagnostics]
    return reading.spec


def whole() -> ir.Spec:
    """Return the spec that uses everything."""
    return grammar.load(SPECS / "whole.tfdeploy")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("10 - 4 - 3", 3),
        ("64 / 2 / 4", 8),
        ("- -3", 3),
        ("2 - -3", 5),
        ("1_000", 1000),
        ("two * two", 4),
    ],
)
def test_arithmetic_gives_whole_numbers(written: str, value: int) -> None:
    """Operators bind as in school, from the left, and a division without remainder stays whole."""
    assert read(f"let {{ two = 2, n = {written} }}\nclones {{ count = n }}").clones.count == value


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("16GiB", 16 * 2**30),
        ("16 GiB", 16 * 2**30),
        ("512MB", 512 * 10**6),
        ("2 * 8GiB", 16 * 2**30),
        ("1GiB / 2", 2**29),
        ("1.5kB", 1500),
        ("1GiB - 1KiB", 2**30 - 2**10),
    ],
)
def test_sizes_are_bytes(written: str, size: int) -> None:
    """Units of 1024 and of 1000 go by their names, with or without a space, and can be calculated with."""
    assert read(f"devices {{ gpu = 1, gpu_memory = {written} }}").devices.gpu_memory == size


@pytest.mark.parametrize(
    ("written", "every"),
    [
        ("500", ir.Every(steps=500)),
        ("10min", ir.Every(seconds=600.0)),
        ("1.5h", ir.Every(seconds=5400.0)),
        ("20 ms", ir.Every(seconds=0.02)),
    ],
)
def test_periods_are_steps_or_seconds(written: str, every: ir.Every) -> None:
    """A plain number counts steps, a number with a unit is a time."""
    assert read(f"train {{ checkpoint_every = {written} }}").train.checkpoint_every == every


def test_words_may_be_quoted_and_come_from_constants() -> None:
    """A word is a bare name, a string, or a constant that is a string; a name that is a word is that word."""
    update = read(
        'let { reduce = "sum", sync = 3 }\nupdate { mode = sync, reduce = reduce, batch_norm = "mean" }'
    )
    assert (update.update.mode, update.update.reduce, update.update.batch_norm) == ("sync", "sum", "mean")


def test_newlines_and_commas_separate_items() -> None:
    """Items end at a newline or a comma; brackets and arrows go over lines; trailing commas are allowed."""
    spec = read(
        "clones { count = 2, batch = [\n  1,\n  2,\n], }\n"
        'data {\n  train = csv(\n    "a.csv",\n    x = "x",\n  )\n    # between\n\n    -> cache()\n}\n'
    )
    assert spec.clones == ir.Clones(count=2, batch=(1, 2))
    assert spec.data.train.transforms == (ir.Call("cache"),)


def test_strings_know_four_escapes() -> None:
    """A newline, a tab, a quote and a backslash are written with a backslash."""
    assert (
        read(r'train { directory = "a\n\t\"\\b # no comment" }').train.directory == 'a\n\t"\\b # no comment'
    )


def test_layer_blocks_keep_their_parameters() -> None:
    """Parameters stay names, arithmetic on them stays a tree, and everything else is folded."""
    residual, stage = whole().layers
    assert residual.parameters == (
        ir.LayerParameter("filters", "int"),
        ir.LayerParameter("stride", "int", 1, has_default=True),
        ir.LayerParameter("act", "string", "relu", has_default=True),
    )
    assert residual.bindings[0] == ir.Binding("x", ir.Input(None, None))
    first, second = stage.output.steps
    doubled = ir.Arithmetic("*", ir.Parameter("filters"), 2)
    assert first == ir.Step("block", ir.Call("residual", (doubled,), {"stride": 2}))
    assert (second.kind, second.count) == ("repeat", 2)
    assert second.inner == ir.Step("block", ir.Call("residual", (doubled,)))


def test_shared_layers_are_bound_once_and_used_by_name() -> None:
    """`layer(...)` makes a layer, and a step with its name uses it."""
    bindings = {each.name: each.value for each in whole().model.bindings}
    assert bindings["embed"].step.call.kwargs["kernel_initializer"] == ir.Call("HeNormal", (), {"seed": 1})
    assert bindings["twin"].steps[-1] == ir.Step("shared", ir.Call("embed"))


def test_losses_are_added_with_weights() -> None:
    """A sum of flows is several losses, and a number before one is its weight; subtracting negates it."""
    assert [term.weight for term in whole().model.loss] == [1.0, 0.4]
    loss = "(A) - 0.5 * (A) * 2 + (A) / 4".replace("A", "[x, y] -> MeanSquaredError()")
    spec = grammar.read("s", text="tfdeploy = 1\n" + MODEL.replace("output = y", f"loss = {loss}")).spec
    assert [term.weight for term in spec.model.loss] == [1.0, -1.0, 0.25]


def test_bindings_may_stand_in_any_order() -> None:
    """Bindings come out in the order in which they need each other, otherwise as they were written."""
    text = 'tfdeploy = 1\nmodel "m" {\n  output = c\n  c = b -> Dense(1)\n  b = a -> Dense(1)\n'
    spec = grammar.read("s", text=f"{text}  a = input(float32, [1])\n}}\n").spec
    assert [binding.name for binding in spec.model.bindings] == ["a", "b", "c"]


def test_several_bindings_may_leave_their_first_output_unnamed() -> None:
    """They are all kept, in an order in which each comes after what it needs."""
    model = 'model "m" {\n' + "".join(
        f"  {line}\n"
        for line in (
            "output = [h, c, last] -> Concatenate() -> Dense(1)",
            "_, last = again -> GRU(2, return_state = true)",
            "_, h, c = x -> LSTM(4, return_state = true)",
            "again, _, _ = x -> LSTM(5, return_state = true)",
            "x = input(float32, [5, 3])",
        )
    )
    reading = grammar.read("spec.tfdeploy", text=f"tfdeploy = 1\n{model}}}\n")
    assert reading.spec is not None, [each.message for each in reading.diagnostics]
    names = [(each.name, *each.others) for each in reading.spec.model.bindings]
    assert names == [("x",), ("again", "_", "_"), ("_", "last"), ("_", "h", "c")]


def test_tensors_may_be_called_as_blocks_are() -> None:
    """A tensor called `model`, `gpu` or `data` does no harm."""
    bindings = "model = input(float32, [1])\n  gpu = model -> Dense(1)\n  output = gpu"
    spec = grammar.read("s", text=f'tfdeploy = 1\nmodel "m" {{\n  {bindings}\n}}\n').spec
    assert spec.model.output == ir.Ref("gpu")


@pytest.mark.parametrize(
    ("target", "value"),
    [
        ("gpu[0]", ir.DeviceSet((ir.DevicePattern("gpu", (0,)),))),
        ("gpu[0..2]", ir.DeviceSet((ir.DevicePattern("gpu", (0, 1, 2)),))),
        ("gpu[n - 1]", ir.DeviceSet((ir.DevicePattern("gpu", (3,)),))),
        ("gpu[*]", ir.DeviceSet((ir.DevicePattern("gpu"),))),
        ("[gpu[1], cpu[0]]", ir.DeviceSet((ir.DevicePattern("gpu", (1,)), ir.DevicePattern("cpu", (0,))))),
        ("balanced(gpu[*])", ir.Balanced(ir.DeviceSet((ir.DevicePattern("gpu"),)))),
        ("round_robin(gpu[*])", ir.RoundRobin(ir.DeviceSet((ir.DevicePattern("gpu"),)))),
        ("sharded(gpu[*])", ir.Sharded(ir.DeviceSet((ir.DevicePattern("gpu"),)))),
        (
            "sharded(gpu[*], axis = 1, min_size = 2KiB)",
            ir.Sharded(ir.DeviceSet((ir.DevicePattern("gpu"),)), 1, 2048),
        ),
        ("replicated", ir.Replicated()),
        ("group[1]", ir.GroupMember(1)),
    ],
)
def test_targets_of_rules(target: str, value: ir.Target) -> None:
    """Every form in which a rule can say where."""
    spec = read(f'let {{ n = 4 }}\ndevices {{ gpu = n }}\nplace {{\n  variables("w*") -> {target}\n}}')
    assert spec.place.rules == (ir.Rule(ir.Selector("variables", "w*"), value),)


@pytest.mark.parametrize(
    ("device", "pattern"),
    [
        ("ps[1]", ir.DevicePattern("cpu", (0,), "ps", (1,))),
        ("ps[*]", ir.DevicePattern("cpu", (0,), "ps")),
        ("worker[0].gpu[1]", ir.DevicePattern("gpu", (1,), "worker", (0,))),
        ("worker[0..1].gpu[*]", ir.DevicePattern("gpu", None, "worker", (0, 1))),
        ("worker[*].cpu[0]", ir.DevicePattern("cpu", (0,), "worker")),
        ("gpu[1]", ir.DevicePattern("gpu", (1,))),
    ],
)
def test_devices_of_a_cluster(device: str, pattern: ir.DevicePattern) -> None:
    """Jobs, tasks and devices are named with dots; a task alone is its first CPU."""
    jobs = 'devices {\n  job "ps" { tasks = 2 }\n  job "worker" { hosts = ["a:1", "b:1"], gpu = 2 }\n}\n'
    spec = read(f"{jobs}place {{\n  inputs -> {device}\n}}")
    assert spec.devices.jobs[1] == ir.Job("worker", tasks=2, gpu=2, hosts=("a:1", "b:1"))
    assert spec.place.rules[0].target == ir.DeviceSet((pattern,))


def test_conditions_hold_figures_in_base_units() -> None:
    """Percentages are fractions, sizes are bytes, and the text is kept as it was written."""
    gpus = ir.DeviceSet((ir.DevicePattern("gpu"),))
    both = ir.DeviceSet((ir.DevicePattern("gpu", (0,)), ir.DevicePattern("gpu", (1,))))
    cpu = ir.DeviceSet((ir.DevicePattern("cpu", (0,)),))
    conditions = whole().expect.conditions
    assert conditions == (
        ir.Condition("imbalance", ("variables",), "<=", 0.1),
        ir.Condition("memory", (gpus,), "<=", 14 * 2**30),
        ir.Condition("traffic", (cpu, gpus), "<=", 500 * 2**20),
        ir.Condition("ops", (both, "summary*"), "==", 0),
    )
    assert conditions[0].text == "imbalance(variables) <= 10%"


def test_measures_without_arguments_have_no_brackets() -> None:
    """`step_time` is compared with a duration, written with or without brackets, and written back without."""
    spec = read("devices { gpu = 1 }\nexpect {\n  step_time <= 40ms\n  busy(gpu[*]) >= 80%\n}")
    gpus = ir.DeviceSet((ir.DevicePattern("gpu"),))
    assert spec.expect.conditions == (
        ir.Condition("step_time", (), "<=", 0.04),
        ir.Condition("busy", (gpus,), ">=", 0.8),
    )
    assert read("expect { step_time() <= 40ms }").expect.conditions == spec.expect.conditions[:1]
    written = unparse(spec)
    assert "step_time <= 40ms" in written
    assert "busy(gpu[*]) >= 80%" in written


def test_functions_without_arguments_need_no_brackets() -> None:
    """`ring` and `ring()` are the same aggregation, and `none` switches off what can be."""
    first = read("update { aggregate = ring, clip = none }").update
    second = read("update { aggregate = ring() }").update
    assert first.aggregate == second.aggregate == ir.Call("ring")
    assert first.clip is None


def test_defaults_are_those_of_the_records() -> None:
    """A spec with a model alone has the defaults of every other block."""
    spec = read("")
    assert spec == ir.Spec(model=spec.model)


def test_python_needs_leave() -> None:
    """`python(...)` is refused, and read where it is allowed."""
    block = 'data { train = python("mine:examples", size = 3) }'
    with pytest.raises(AssertionError, match="was not allowed"):
        read(block)
    spec = read(block, allow_python=True)
    assert spec.data.train == ir.Split("train", ir.Call("python", ("mine:examples",), {"size": 3}))


def test_values_know_where_they_stand() -> None:
    """A block knows the span of each attribute that was written, and its header for the others."""
    spec = read("clones {\n  count = (1 + 1) / 1\n}")
    span, header = spec.clones.span_of("count"), spec.clones.span_of("batch")
    assert (span.text, span.begin.line, span.begin.column) == ("(1 + 1) / 1", 3, 11)
    assert header.text == "clones"


def test_load_raises_every_error(tmp_path: Path) -> None:
    """`load` raises what `read` finds, without the warnings."""
    path = tmp_path / "spec.tfdeploy"
    path.write_text("clones { cuont = 2 }\nupdate { mode = snyc }\n" + MODEL)
    with pytest.raises(SpecError) as caught:
        grammar.load(path)
    assert [each.code for each in caught.value.diagnostics] == ["TFD202", "TFD401"]


def test_bytes_are_hashed_and_the_path_is_kept(tmp_path: Path) -> None:
    """The spec knows its file and the digest of its bytes, byte-order mark and carriage returns included."""
    path = tmp_path / "spec.tfdeploy"
    data = b"\xef\xbb\xbf" + f"tfdeploy = 1\n{MODEL}".replace("\n", "\r\n").encode()
    path.write_bytes(data)
    spec: Any = grammar.load(path)
    assert (spec.path, spec.sha256) == (str(path), sha256(data).hexdigest())
