"""The simulation of a step, against steps whose times can be computed in the head."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from compiler.time.forecast import forecast_step
from compiler.time.simulation.simulate import ROUNDS, simulate
from compiler.time.simulation.simulated import rounds_between
from compiler.time.work import Echo
from compiler.topology import Device
from tests.compiler.time.steps import CPU, GPU, OTHER_CPU, SECOND_GPU, Machine, op, step


def milliseconds(work: Any, machine: Machine) -> float:
    """Return the simulated time of a step."""
    return simulate(work, machine).seconds * 1e3


CHAIN = step([op("a=10"), op("b=20"), op("c=5")], [("a", "b"), ("b", "c")])
PAIR = step([op("a=10"), op("b=20")], [])
PAIR_OF_LOOPS = step([op("a=10"), op("b=10")], [])
FORK = step([op("a=1"), op("b=10"), op("c=20"), op("d=2")], [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])


@pytest.mark.parametrize(
    ("work", "machine", "expected"),
    [
        (CHAIN, Machine(), 35),
        (PAIR, Machine(), 20),
        (PAIR, Machine(cores=1), 30),
        (FORK, Machine(), 1 + 20 + 2),
        (FORK, Machine(cores=1), 33),
        (CHAIN, Machine(start=1e-3), 38),
    ],
)
def test_threads_share_the_ops(work: Any, machine: Machine, expected: float) -> None:
    """Ops that need each other follow each other, others run side by side on as many cores as there are."""
    assert milliseconds(work, machine) == pytest.approx(expected)


def test_more_threads_than_cores_gain_nothing() -> None:
    """Two ops at once on one core take as long as one after the other."""
    both = step([op("a=10"), op("b=10")], [], op_threads=2)
    assert milliseconds(both, Machine(cores=1)) == pytest.approx(20)


def test_crowded_ops_are_slower() -> None:
    """Two ops that take 1.5 times as long beside others do so while both run, and only then."""
    assert milliseconds(PAIR, Machine(crowding=1.5)) == pytest.approx(15 + (20 - 10))


def test_wide_ops_leave_no_room() -> None:
    """An op on two threads takes half the time alone; two of them on two cores take as long as in turn."""
    alone = step([op("a=10")], [], inner_threads=2)
    both = step([op("a=10"), op("b=10")], [], inner_threads=2)
    assert milliseconds(alone, Machine(widening=0.5)) == pytest.approx(5)
    assert milliseconds(both, Machine(widening=0.5)) == pytest.approx(10)


@pytest.mark.parametrize(("awake", "inner", "expected"), [(0, 2, 10), (1.5, 2, 15), (1.5, 1, 10), (9, 2, 20)])
def test_threads_that_look_for_work_use_cores(awake: float, inner: int, expected: float) -> None:
    """They slow the op of another process, and none of their own. One thread for an op never waits."""
    near, far = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
    apart = step([op("a=10", near), op("b=10", far)], [], one_process=False, inner_threads=inner)
    assert milliseconds(apart, Machine(awake=awake)) == pytest.approx(expected)
    for ops in ([op("a=10")], [op("a=10"), op("b=10")]):
        assert milliseconds(step(ops, [], inner_threads=inner), Machine(awake=awake)) == pytest.approx(10)


def test_tasks_of_one_machine_have_threads_of_their_own_number() -> None:
    """Two threads work on the op of the first task, one on that of the second, and none looks for work."""
    near, far = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
    ops, settings = [op("a=10", near), op("b=10", far)], {"one_process": False, "task_threads": {far.host: 1}}
    shared = step(ops, [], inner_threads=2, **settings)
    machine = Machine(cores=3, widening=0.5)
    ends = {shared.ops[each.op].name: each.end for each in simulate(shared, machine).bars}
    assert ends == pytest.approx({"a=10": 6.25e-3, "b=10": 10e-3})  # Amdahl: 5 ms on three cores
    awake = Machine(cores=2, awake=1.5)
    assert milliseconds(shared, awake) > milliseconds(evolve(shared, looking=False), awake)


@pytest.mark.parametrize(
    ("widening", "wide_cores", "expected"), [(0.6, 1.0, 12), (1.0, 1.0, 10), (1.0, 1.5, 15), (1.2, 9, 24)]
)
def test_ops_on_several_threads_use_a_core_for_each(
    widening: float, wide_cores: float, expected: float
) -> None:
    """Two of them at once take as long as in turn; those that gain nothing use what was measured."""
    both = step([op("a=10"), op("b=10")], [], inner_threads=2)
    machine = Machine(widening=widening, wide_cores=wide_cores)
    assert milliseconds(both, machine) == pytest.approx(expected)


def test_asking_and_giving_take_time_of_threads() -> None:
    """Each task has one thread: the receiver asks for two tensors first, and the sender hands over each."""
    near, far = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
    ops = [op("a=10", near), op("b=10", near), op("c=20", far), op("d=1", far), op("e=1", far)]
    arrows = [("a", "b"), ("a", "d"), ("b", "e")]
    work = step(ops, arrows, {"a": 1, "b": 1}, one_process=False, op_threads=1)
    link = Machine(cores=4, speed=1e9, asking=2e-3, giving=3e-3, work=5e-3)
    found = {work.ops[each.op].name: each for each in simulate(work, link).bars}
    assert found["c=20"].start * 1e3 == pytest.approx(2 * 2)
    assert found["b=10"].start * 1e3 == pytest.approx(10 + 3)
    assert found["e=1"].start * 1e3 == pytest.approx(max(10 + 3 + 10 + 3, 2 * 2 + 20 + 1), rel=1e-3)
    late = step([op("a=1", near), op("c=5", far), op("d=1", far)], [("a", "d")], {"a": 1}, one_process=False)
    slow = simulate(evolve(late, op_threads=1), evolve(link, asking=9e-3))
    assert slow.hops[0].start * 1e3 == pytest.approx(9)  # it was there before it was asked for
    rounds = evolve(work, loops=((0, 1, 2, 3, 4),))
    assert simulate(rounds, link).seconds > 0  # each round asks again


@pytest.mark.parametrize(("work", "expected"), [(4e-3, 10 + 4), (2e-3, 10 + 2), (6e-3, 10 + 4 + 2)])
def test_a_tensor_takes_its_processor_time(work: float, expected: float) -> None:
    """On one core, what a tensor costs the processors is added to the ops, however it is divided."""
    near, far = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
    ops = [op("a=0", near), op("b=5", near), op("c=5", far), op("d=0", far)]
    made = step(ops, [("a", "d")], {"a": 1}, one_process=False)
    link = Machine(cores=1, speed=1e12, message=1e-4, asking=2e-3, giving=2e-3, work=work)
    assert milliseconds(made, link) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("cores", "expected"), [(1.0, 12), (2.0, 14)])
def test_starting_a_round_uses_cores(cores: float, expected: float) -> None:
    """Two clones of 10 ms that begin their rounds at the same time: that takes 2 ms, or twice as long."""
    work = evolve(PAIR_OF_LOOPS, loops=((0,), (1,)))
    found = simulate(work, Machine(step_start=2e-3, start_cores=cores))
    assert found.seconds / found.updates * 2 * 1e3 == pytest.approx(expected)
    assert found.updates == 2 * (ROUNDS - 1)  # the first of each clone is the start of what is looked at


@pytest.mark.parametrize("slower", [1.0, 1.001, 3.0, 10.0])
def test_updates_of_clones_are_counted_by_their_parts(slower: float) -> None:
    """Two clones on GPUs of their own make as many updates as each alone, though one is slower."""
    work = step([op("a=1", GPU), op(f"b={slower}", SECOND_GPU)], [], loops=((0,), (1,)))
    found = simulate(work, Machine(cores=4))
    assert found.updates / found.seconds / 1e3 == pytest.approx(1 + 1 / slower)
    assert found.seconds * 1e3 >= (ROUNDS - 1) * slower  # the slowest has made all of its rounds
    times = [sum(bar.end - bar.start for bar in found.bars if bar.op == at) for at in range(2)]
    assert times == [pytest.approx(found.seconds)] * 2  # both GPUs are always busy


def test_rounds_count_by_their_parts() -> None:
    """The one that goes on at the end is as long as it will be, or, if that is not known, as the last."""
    assert rounds_between([1.0, 3.0, 4.0], 2.0, 3.5) == pytest.approx(0.5 + 0.5)
    assert rounds_between([1.0, 3.0], 3.0, 4.0) == pytest.approx(0.5)
    assert rounds_between([1.0, 3.0], 3.0, 9.0) == pytest.approx(1.0)
    assert rounds_between([1.0], 1.0, 9.0) == 0.0


def test_an_idle_thread_comes_late() -> None:
    """Of two long ops the thread keeps the one that it was told of last; the other waits for a thread."""
    fork = step(
        [op("a=10"), op("b=20"), op("c=10"), op("d=2")], [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    )
    assert milliseconds(fork, Machine()) == pytest.approx(10 + 20 + 2)
    assert milliseconds(fork, Machine(hand_over=3e-3)) == pytest.approx(10 + 3 + 20 + 2)
    assert milliseconds(PAIR, Machine(hand_over=3e-3)) == pytest.approx(20)  # both begin with an op


def test_short_ops_stay_on_their_thread() -> None:
    """Ops below the limit run one after the other although another core is free, in a loop as well."""
    fan = [op("a=1"), *(op(f"{name}=0.002") for name in "bcde")]
    work = step(fan, [("a", name) for name in "bcde"])
    assert milliseconds(work, Machine()) == pytest.approx(1 + 4 * 0.002)
    looped = step(
        [evolve(op("a=1"), rounds=8), *(evolve(op(f"{name}=0.016"), rounds=8) for name in "bc")],
        [("a", "b"), ("a", "c")],
    )
    assert milliseconds(looped, Machine()) == pytest.approx(1 + 2 * 0.016)


def test_each_round_of_a_loop_waits_by_itself() -> None:
    """For a thread that has nothing to do, for threads that hand tensors over, and for the tensors."""
    names = ["a=10", "b=20", "c=10", "d=2"]
    fork = step(
        [evolve(op(each), rounds=3) for each in names], [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    )
    assert milliseconds(fork, Machine(hand_over=3e-3)) == pytest.approx(10 + 3 * 3 + 20 + 2)
    pair = step(
        [evolve(op("a=1"), rounds=4), evolve(op("b=1", OTHER_CPU), rounds=4)], [("a", "b")], {"a": 1000}
    )
    machine = Machine(op_start=0.5e-3, speed=1e6, latency=2e-3)
    found = simulate(pair, machine)
    assert found.seconds * 1e3 == pytest.approx(1 + 4 * (2 * 0.5 + 1 + 2) + 1)
    assert [each.bytes for each in found.hops] == [4000]


def test_a_link_carries_one_tensor_at_a_time() -> None:
    """Two tensors of 10 ms each arrive after 10 and 20 ms, while the sender goes on computing."""
    work = step(
        [op("a=1"), op("b=1"), op("c=30"), op("d=1", OTHER_CPU), op("e=1", OTHER_CPU)],
        [("a", "b"), ("b", "c"), ("a", "d"), ("b", "e")],
        {"a": 1000, "b": 1000},
    )
    found = simulate(work, Machine(speed=1e5))
    assert [round(each.end * 1e3, 6) for each in found.hops] == [11, 21]
    ends = {work.ops[each.op].name: each.end * 1e3 for each in found.bars}
    assert ends["d=1"] == pytest.approx(12)
    assert ends["e=1"] == pytest.approx(22)
    assert found.seconds * 1e3 == pytest.approx(32)  # the sender has computed meanwhile


def test_a_tensor_is_sent_once() -> None:
    """However many ops of a device use a tensor, it crosses once."""
    work = step(
        [op("a=1"), op("b=1", OTHER_CPU), op("c=1", OTHER_CPU)], [("a", "b"), ("a", "c")], {"a": 1000}
    )
    assert len(simulate(work, Machine(speed=1e5)).hops) == 1


def test_devices_of_one_process_share_its_cores() -> None:
    """Logical CPU devices are not cores: four towers on two cores take twice as long as two."""
    towers = [op(f"{name}=10", device) for name, device in zip("abcd", (CPU, OTHER_CPU) * 2, strict=True)]
    assert milliseconds(step(towers, []), Machine()) == pytest.approx(20)


def test_tasks_share_the_cores_of_their_machine() -> None:
    """Two tasks with two ops each need twice the time on one machine of two cores as on two machines."""
    near, far = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
    work = step([op("a=10", near), op("b=10", near), op("c=10", far), op("d=10", far)], [], one_process=False)
    assert milliseconds(work, Machine()) == pytest.approx(20)
    assert milliseconds(evolve(work, one_machine=False), Machine()) == pytest.approx(10)


def test_gpu_ops_run_in_the_order_of_their_start() -> None:
    """Ops of a GPU follow each other behind their starts; two GPUs work at the same time."""
    one = step([op("a=10", GPU), op("b=10", GPU)], [])
    two = step([op("a=10", GPU), op("b=10", SECOND_GPU)], [])
    assert milliseconds(one, Machine(start=1e-3)) == pytest.approx(21)
    assert milliseconds(two, Machine(start=1e-3)) == pytest.approx(11)
    emulated = step([op("a=10", GPU), op("b=10", GPU)], [], emulated=True)
    assert milliseconds(emulated, Machine()) == pytest.approx(10)


def test_an_op_on_another_device_waits_for_the_gpu() -> None:
    """A GPU's op can be followed on the GPU as soon as it is started, elsewhere only when it is done."""
    work = step([op("a=10", GPU), op("b=10", GPU), op("c=1")], [("a", "b"), ("a", "c")])
    found = simulate(work, Machine(start=1e-3, cores=4))
    starts = {work.ops[each.op].name: each.start * 1e3 for each in found.bars}
    assert starts["b=10"] == pytest.approx(11)
    assert 11 <= starts["c=1"] <= 13


