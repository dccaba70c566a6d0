"""The costs of ops: as measured, in proportion to others of their type, or by what a core reaches."""

from typing import Any

import pytest
from attrs import evolve

from compiler.time.costs import Costs, Setting, choose_costs, profiled_costs, table_costs
from compiler.time.profile import FoundProfile, LinkCost, MeasuredMachine, OpCost, Profile
from compiler.time.work import Signature, TimedOp, flops
from compiler.topology import Device
from dsl import ir
from dsl.schema.hardware import (
    CLUSTER_START,
    NETWORK_LATENCY,
    NETWORK_SPEED,
    REACHED_FLOPS,
    STEP_START,
    TABLE,
)
from tests.compiler.time.steps import CPU, GPU, step


def measured(kind: str, size: int, alone: float, **more: Any) -> OpCost:
    """Return the measured cost of an op on so many floats."""
    cost = OpCost(kind, (f"float32[{size}]",), "", size, 8 * size, 1, 1.0, alone, alone * 1.5, alone * 0.75)
    return evolve(cost, **more)


PROFILE = Profile(
    MeasuredMachine("a processor", 2, "2.21.0"),
    ("a.tfdeploy",),
    step_start=1e-4,
    op_start=1e-6,
    hand_over=5e-6,
    flops_per_second=1e10,
    bytes_per_second=1e9,
    ops=(
        measured("Relu", 1000, 10e-6),
        measured("Relu", 100_000, 1000e-6),
        measured("Exp", 1000, 10e-6, runs=0.0),
    ),
    links=(LinkCost("network", 50e-6, 1e8),),
)
FOUND = FoundProfile("a.profile.json", PROFILE)


def relu(size: int, kind: str = "Relu", device: Device = CPU, times: int = 1) -> TimedOp:
    """Return an op on so many floats."""
    signature = Signature(kind, (f"float32[{size}]",))
    return TimedOp("op", signature, device, size, 8 * size, times)


def test_a_measured_op_costs_what_was_measured() -> None:
    """The exact signature counts, with its starts; in a loop, as often as it runs."""
    cost = profiled_costs(PROFILE).of(relu(1000))
    assert (cost.start, cost.alone, cost.crowded, cost.wide) == pytest.approx((1e-6, 10e-6, 15e-6, 7.5e-6))
    assert not cost.estimated
    assert profiled_costs(PROFILE).of(relu(1000, "Exp")).start == 0  # fused into another
    assert profiled_costs(PROFILE).of(relu(1000, times=3)).alone == pytest.approx(30e-6)


def test_plain_arithmetic_is_compared_with_its_kind() -> None:
    """A sum that is larger than all sums takes what was measured in its size; a logarithm does not."""
    small = evolve(PROFILE, ops=(*PROFILE.ops, measured("AddV2", 10, 1e-6), measured("Exp", 10**6, 1.0)))
    costs = profiled_costs(small)
    assert costs.of(relu(100_000, "AddV2")).alone == pytest.approx(1000e-6)
    assert costs.of(relu(1000, "Sub")).alone == pytest.approx(10e-6)  # of which none was measured
    assert costs.of(relu(5, "AddV2")).alone == pytest.approx(0.5e-6)
    assert costs.of(relu(10**6, "Log")).alone == pytest.approx(8e6 / 1e9)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(10_000, 100e-6), (200_000, 2000e-6), (10_000_000, 1e-3 + 8e7 / 1e9), (500, 5e-6), (1, 0.2e-6)],
)
def test_other_sizes_are_in_proportion(size: int, expected: float) -> None:
    """Between two sizes on a line, outside of them in proportion, never for nothing or beyond the rates."""
    cost = profiled_costs(PROFILE).of(relu(size))
    assert cost.alone == pytest.approx(expected)
    assert cost.crowded == pytest.approx(expected * 1.5)
    assert cost.wide == pytest.approx(expected * 0.75)
    assert cost.estimated


def test_small_ops_say_little_about_large_ones() -> None:
    """Ten microseconds for a number do not become ten seconds for a million."""
    tiny = evolve(PROFILE, ops=(measured("Mul", 1, 10e-6),))
    assert profiled_costs(tiny).of(relu(1_000_000, "Mul")).alone == pytest.approx(10e-6 + 8e6 / 1e9)


