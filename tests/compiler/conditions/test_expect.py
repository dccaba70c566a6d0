"""`expect`: figures of a placement map held against conditions, with what contributes most."""

import pytest
from attrs import evolve

from compiler.conditions import (
    check_expectations,
    largest_variables,
    memory_parts,
    needs_memory,
    needs_time,
)
from compiler.mapping.records import (
    DeviceTime,
    LinkTime,
    MapClone,
    MapDevice,
    MapMode,
    MapOp,
    MapPathPart,
    MapSlot,
    MapSpec,
    MapTensor,
    MapTime,
    MapTransfer,
    MapVariable,
    PlacementMap,
    RuleRef,
)
from compiler.pipeline import make_plan
from dsl.diagnostics import Diagnostic
from tests.specs import CLASSES
from tests.support import marked, spec_of

RULE = RuleRef(None, None, None, "", "default")
KIB = 1024


def device(ref: str, variables: int = 0, slots: int = 0, step: int = 0) -> MapDevice:
    """Return a device with some KiB of variables, slots and tensors of a step."""
    return MapDevice(
        ref=ref,
        device=ref,
        ops=1,
        variable_bytes=variables * KIB,
        slot_bytes=slots * KIB,
        step_bytes=step * KIB,
        memory_bytes=(variables + slots + step) * KIB,
        largest=(MapTensor("clone_0/conv1/Relu:0", step * KIB // 2),) if step else (),
    )


def variable(name: str, home: str, kib: int, slots: int = 0) -> MapVariable:
    """Return a variable with slots of its size."""
    held = tuple(MapSlot(f"{name}/slot_{at}", kib * KIB, home) for at in range(slots))
    return MapVariable(name, (), "float32", kib * KIB, True, home, (), held, RULE)


def op(name: str, device: str, clone: int | None = None) -> MapOp:
    """Return an op."""
    return MapOp(name, "NoOp", clone, "forward", device, None, RULE)


PLACEMENT = PlacementMap(
    spec=MapSpec("", ""),
    tensorflow="",
    mode=MapMode("sync", "in_graph", "add_n", "mean", 2),
    devices=(
        device("cpu[0]", 6, 6),
        device("cpu[1]", 2, 2, 4),
        device("gpu[0]", step=96),
        device("gpu[1]", step=80),
    ),
    clones=(MapClone(0, "clone_0", ("gpu[0]",), 2), MapClone(1, "clone_1", ("gpu[1]",), 2)),
    variables=(variable("a", "cpu[0]", 4, 1), variable("b", "cpu[0]", 2, 1), variable("c", "cpu[1]", 2, 1)),
    ops=(
        op("clone_0/conv1/Conv2D", "gpu[0]", 0),
        op("clone_1/conv1/Conv2D", "gpu[1]", 1),
        op("summary/loss", "cpu[0]"),
    ),
    transfers=(
        MapTransfer("cpu[0]", "gpu[0]", 3, 5 * KIB, 0, (MapTensor("a/read:0", 4 * KIB),)),
        MapTransfer("cpu[0]", "gpu[1]", 2, 4 * KIB, 1, (MapTensor("a/read:0", 4 * KIB),)),
        MapTransfer("gpu[0]", "cpu[0]", 9, 64 * KIB, 0),
    ),
    misplaced=(),
    time=MapTime(
        seconds=0.05,
        estimate=False,
        measured=1.0,
        source="a.profile.json",
        devices=(DeviceTime("gpu[0]", 0.045, 0.9), DeviceTime("gpu[1]", 0.03, 0.6)),
        links=(
            LinkTime("cpu[0]", "gpu[0]", 0.01, 0.2, 5 * KIB),
            LinkTime("gpu[0]", "cpu[0]", 0.02, 0.4, 64 * KIB),
        ),
        by_scope=(MapPathPart("conv1", 0.03), MapPathPart("update", 0.02)),
        by_rule=(MapPathPart("clones -> gpu[*]", 0.05),),
    ),
)


def found(condition: str, rules: str = "variables -> cpu[*]") -> tuple[Diagnostic, ...]:
    """Return what is wrong with the placement under one condition."""
    text = f"""{CLASSES}
devices {{
  cpu = 2
  gpu = 2
}}
clones {{ batch = 2 }}
place {{
  {rules}
}}
expect {{
  {condition}
}}
"""
    return check_expectations(make_plan(spec_of(text)), PLACEMENT)


def told(condition: str, rules: str = "variables -> cpu[*]") -> tuple[str, str, tuple[str, ...]]:
    """Return the code, figure and contributions of the one diagnostic for a condition."""
    (diagnostic,) = found(condition, rules)
    assert diagnostic.message == f"`{condition}` does not hold"
    assert marked(diagnostic) == condition
    return (diagnostic.code, diagnostic.text, diagnostic.notes)


@pytest.mark.parametrize(
    "condition",
    [
        "imbalance(variables) <= 50%",
        "imbalance(variables) == 50%",
        "memory(gpu[*]) <= 96KiB",
        "memory(cpu[1]) < 9KiB",
        "traffic(cpu[0], gpu[*]) <= 9KiB",
        "traffic(gpu[*], cpu[0]) >= 64KiB",
        "traffic(cpu[1], gpu[*]) == 0B",
        'ops(gpu[*], "summary*") == 0',
        'ops(gpu[*], "conv1/*") == 2',
        'ops(gpu[1], "clone_1/*") == 1',
        "step_time <= 50ms",
        "busy(gpu[0]) >= 90%",
        "busy(gpu[*]) > 50%",
    ],
)
def test_conditions_that_hold(condition: str) -> None:
    """Nothing is said of a condition that the placement meets, just or by far."""
    assert found(condition) == ()


SLOW = (
    "longest on the critical path: `conv1` (30.0 ms), `update` (20.0 ms)",
    "busiest link: `gpu[0]` to `cpu[0]`, 40% of the step",
)
TOLD = {
    "imbalance(variables) <= 10%": (
        "TFD531",
        "it is 50.0%",  # 12 KiB where the mean of two devices is 8, slots counted
        (
            "`cpu[0]` holds 12.0 KiB; the mean of 2 devices is 8.00 KiB",
            "largest there, with slots: `a` (8.00 KiB), `b` (4.00 KiB)",
        ),
    ),
    "memory(gpu[*]) <= 64KiB": (
        "TFD532",
        "it is 96.0 KiB on `gpu[0]`",
        (
            "on `gpu[0]`: variables 0 B, slots 0 B, tensors of a step 96.0 KiB",
            "largest when a step needs most: `clone_0/conv1/Relu` (48.0 KiB)",
        ),
    ),
    "memory(cpu[*]) <= 10KiB": (
        "TFD532",
        "it is 12.0 KiB on `cpu[0]`",
        ("on `cpu[0]`: variables 6.00 KiB, slots 6.00 KiB, tensors of a step 0 B",),
    ),
    "traffic(cpu[0], gpu[*]) <= 8KiB": (
        "TFD533",
        "it is 9.00 KiB a step",
        (
            "most from `cpu[0]` to `gpu[0]`: 5.00 KiB in 3 tensors",
            "largest on that way: `a/read` (4.00 KiB)",
            "1 tensor of unknown size not counted",
        ),
    ),
    "traffic(gpu[0], cpu[0]) < 1KiB": (
        "TFD533",
        "it is 64.0 KiB a step",
        ("most from `gpu[0]` to `cpu[0]`: 64.0 KiB in 9 tensors",),
    ),
    'ops(gpu[*], "conv1/*") == 0': (
        "TFD534",
        "it is 2 ops",
        ("these are `clone_0/conv1/Conv2D` on `gpu[0]`, `clone_1/conv1/Conv2D` on `gpu[1]`",),
    ),
    'ops(cpu[0], "summary*") > 1': ("TFD534", "it is 1 op", ("these are `summary/loss` on `cpu[0]`",)),
    "step_time <= 40ms": ("TFD536", "it is 50.0 ms", SLOW),
    "busy(gpu[*]) >= 80%": (
        "TFD537",
        "it is 60.0% on `gpu[1]`",
        ("`gpu[1]` works for 30.0 ms of a step of 50.0 ms", *SLOW),
    ),
}


@pytest.mark.parametrize("condition", TOLD)
def test_conditions_that_do_not_hold(condition: str) -> None:
    """The figure is that of the device that is furthest off, with what contributes most to it."""
    assert told(condition) == TOLD[condition]


def test_imbalance_counts_devices_that_the_rules_name_and_nothing_is_on() -> None:
    """A device of the set that is left empty lowers the mean; others have nothing to do with it."""
    code, text, _ = told("imbalance(variables) <= 100%", "variables -> [cpu[0], cpu[1], gpu[0], gpu[1]]")
    assert (code, text) == ("TFD531", "it is 200.0%")
    assert found("imbalance(variables) <= 0%", "variables -> cpu[0]") == ()


def test_memory_needs_a_forecast() -> None:
    """A spec tells beforehand whether one is needed; without one the map cannot answer."""
    with_memory = spec_of(CLASSES + "clones { batch = 2 }\nexpect {\n memory(cpu[0]) <= 1MiB\n }")
    assert needs_memory(with_memory)
    assert not needs_memory(
        spec_of(CLASSES + "clones { batch = 2 }\nexpect {\n imbalance(variables) <= 1%\n }")
    )
    bare = evolve(PLACEMENT, devices=tuple(evolve(each, memory_bytes=None) for each in PLACEMENT.devices))
    with pytest.raises(ValueError, match="no forecast"):
        check_expectations(make_plan(with_memory), bare)


def test_every_condition_that_fails_is_told() -> None:
    """Several conditions give several diagnostics, in their order."""
    both = "imbalance(variables) <= 10%\n  memory(gpu[0]) <= 1KiB\n  memory(gpu[1]) <= 1MiB"
    assert [each.code for each in found(both)] == ["TFD531", "TFD532"]


def test_an_estimate_is_told_as_one() -> None:
    """Who compares with figures of a table is told so."""
    assert PLACEMENT.time is not None
    rough = evolve(PLACEMENT, time=evolve(PLACEMENT.time, estimate=True, source="v100"))
    spec = spec_of(CLASSES + "devices { gpu = 2 }\nclones { batch = 2 }\nexpect {\n step_time <= 1ms\n }")
    (diagnostic,) = check_expectations(make_plan(spec), rough)
    assert diagnostic.notes[-1] == "this is an estimate for the hardware `v100`, and not measured"


def test_time_that_is_not_known() -> None:
    """Conditions on time are errors without a forecast, and other conditions are looked at all the same."""
    text = (
        "devices { gpu = 2 }\nclones { batch = 2 }\nexpect {\n step_time <= 1s\n memory(gpu[0]) <= 1KiB\n }"
    )
    spec = spec_of(CLASSES + text)
    assert needs_time(spec)
    found = check_expectations(make_plan(spec), evolve(PLACEMENT, time=None))
    assert [each.code for each in found] == ["TFD538", "TFD532"]
    assert found[0].message == "`step_time <= 1s` cannot be compared with anything"
    assert "tfdeploy calibrate" in found[0].help


@pytest.mark.parametrize(
    ("operator", "holds"),
    [("<=", (True, True, False)), ("<", (True, False, False)), (">=", (False, True, True))],
)
def test_bounds_are_as_they_are_written(operator: str, holds: tuple[bool, ...]) -> None:
    """12 KiB, which is less than, as much as and more than a figure."""
    for kib, each in zip((13, 12, 11), holds, strict=True):
        assert (found(f"memory(cpu[0]) {operator} {kib}KiB") == ()) == each


def test_what_is_beside_variables_counts_as_held() -> None:
    """Memory is of variables and of what else stays, of slots and of the tensors of a step."""
    (first, *rest) = PLACEMENT.devices
    more = evolve(first, other_bytes=3 * KIB, memory_bytes=15 * KIB)
    assert memory_parts(more) == ["on `cpu[0]`: variables 9.00 KiB, slots 6.00 KiB, tensors of a step 0 B"]
    assert memory_parts(rest[1])[1] == "largest when a step needs most: `clone_0/conv1/Relu` (48.0 KiB)"
    for unknown in (evolve(more, memory_bytes=None), evolve(more, step_bytes=None)):
        with pytest.raises(ValueError, match="no forecast"):
            memory_parts(unknown)


def test_the_largest_variables_of_a_device() -> None:
    """Five of them, by size and then by name, with copies, and with slots that are there alone."""
    home, other = "cpu[0]", "cpu[1]"
    copied = evolve(variable("copied", other, 3, 1), copies=(other, home))
    slot = evolve(variable("away", other, 9), slots=(MapSlot("away/slot", 4 * KIB, home),))
    held = [variable(name, home, 2) for name in "dcba"]
    placement = evolve(PLACEMENT, variables=(*held, copied, slot, variable("elsewhere", other, 64)))
    (note,) = largest_variables(home, placement)
    assert note.startswith(
        "largest there, with slots: `away` (4.00 KiB), `copied` (3.00 KiB), `a` (2.00 KiB)"
    )
    assert note.endswith("`b` (2.00 KiB), `c` (2.00 KiB)")
    assert largest_variables("gpu[0]", placement) == []


def test_of_many_ops_the_first_five_are_named() -> None:
    """Others are counted."""
    for count, more in ((5, ""), (6, " and 1 more"), (1205, " and 1,200 more")):
        ops = tuple(op(f"clone_0/conv1/op_{at}", "gpu[0]", 0) for at in range(count))
        condition = 'ops(gpu[*], "conv1/*") == 0'
        text = f"{CLASSES}devices {{ gpu = 1 }}\nclones {{ batch = 2 }}\nexpect {{\n {condition}\n}}\n"
        (told,) = check_expectations(make_plan(spec_of(text)), evolve(PLACEMENT, ops=ops))
        (note,) = told.notes
        assert note.count("` on `gpu[0]`") == 5
        assert note.endswith(f"`clone_0/conv1/op_4` on `gpu[0]`{more}")
        assert told.text == f"it is {count:,} ops"


def test_ops_of_workers_with_graphs_of_their_own_are_those_of_all() -> None:
    """The map has the ops of one worker; a device of another has as many as its twin."""
    devices = (
        'devices {\n job "ps" { tasks = 1 }\n job "worker" { tasks = 3, gpu = 1 }\n}\nclones { batch = 2 }\n'
    )
    ops = (
        op("fc/MatMul", "worker[0].gpu[0]", 0),
        op("fc/Add", "worker[0].gpu[0]", 0),
        op("fc/w", "ps[0].cpu[0]"),
    )
    for where, number in (
        ("worker[*].gpu[*]", 6),
        ("worker[1..2].gpu[0]", 4),
        ("worker[0].gpu[0]", 2),
        ("ps[0]", 1),
        ("worker[*].cpu[0]", 0),
    ):
        text = f'{CLASSES}{devices}update {{ mode = async }}\nexpect {{\n ops({where}, "*") == {number}\n}}\n'
        assert check_expectations(make_plan(spec_of(text)), evolve(PLACEMENT, ops=ops)) == ()