def test_clones_that_update_alone_queue_for_a_server() -> None:
    """Each clone computes 10 ms and then needs the one GPU for 8: with two clones, the GPU is the limit."""
    ops = [op("a=10"), op("b=8", GPU), op("c=10"), op("d=8", GPU)]
    work = step(ops, [("a", "b"), ("c", "d")], loops=((0, 1), (2, 3)))
    forecast = forecast_step(work, Machine(cores=4))
    assert forecast.seconds * 1e3 == pytest.approx(9)
    gpu = next(each for each in forecast.devices if each.ref == GPU.ref)
    assert gpu.seconds * 1e3 == pytest.approx(8)  # of each update, of which one follows the other
    assert gpu.busy == pytest.approx(8 / 9)
    alone = forecast_step(step(ops[:2], [("a", "b")], loops=((0, 1),)), Machine(cores=4))
    assert alone.seconds * 1e3 == pytest.approx(18)
    assert ROUNDS > 2


def test_updates_take_turns_at_a_mutex() -> None:
    """Two clones on cores enough for both hold the mutex for 10 ms in each round, one after the other."""
    parts = [op("a=1"), op("b=0"), op("c=10"), op("d=0")]
    other = [
        evolve(each, name=each.name.replace(each.name[0], letter))
        for each, letter in zip(parts, "efgh", strict=True)
    ]
    arrows = [("a", "b"), ("b", "c"), ("c", "d"), ("e", "f"), ("f", "g"), ("g", "h")]
    free = step([*parts, *other], arrows, loops=((0, 1, 2, 3), (4, 5, 6, 7)))

    def locked(each: Any) -> Any:
        return evolve(each, enters="m" * (each.name[0] in "bf"), leaves="m" * (each.name[0] in "dh"))

    queued = evolve(free, ops=tuple(locked(each) for each in free.ops))
    assert forecast_step(free, Machine(cores=4)).seconds * 1e3 == pytest.approx(5.5, abs=0.6)
    assert forecast_step(queued, Machine(cores=4)).seconds * 1e3 == pytest.approx(10, abs=0.6)
    alone = step(parts, arrows[:3], loops=((0, 1, 2, 3),))  # which finds the mutex free in each round
    again = evolve(alone, ops=tuple(locked(each) for each in alone.ops))
    assert forecast_step(again, Machine(cores=4)).seconds == forecast_step(alone, Machine(cores=4)).seconds