def test_an_unknown_type_takes_what_a_core_reaches() -> None:
    """The bytes of this op take longer than its arithmetic."""
    cost = profiled_costs(PROFILE).of(relu(1_000_000, "Tanh"))
    assert cost.alone == pytest.approx(8e6 / 1e9)
    assert cost.estimated


def test_links() -> None:
    """Within a process nothing is copied; a link of the spec is as fast as the spec says."""
    near, far = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
    assert profiled_costs(PROFILE).link(near, far).seconds(1000) == 0
    apart = profiled_costs(PROFILE, Setting(one_process=False))
    assert apart.link(near, far).seconds(10**8) == pytest.approx(1)
    assert apart.link(near, far).latency == pytest.approx(50e-6)
    said = profiled_costs(PROFILE, Setting(one_process=False, link_speed=10**7))
    assert said.link(near, far).seconds(10**8) == pytest.approx(10)
    table = table_costs(TABLE["v100"], TABLE["cpu"], 2)
    assert table.link(CPU, GPU).bytes_per_second == TABLE["v100"].link
    assert table.link(CPU, CPU).bytes_per_second is None
    assert table_costs(None, TABLE["cpu"], 2, Setting(False)).link(near, far).bytes_per_second == 1.25e9


def test_links_of_which_nothing_was_measured() -> None:
    """A network is as fast as is assumed, and devices of a task hand tensors over; GPUs are by the table."""
    near, far = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
    beside, apart = Device("cpu", 1, "worker", 0), Setting(one_process=False)
    unmeasured = evolve(PROFILE, links=())
    for costs in (profiled_costs(unmeasured, apart), table_costs(None, TABLE["cpu"], 2, apart)):
        assert costs.link(near, far) == LinkCost("network", NETWORK_LATENCY, NETWORK_SPEED)
        assert costs.link(near, beside) == LinkCost("process", 0.0, None)
    inside = evolve(unmeasured, links=(LinkCost("process", 3e-6, None),))
    mixed = profiled_costs(inside, gpu=TABLE["v100"])
    for costs in (mixed, table_costs(TABLE["v100"], TABLE["cpu"], 2)):
        for pair in ((CPU, GPU), (GPU, CPU), (GPU, GPU)):
            assert costs.link(*pair) == LinkCost("process", TABLE["v100"].latency, TABLE["v100"].link)
    assert mixed.link(CPU, CPU) == LinkCost("process", 3e-6, None)
    assert profiled_costs(inside, Setting(emulated=True), TABLE["v100"]).link(GPU, CPU) == LinkCost(
        "process", 3e-6, None
    )


def test_a_tensor_without_a_time_uses_no_core() -> None:
    """What takes no time is not divided by it; asking and giving are not counted twice."""
    assert LinkCost("process", 1e-6, None).cores(10**9) == 0
    assert LinkCost("process", 1e-6, 1e8, message=1e-3, processors=2.0, work=3e-3).cores(
        10**5
    ) == pytest.approx(5 / 2)
    assert LinkCost("process", 1e-6, 1e8, message=1e-3, work=1e-3, asking=1e-3, giving=1e-3).cores(0) == 0


def test_the_start_of_a_step() -> None:
    """Several processes need longer to begin and end a step than one, as it was measured or is assumed."""
    apart = Setting(one_process=False)
    assert profiled_costs(PROFILE).step_start == 1e-4
    assert profiled_costs(PROFILE, apart).step_start == CLUSTER_START
    assert profiled_costs(evolve(PROFILE, cluster_start=3e-3), apart).step_start == 3e-3
    assert (
        table_costs(None, TABLE["cpu"], 2).step_start < table_costs(None, TABLE["cpu"], 2, apart).step_start
    )