def test_a_process_begins_another_run() -> None:
    """When the last of what it waits for is there, the start of a run is made once more."""
    ops = [op("a=10", OTHER_CPU), op("b=2"), evolve(op("c=0"), begins=True), op("d=1")]
    arrows, starting = [("a", "c"), ("b", "c"), ("c", "d")], 0.5e-3
    found = simulate(step(ops, arrows), Machine(cores=4, step_start=starting))
    at_once = simulate(step([*ops[:2], op("c=0"), ops[3]], arrows), Machine(cores=4))
    assert found.seconds == pytest.approx(at_once.seconds + starting)


def test_carrying_uses_cores() -> None:
    """A tensor of 10 ms that uses a core slows the op beside it on one core, and not on two."""
    near, far = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
    ops = [op("a=1", near), op("b=20", near), op("c=1", far)]
    work = step(ops, [("a", "b"), ("a", "c")], {"a": 1000}, one_process=False)
    link = Machine(speed=1e5, processors=1.0)
    assert milliseconds(work, link) == pytest.approx(21)
    assert milliseconds(work, evolve(link, cores=1)) == pytest.approx(32)
    assert milliseconds(work, evolve(link, cores=1, processors=0.0)) == pytest.approx(22)
    apart = evolve(work, one_machine=False)  # each end has half of the work of carrying
    assert milliseconds(apart, evolve(link, cores=1)) == pytest.approx(26, abs=1)


def test_carrying_slows_the_receiver() -> None:
    """On its own machine each end uses half a core, once, for as long as it takes there beside others."""
    near, far = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
    ops = [op("a=1", near), op("c=1", far), op("d=20", far)]
    work = step(ops, [("a", "c")], {"a": 1000}, one_process=False, one_machine=False)
    found = simulate(work, Machine(cores=1, speed=1e5, processors=1.0))
    ends = {work.ops[each.op].name: each.end * 1e3 for each in found.bars}
    assert ends["d=20"] == pytest.approx(1 + 15 + 9)  # 10 ms of it take 15 meanwhile
    assert [each.end * 1e3 for each in found.hops] == pytest.approx([11])


def test_tensors_wait_for_a_link_that_uses_cores() -> None:
    """The second of two tensors arrives when both have been carried."""
    near, far = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
    ops = [op("a=1", near), op("b=1", near), op("c=1", far), op("d=1", far)]
    work = step(ops, [("a", "b"), ("a", "c"), ("b", "d")], {"a": 1000, "b": 1000}, one_process=False)
    found = simulate(work, Machine(cores=4, speed=1e5, processors=0.5))
    assert [round(each.end * 1e3, 6) for each in found.hops] == [11, 21]


def test_a_tensor_arrives_after_the_latency() -> None:
    """Whether or not the link uses cores, and the next tensor need not wait for it."""
    near, far = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
    ops = [op("a=1", near), op("b=1", near), op("c=1", far), op("d=1", far)]
    work = step(ops, [("a", "b"), ("a", "c"), ("b", "d")], {"a": 1000, "b": 1000}, one_process=False)
    for processors in (0.0, 0.5):
        found = simulate(work, Machine(cores=4, speed=1e5, latency=2e-3, processors=processors))
        assert [round(each.start * 1e3, 6) for each in found.hops] == [1, 11]
        assert [round(each.end * 1e3, 6) for each in found.hops] == [13, 23]
        assert found.seconds * 1e3 == pytest.approx(24)