def test_costs_of_a_machine_beside_those_of_ops() -> None:
    """They are those of the profile, or of the cores of the table; one process starts a step on one core."""
    apart = Setting(one_process=False)
    busy = evolve(PROFILE, cluster_processors=1.5)
    assert [profiled_costs(busy, each).start_cores for each in (Setting(), apart)] == [1.0, 1.5]
    found = profiled_costs(busy)
    assert (found.cores, found.op_start, found.hand_over, found.estimate) == (2, 1e-6, 5e-6, False)
    cpu = TABLE["cpu"]
    table = table_costs(None, cpu, 3)
    assert (table.cores, table.op_start, table.hand_over) == (3, cpu.op_start, cpu.latency)
    assert (table.start_cores, table.awake) == (1.0, 0.0)
    assert [table_costs(None, cpu, 2, each).step_start for each in (Setting(), apart)] == [
        STEP_START,
        CLUSTER_START,
    ]


def test_an_op_starts_as_many_kernels_as_others_of_its_type() -> None:
    """As a mean over all that were measured, and at least one unless an attribute says that it is fused."""

    def start(detail: str, *runs: float) -> float:
        ops = tuple(measured("Relu", 10 ** (at + 1), 1e-6, runs=each) for at, each in enumerate(runs))
        signature = Signature("Relu", ("float32[7]",), detail)
        cost = profiled_costs(evolve(PROFILE, ops=ops)).of(TimedOp("op", signature, CPU, 7, 56, 5))
        return cost.start / 5 / PROFILE.op_start  # it runs five times in a step

    assert start("", 2.0, 4.0) == pytest.approx(3)
    assert start("", 0.0, 1.0) == pytest.approx(1)
    assert start("fused", 0.0, 1.0) == pytest.approx(0.5)


def test_two_ops_of_one_size_count_as_their_mean() -> None:
    """An op between two sizes lies on the line between them; more threads and neighbours count by time."""
    ops = (
        measured("Relu", 1000, 10e-6, wide=None),
        measured("Relu", 1000, 30e-6, wide=15e-6),
        measured("Relu", 3000, 60e-6, crowded=110e-6, wide=25e-6),
    )
    cost = profiled_costs(evolve(PROFILE, ops=ops)).of(relu(1500))
    assert cost.alone == pytest.approx(20e-6 + (60 - 20) / 4 * 1e-6)
    assert cost.crowded / cost.alone == pytest.approx((15 + 45 + 110) / 100)
    assert cost.wide / cost.alone == pytest.approx((10 + 15 + 25) / 100)


def test_the_table_of_hardware() -> None:
    """An op takes its arithmetic or its bytes by the peaks of its device; float16 is faster on a GPU."""
    costs = table_costs(TABLE["v100"], TABLE["cpu"], 4)
    product = evolve(relu(1000, device=GPU), flops=10**12, bytes=0)
    assert costs.of(product).alone == pytest.approx(10**12 / (14e12 * REACHED_FLOPS))
    half = evolve(product, signature=Signature("MatMul", ("float16[9]",)))
    assert costs.of(half).alone == pytest.approx(10**12 / (112e12 * REACHED_FLOPS))
    wide = costs.of(evolve(product, device=CPU))
    assert wide.wide == pytest.approx(wide.alone / 4)
    assert costs.estimate


def is_by_profile(costs: Costs | None) -> bool:
    """Whether the time of an op is the one that was measured."""
    return costs is not None and not costs.of(relu(1000)).estimated