# --- a process that stands for others ---------------------------------------------------------------------

NEAR, FAR = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)


@pytest.mark.parametrize(
    ("ops", "one_machine", "expected"),
    [
        ([op("a=10", NEAR), op("b=10", FAR)], True, 20),  # four tasks on two cores
        ([op("a=10", NEAR), op("b=10", FAR)], False, 10),
        ([op("b=10", FAR)], True, 15),
    ],
)
def test_processes_that_are_not_simulated_use_cores(ops: Any, one_machine: bool, expected: float) -> None:
    """One that stands for three of its machine uses the cores of three; on other machines it has its own."""
    work = step(ops, [], one_process=False, alike={FAR.host: 3}, one_machine=one_machine)
    assert milliseconds(work, Machine()) == pytest.approx(expected)


def test_a_tensor_is_handed_to_all_that_a_process_stands_for() -> None:
    """The one that is simulated gets it last; a process that gets nothing else costs the sender time too."""
    ops = [op("a=10", NEAR), op("b=1", NEAR), op("d=1", FAR)]
    link = Machine(cores=8, speed=1e12, giving=3e-3, work=3e-3)

    def starts(arrows: list[tuple[str, str]], *echoes: Echo) -> dict[str, float]:
        settings: dict[str, Any] = {"one_process": False, "op_threads": 1, "alike": {FAR.host: 3}}
        work = step(ops, arrows, {"a": 1}, echoes=echoes, **settings)
        return {work.ops[each.op].name[0]: each.start * 1e3 for each in simulate(work, link).bars}

    both, echo = [("a", "b"), ("a", "d")], Echo(0, FAR, "a:0", 1, 2)
    assert starts(both) == pytest.approx({"a": 0, "b": 13, "d": 13}, abs=1e-3)
    assert starts(both, echo) == pytest.approx({"a": 0, "b": 19, "d": 19}, abs=1e-3)
    assert starts(both[:1], echo) == pytest.approx({"a": 0, "b": 16, "d": 0}, abs=1e-3)


@pytest.mark.parametrize(("one_machine", "expected"), [(True, 1 + 30 + 10), (False, 1 + 20 + 10)])
def test_carrying_to_others_uses_cores(one_machine: bool, expected: float) -> None:
    """Two tensors of 10 ms that use a core each leave a third of it to an op; half of that is elsewhere."""
    work = step(
        [op("a=1", NEAR), op("b=20", NEAR)],
        [("a", "b")],
        one_process=False,
        one_machine=one_machine,
        op_threads=1,
        devices=(NEAR, FAR),
        alike={FAR.host: 3},
        echoes=(Echo(0, FAR, "a:0", 1000, 2),),
    )
    assert milliseconds(work, Machine(cores=1, speed=1e5, processors=1.0)) == pytest.approx(expected)


def test_a_process_asks_all_that_another_stands_for() -> None:
    """Three processes send a tensor each, which are asked for one after the other."""
    ops = [op("a=1", FAR), op("c=5", NEAR), op("d=1", NEAR)]
    work = step(ops, [("a", "d")], {"a": 1}, one_process=False, op_threads=1, alike={FAR.host: 3})
    found = simulate(work, Machine(cores=8, speed=1e12, asking=2e-3, work=2e-3))
    assert {work.ops[each.op].name[0]: each.start for each in found.bars}["c"] == pytest.approx(6e-3)


def test_a_circle_is_refused() -> None:
    """Ops that wait for each other never run."""
    with pytest.raises(ValueError, match="circle"):
        simulate(step([op("a=1"), op("b=1")], [("a", "b"), ("b", "a")]), Machine())


def test_the_same_step_takes_the_same_time() -> None:
    """Nothing in a simulation is random."""
    assert simulate(FORK, Machine()).bars == simulate(FORK, Machine()).bars


# --- what a forecast says of it ---------------------------------------------------------------------------


def test_the_critical_path_adds_up_to_the_step() -> None:
    """The path leads from the start to the end, over the longer way, without a gap."""
    forecast = forecast_step(FORK, Machine(step_start=0.5e-3, hand_over=0.25e-3))
    assert sum(each.seconds for each in forecast.path) == pytest.approx(forecast.seconds)
    assert [each.scope for each in forecast.path if each.what == "op"] == ["a", "c", "d"]
    for before, after in zip(forecast.path, forecast.path[1:], strict=False):
        assert before.start + before.seconds == pytest.approx(after.start)