def test_which_costs_are_used() -> None:
    """A profile before the table; GPUs need a kind; nothing known, no forecast."""
    cpu, gpu = step([relu(1000)], []), step([evolve(relu(1000), device=GPU)], [])
    nothing, v100 = ir.Devices(), ir.Devices(kind="v100", link=10**9)
    assert choose_costs(cpu, nothing, None, 2) is None
    assert choose_costs(gpu, nothing, FOUND, 2) is None
    measured, table = choose_costs(cpu, nothing, FOUND, 2), choose_costs(cpu, v100, None, 2)
    assert is_by_profile(measured)
    assert not is_by_profile(table)
    assert (measured.source, table.source) == ("a.profile.json", "v100")
    mixed = choose_costs(gpu, v100, FOUND, 2)
    assert is_by_profile(mixed)
    assert mixed.estimate
    assert mixed.link(CPU, GPU).bytes_per_second == 10**9
    emulated = choose_costs(evolve(gpu, emulated=True), nothing, FOUND, 2)
    assert is_by_profile(emulated)
    assert not emulated.estimate


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "transposed", "expected"),
    [
        ("MatMul", [(2, 3), (3, 5)], [(2, 5)], False, 2 * 2 * 3 * 5),
        ("MatMul", [(3, 2), (3, 5)], [(2, 5)], True, 2 * 2 * 3 * 5),
        ("BatchMatMulV2", [(7, 2, 3), (7, 3, 5)], [(7, 2, 5)], False, 7 * 2 * 2 * 3 * 5),
        ("Conv2D", [(4, 8, 8, 3), (5, 5, 3, 6)], [(4, 8, 8, 6)], False, 2 * 4 * 64 * 6 * 75),
        (
            "Conv2DBackpropFilter",
            [(4, 8, 8, 3), (4,), (4, 8, 8, 6)],
            [(5, 5, 3, 6)],
            False,
            2 * 4 * 64 * 6 * 75,
        ),
        (
            "Conv2DBackpropInput",
            [(4,), (5, 5, 3, 6), (4, 8, 8, 6)],
            [(4, 8, 8, 3)],
            False,
            2 * 4 * 64 * 6 * 75,
        ),
        ("DepthwiseConv2dNative", [(4, 8, 8, 3), (5, 5, 3, 1)], [(4, 8, 8, 3)], False, 2 * 4 * 64 * 3 * 25),
        ("Sum", [(4, 8), (1,)], [(4,)], False, 32),
        ("Relu", [None], [None], False, 0),
        ("Identity", [(4, 8)], [(4, 8)], False, 0),
        ("AddN", [(4, 8)] * 5, [(4, 8)], False, 4 * 32),
        ("AddN", [None, None], [None], False, 0),
    ],
)
def test_operations_of_an_op(
    kind: str, inputs: list[Any], outputs: list[Any], transposed: bool, expected: int
) -> None:
    """Products, convolutions and sums of several tensors by their formulas, others by their elements."""
    assert flops(kind, inputs, outputs, transposed=transposed) == expected


@pytest.mark.parametrize(("awake", "expected"), [(1.8, 1.4), (1.0, 1.0), (9, 2)])
def test_ops_that_gain_nothing_use_what_remains(awake: float, expected: float) -> None:
    """One op has both cores for 20 microseconds, and another uses the rest of the mean for 10."""
    ops = (measured("Exp", 1000, 10e-6, wide=10e-6), measured("Relu", 1000, 30e-6, wide=20e-6))
    cost = profiled_costs(evolve(PROFILE, ops=ops, awake=awake)).of(relu(1000, "Exp"))
    assert cost.wide_cores == pytest.approx(expected)
    assert profiled_costs(evolve(PROFILE, ops=())).of(relu(1000)).wide_cores == 1


def test_the_cores_of_a_tower_count() -> None:
    """Without them, those that one op at a time uses."""
    assert profiled_costs(evolve(PROFILE, awake=1.25)).awake == 1.25
    assert profiled_costs(evolve(PROFILE, awake=1.25, tower_awake=1.5)).awake == 1.5


def test_a_link_without_the_work_of_a_tensor_uses_the_cores_of_bytes() -> None:
    """A profile that does not tell what asking and giving take is read as before."""
    near, far = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
    old = LinkCost("network", 50e-6, 1e8, message=30e-6, processors=1.5)

    def between(link: LinkCost) -> Any:
        return profiled_costs(evolve(PROFILE, links=(link,)), Setting(one_process=False)).link(near, far)

    assert [between(old).cores(size) for size in (0, 10**6)] == pytest.approx([1.5, 1.5])
    new = between(evolve(old, work=100e-6, asking=30e-6, giving=40e-6))
    assert new.cores(0) == pytest.approx((100 - 30 - 40) / 30)
    assert new.thread_cores == 1
    assert between(evolve(old, work=35e-6, asking=30e-6, giving=40e-6)).thread_cores == pytest.approx(0.5)