def test_the_critical_path_goes_over_links() -> None:
    """A transfer is a part of the path, and its device is the way that it takes."""
    work = step([op("a=1"), op("b=1", OTHER_CPU)], [("a", "b")], {"a": 1000})
    path = forecast_step(work, Machine(speed=1e5)).path
    assert [(each.what, round(each.seconds * 1e3, 6)) for each in path] == [
        ("op", 1),
        ("transfer", 10),
        ("op", 1),
        ("start", 0),
    ]
    assert path[1].device == "cpu[0] -> cpu[1]"


def test_the_path_by_rule_and_scope() -> None:
    """What is on the path is added up by what it belongs to and by what placed it, the longest first."""
    work = step(
        [op("a=1", rule="x"), op("b=10", rule="y", scope="s"), op("c=5", rule="x", scope="s")],
        [("a", "b"), ("b", "c")],
    )
    forecast = forecast_step(work, Machine())
    found = forecast.for_map("")
    by_rule = [(each.name, round(each.seconds * 1e3, 6)) for each in found.by_rule]
    assert by_rule == [("y", 10), ("x", 6), ("(none)", 0)]
    assert (found.by_scope[0].name, found.by_scope[0].seconds) == ("s", pytest.approx(15e-3))


def test_how_busy_devices_and_links_are() -> None:
    """A device is busy while any of its ops runs, a link while it carries something."""
    work = step([op("a=10"), op("b=5"), op("d=10", OTHER_CPU)], [("a", "d")], {"a": 1000})
    forecast = forecast_step(work, Machine(speed=1e5))
    assert forecast.seconds * 1e3 == pytest.approx(30)
    assert {each.ref: round(each.busy, 6) for each in forecast.devices} == {
        "cpu[0]": round(10 / 30, 6),
        "cpu[1]": round(10 / 30, 6),
    }
    (link,) = forecast.links
    assert (link.from_device, link.to_device, link.bytes) == ("cpu[0]", "cpu[1]", 1000)
    assert link.busy == pytest.approx(10 / 30)


def test_moved_ops_run_elsewhere() -> None:
    """The same work with an op on another device has a transfer more."""
    work, moved = (
        step([op("a=10"), op("b=5", device), op("c=1", OTHER_CPU)], [("a", "b")], {"a": 1000})
        for device in (CPU, OTHER_CPU)
    )
    assert not forecast_step(work, Machine(speed=1e5)).links
    assert forecast_step(moved, Machine(speed=1e5)).seconds * 1e3 == pytest.approx(10 + 10 + 5)


def test_a_forecast_as_the_map_has_it() -> None:
    """With what it was made from, the seconds around the ops, and the part of them that was measured."""

    class Half(Machine):
        """A machine on which one op was never measured."""

        def of(self, op: Any) -> Any:
            """Return the cost of an op."""
            return evolve(super().of(op), estimated=op.name.startswith("b"))

    machine = Half(step_start=2e-3)
    forecast = forecast_step(step([op("a=1"), op("b=3")], [("a", "b")]), machine)
    assert forecast.measured == pytest.approx(1 / 4)
    assert forecast.around * 1e3 == pytest.approx(2)
    assert not forecast.estimate
    found = forecast.for_map("a profile")
    assert (found.seconds, found.source, found.measured) == (forecast.seconds, "a profile", forecast.measured)
    assert (found.devices, found.links) == (forecast.devices, forecast.links)
    assert [(each.name, round(each.seconds * 1e3, 6)) for each in found.by_scope] == [
        ("b", 3),
        ("(start and end of a step)", 2),
        ("a", 1),
    ]
    assert [each.name for each in found.by_rule] == ["", "(none)"]
    loops = forecast_step(step([op("a=1")], [], loops=((0,),)), machine)
    assert (loops.around, loops.path) == (0.0, ())
    empty = forecast_step(step([op("a=0")], []), Machine())
    assert (empty.measured, empty.seconds) == (1.0, 0.0)
