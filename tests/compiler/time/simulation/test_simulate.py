"""The simulation of a step, against steps whose times can be computed in the head."""

from typing import Any

import pytest
from attrs import evolve

from compiler.time.forecast import forecast_step
from compiler.time.simulation import machines
from compiler.time.simulation.simulate import ROUNDS, simulate
from compiler.time.simulation.simulated import rounds_between
from compiler.time.work import Echo, StepWork
from compiler.topology import Device
from tests.compiler.time.steps import CPU, GPU, OTHER_CPU, SECOND_GPU, Machine, op, step

NEAR, FAR = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
FORK_ARROWS = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]


def tasks(ops: list[Any], arrows: Any = (), sizes: dict[str, int] | None = None, **more: Any) -> StepWork:
    """Return a step of two tasks, near and far, which are processes of one machine."""
    return step(ops, list(arrows), sizes, one_process=False, **more)


def times(work: StepWork, machine: Machine) -> tuple[dict[str, float], dict[str, float]]:
    """Return the simulated starts and ends of ops in milliseconds, by their letters."""
    bars = [(work.ops[each.op].name[0], each) for each in simulate(work, machine).bars]
    return {name: each.start * 1e3 for name, each in bars}, {name: each.end * 1e3 for name, each in bars}


CHAIN = step([op("a=10"), op("b=20"), op("c=5")], [("a", "b"), ("b", "c")])
PAIR = step([op("a=10"), op("b=20")], [])
EQUAL = step([op("a=10"), op("b=10")], [])
WIDE = evolve(EQUAL, inner_threads=2)
FORK = step([op("a=1"), op("b=10"), op("c=20"), op("d=2")], FORK_ARROWS)
LATE_FORK = step([op("a=10"), op("b=20"), op("c=10"), op("d=2")], FORK_ARROWS)
APART = tasks([op("a=10", NEAR), op("b=10", FAR)], inner_threads=2)
CROSSING = tasks([op("a=0", NEAR), op("b=5", NEAR), op("c=5", FAR), op("d=0", FAR)], [("a", "d")], {"a": 1})
FOUR = tasks([op("a=10", NEAR), op("b=10", NEAR), op("c=10", FAR), op("d=10", FAR)])
CARRIED = tasks([op("a=1", NEAR), op("b=20", NEAR), op("c=1", FAR)], [("a", "b"), ("a", "c")], {"a": 1000})
STANDING: dict[str, Any] = {"one_machine": True, "alike": {FAR.host: 3}}
ECHOED = tasks(
    [op("a=1", NEAR), op("b=20", NEAR)],
    [("a", "b")],
    **STANDING,
    op_threads=1,
    devices=(NEAR, FAR),
    echoes=(Echo(0, FAR, "a:0", 1000, 2),),
)
LINK = Machine(speed=1e5, processors=1.0)
MESSAGES = Machine(cores=1, speed=1e12, message=1e-4, asking=2e-3, giving=2e-3)
TIMES: dict[str, list[tuple[StepWork, Machine, Any]]] = {
    "ops that need each other follow each other, others run side by side on as many cores as there are": [
        (CHAIN, Machine(), 35),
        (CHAIN, Machine(start=1e-3), 38),
        (PAIR, Machine(), 20),
        (PAIR, Machine(cores=1), 30),
        (FORK, Machine(), 1 + 20 + 2),
        (FORK, Machine(cores=1), 33),
        (evolve(EQUAL, op_threads=2), Machine(cores=1), 20),  # more threads than cores gain nothing
    ],
    "ops that take 1.5 times as long beside others do so while both run, and only then": [
        (PAIR, Machine(crowding=1.5), 15 + (20 - 10)),
    ],
    "an op on two threads takes half the time alone; two at once on two cores take as long as in turn": [
        (step([op("a=10")], [], inner_threads=2), Machine(widening=0.5), 5),
        (WIDE, Machine(widening=0.5), 10),
        (WIDE, Machine(widening=0.6), 12),
        (WIDE, Machine(widening=1.0), 10),
        (WIDE, Machine(widening=1.0, wide_cores=1.5), 15),  # those that gain nothing use what was measured
        (WIDE, Machine(widening=1.2, wide_cores=9), 24),
    ],
    "threads that look for work slow the op of another process, and none of their own": [
        (APART, Machine(), 10),
        (APART, Machine(awake=1.5), 15),
        (evolve(APART, inner_threads=1), Machine(awake=1.5), 10),  # one thread for an op never waits
        (APART, Machine(awake=9), 20),
        *((each, Machine(awake=9), 10) for each in (step([op("a=10")], [], inner_threads=2), WIDE)),
    ],
    "on one core, what a tensor costs the processors is added to the ops, however it is divided": [
        (CROSSING, evolve(MESSAGES, work=work), pytest.approx(expected, rel=0.02))
        for work, expected in ((4e-3, 10 + 4), (2e-3, 10 + 2), (6e-3, 10 + 4 + 2))
    ],
    "of two long ops an idle thread gets the one that its thread was not told of last, and comes late": [
        (LATE_FORK, Machine(), 10 + 20 + 2),
        (LATE_FORK, Machine(hand_over=3e-3), 10 + 3 + 20 + 2),
        (PAIR, Machine(hand_over=3e-3), 20),  # both threads begin with an op
        (
            evolve(LATE_FORK, ops=tuple(evolve(each, rounds=3) for each in LATE_FORK.ops)),
            Machine(hand_over=3e-3),
            10 + 3 * 3 + 20 + 2,
        ),
    ],
    "ops below the limit run one after the other although another core is free, in a loop as well": [
        (
            step([op("a=1"), *(op(f"{name}=0.002") for name in "bcde")], [("a", name) for name in "bcde"]),
            Machine(),
            1 + 4 * 0.002,
        ),
        (
            step(
                [evolve(op(each), rounds=8) for each in ("a=1", "b=0.016", "c=0.016")],
                [("a", "b"), ("a", "c")],
            ),
            Machine(),
            1 + 2 * 0.016,
        ),
    ],
    "logical CPU devices are not cores: four towers on two cores take twice as long as two": [
        (
            step([op("a=10", CPU), op("b=10", OTHER_CPU), op("c=10", CPU), op("d=10", OTHER_CPU)], []),
            Machine(),
            20,
        ),
    ],
    "two tasks with two ops each need twice the time on one machine of two cores as on two machines": [
        (FOUR, Machine(), 20),
        (evolve(FOUR, one_machine=False), Machine(), 10),
    ],
    "ops of a GPU follow each other behind their starts; two GPUs work at the same time": [
        (step([op("a=10", GPU), op("b=10", GPU)], []), Machine(start=1e-3), 21),
        (step([op("a=10", GPU), op("b=10", SECOND_GPU)], []), Machine(start=1e-3), 11),
        (step([op("a=10", GPU), op("b=10", GPU)], [], emulated=True), Machine(), 10),
    ],
    "a tensor of 10 ms that uses a core slows the op beside it on one core, and not on two": [
        (CARRIED, LINK, 21),
        (CARRIED, evolve(LINK, cores=1), 32),
        (CARRIED, evolve(LINK, cores=1, processors=0.0), 22),
        # On machines of their own each end has half of the work of carrying.
        (evolve(CARRIED, one_machine=False), evolve(LINK, cores=1), pytest.approx(26, abs=1)),
    ],
    "a process that stands for three of its machine uses the cores of three; elsewhere it has its own": [
        (evolve(APART, **STANDING, inner_threads=1), Machine(), 20),
        (evolve(APART, alike={FAR.host: 3}, one_machine=False, inner_threads=1), Machine(), 10),
        (tasks([op("b=10", FAR)], **STANDING), Machine(), 15),
    ],
    "two tensors to others that use a core each leave a third of it to an op; half of that is elsewhere": [
        (ECHOED, evolve(LINK, cores=1), 1 + 30 + 10),
        (evolve(ECHOED, one_machine=False), evolve(LINK, cores=1), 1 + 20 + 10),
    ],
}


@pytest.mark.parametrize("rule", TIMES)
def test_steps_take_as_long_as_one_can_compute(rule: str) -> None:
    """Each row has a step, a machine, and milliseconds."""
    for number, (work, machine, expected) in enumerate(TIMES[rule]):
        found = simulate(work, machine).seconds * 1e3
        assert found == (pytest.approx(expected) if isinstance(expected, int | float) else expected), number


def test_tasks_of_one_machine_have_threads_of_their_own_number() -> None:
    """Two threads work on the op of the first task, one on that of the second, and none looks for work."""
    shared = evolve(APART, task_threads={FAR.host: 1})
    _, ends = times(shared, Machine(cores=3, widening=0.5))
    assert ends == pytest.approx({"a": 6.25, "b": 10})  # Amdahl: 5 ms on three cores
    awake = Machine(cores=2, awake=1.5)
    assert simulate(shared, awake).seconds > simulate(evolve(shared, looking=False), awake).seconds


def test_asking_and_giving_take_time_of_threads() -> None:
    """Each task has one thread: the receiver asks for two tensors first, and the sender hands over each."""
    ops = [op("a=10", NEAR), op("b=10", NEAR), op("c=20", FAR), op("d=1", FAR), op("e=1", FAR)]
    work = tasks(ops, [("a", "b"), ("a", "d"), ("b", "e")], {"a": 1, "b": 1}, op_threads=1)
    link = Machine(cores=4, speed=1e9, asking=2e-3, giving=3e-3, work=5e-3)
    starts, _ = times(work, link)
    assert starts["c"] == pytest.approx(2 * 2)
    assert starts["b"] == pytest.approx(10 + 3)
    assert starts["e"] == pytest.approx(max(10 + 3 + 10 + 3, 2 * 2 + 20 + 1), rel=1e-3)
    late = tasks([op("a=1", NEAR), op("c=5", FAR), op("d=1", FAR)], [("a", "d")], {"a": 1}, op_threads=1)
    slow = simulate(late, evolve(link, asking=9e-3))
    assert slow.hops[0].start * 1e3 == pytest.approx(9)  # it was there before it was asked for
    rounds = evolve(work, loops=((0, 1, 2, 3, 4),))
    assert simulate(rounds, link).seconds > 0  # each round asks again


@pytest.mark.parametrize(("cores", "expected"), [(1.0, 12), (2.0, 14)])
def test_starting_a_round_uses_cores(cores: float, expected: float) -> None:
    """Two clones of 10 ms that begin their rounds at the same time: that takes 2 ms, or twice as long."""
    found = simulate(evolve(EQUAL, loops=((0,), (1,))), Machine(step_start=2e-3, start_cores=cores))
    assert found.seconds / found.updates * 2 * 1e3 == pytest.approx(expected)
    assert found.updates == 2 * (ROUNDS - 1)  # the first of each clone is the start of what is looked at


@pytest.mark.parametrize("slower", [1.0, 1.001, 3.0, 10.0])
def test_updates_of_clones_are_counted_by_their_parts(slower: float) -> None:
    """Two clones on GPUs of their own make as many updates as each alone, though one is slower."""
    work = step([op("a=1", GPU), op(f"b={slower}", SECOND_GPU)], [], loops=((0,), (1,)))
    found = simulate(work, Machine(cores=4))
    assert found.updates / found.seconds / 1e3 == pytest.approx(1 + 1 / slower)
    assert found.seconds * 1e3 >= (ROUNDS - 1) * slower  # the slowest has made all of its rounds
    busy = [sum(bar.end - bar.start for bar in found.bars if bar.op == at) for at in range(2)]
    assert busy == [pytest.approx(found.seconds)] * 2  # both GPUs are always busy


def test_rounds_count_by_their_parts() -> None:
    """The one that goes on at the end is as long as it will be, or, if that is not known, as the last."""
    assert rounds_between([1.0, 3.0, 4.0], 2.0, 3.5) == pytest.approx(0.5 + 0.5)
    assert rounds_between([1.0, 3.0], 3.0, 4.0) == pytest.approx(0.5)
    assert rounds_between([1.0, 3.0], 3.0, 9.0) == pytest.approx(1.0)
    assert rounds_between([1.0], 1.0, 9.0) == 0.0


def test_each_round_of_a_loop_waits_for_its_tensor() -> None:
    """Four rounds are sent one after the other; what is carried is the sum."""
    ops = [evolve(op("a=1"), rounds=4), evolve(op("b=1", OTHER_CPU), rounds=4)]
    machine = Machine(op_start=0.5e-3, speed=1e6, latency=2e-3)
    found = simulate(step(ops, [("a", "b")], {"a": 1000}), machine)
    assert found.seconds * 1e3 == pytest.approx(1 + 4 * (2 * 0.5 + 1 + 2) + 1)
    assert [each.bytes for each in found.hops] == [4000]


TWO_SENT = tasks(
    [op("a=1", NEAR), op("b=1", NEAR), op("c=1", FAR), op("d=1", FAR)],
    [("a", "b"), ("a", "c"), ("b", "d")],
    {"a": 1000, "b": 1000},
)
MEANWHILE = step(
    [op("a=1"), op("b=1"), op("e=30"), op("c=1", OTHER_CPU), op("d=1", OTHER_CPU)],
    [("a", "b"), ("b", "e"), ("a", "c"), ("b", "d")],
    {"a": 1000, "b": 1000},
)


@pytest.mark.parametrize(
    ("work", "machine", "hops", "seconds"),
    [
        (MEANWHILE, Machine(speed=1e5), [(1, 11), (11, 21)], 32),  # the sender goes on computing
        (TWO_SENT, Machine(cores=4, speed=1e5, processors=0.5), [(1, 11), (11, 21)], 22),
        *(  # after the latency, for which the next tensor need not wait
            (TWO_SENT, Machine(cores=4, speed=1e5, latency=2e-3, processors=each), [(1, 13), (11, 23)], 24)
            for each in (0.0, 0.5)
        ),
    ],
)
def test_a_link_carries_one_tensor_at_a_time(
    work: StepWork, machine: Machine, hops: list[tuple[float, float]], seconds: float
) -> None:
    """Two tensors of 10 ms each arrive one after the other, whether or not the link uses cores."""
    found = simulate(work, machine)
    assert [(round(each.start * 1e3, 6), round(each.end * 1e3, 6)) for each in found.hops] == hops
    assert found.seconds * 1e3 == pytest.approx(seconds)
    ends = {work.ops[each.op].name[0]: each.end * 1e3 for each in found.bars}
    assert (ends["c"], ends["d"]) == pytest.approx((hops[0][1] + 1, hops[1][1] + 1))


def test_a_tensor_is_sent_once() -> None:
    """However many ops of a device use a tensor, it crosses once."""
    ops = [op("a=1"), op("b=1", OTHER_CPU), op("c=1", OTHER_CPU)]
    work = step(ops, [("a", "b"), ("a", "c")], {"a": 1000})
    assert len(simulate(work, Machine(speed=1e5)).hops) == 1


def test_an_op_on_another_device_waits_for_the_gpu() -> None:
    """A GPU's op can be followed on the GPU as soon as it is started, elsewhere only when it is done."""
    work = step([op("a=10", GPU), op("b=10", GPU), op("c=1")], [("a", "b"), ("a", "c")])
    starts, _ = times(work, Machine(start=1e-3, cores=4))
    assert starts["b"] == pytest.approx(11)
    assert 11 <= starts["c"] <= 13


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


def test_updates_take_turns_at_a_mutex() -> None:
    """Two clones on cores enough for both hold the mutex for 10 ms in each round, one after the other."""
    arrows = [("a", "b"), ("b", "c"), ("c", "d"), ("e", "f"), ("f", "g"), ("g", "h")]
    ops = [op(each) for each in ("a=1", "b=0", "c=10", "d=0", "e=1", "f=0", "g=10", "h=0")]
    free = step(ops, arrows, loops=((0, 1, 2, 3), (4, 5, 6, 7)))
    alone = step(ops[:4], arrows[:3], loops=((0, 1, 2, 3),))  # which finds the mutex free in each round

    def seconds(work: StepWork, *, locked: bool) -> float:
        held = [
            evolve(each, enters="m" * (each.name[0] in "bf"), leaves="m" * (each.name[0] in "dh"))
            for each in work.ops
        ]
        return forecast_step(evolve(work, ops=tuple(held)) if locked else work, Machine(cores=4)).seconds

    assert seconds(free, locked=False) * 1e3 == pytest.approx(5.5, abs=0.6)
    assert seconds(free, locked=True) * 1e3 == pytest.approx(10, abs=0.6)
    assert seconds(alone, locked=True) == seconds(alone, locked=False)


def test_a_process_begins_another_run() -> None:
    """When the last of what it waits for is there, the start of a run is made once more."""
    ops = [op("a=10", OTHER_CPU), op("b=2"), evolve(op("c=0"), begins=True), op("d=1")]
    arrows, starting = [("a", "c"), ("b", "c"), ("c", "d")], 0.5e-3
    found = simulate(step(ops, arrows), Machine(cores=4, step_start=starting))
    at_once = simulate(step([*ops[:2], op("c=0"), ops[3]], arrows), Machine(cores=4))
    assert found.seconds == pytest.approx(at_once.seconds + starting)


def test_carrying_slows_the_receiver() -> None:
    """On its own machine each end uses half a core, once, for as long as it takes there beside others."""
    ops = [op("a=1", NEAR), op("c=1", FAR), op("d=20", FAR)]
    work = tasks(ops, [("a", "c")], {"a": 1000}, one_machine=False)
    _, ends = times(work, evolve(LINK, cores=1))
    assert ends["d"] == pytest.approx(1 + 15 + 9)  # 10 ms of it take 15 meanwhile
    assert [each.end * 1e3 for each in simulate(work, evolve(LINK, cores=1)).hops] == pytest.approx([11])


def test_a_tensor_is_handed_to_all_that_a_process_stands_for() -> None:
    """The one that is simulated gets it last; a process that gets nothing else costs the sender time too."""
    ops, both = [op("a=10", NEAR), op("b=1", NEAR), op("d=1", FAR)], [("a", "b"), ("a", "d")]
    link, echo = Machine(cores=8, speed=1e12, giving=3e-3, work=3e-3), Echo(0, FAR, "a:0", 1, 2)
    for arrows, echoes, expected in (
        (both, (), {"a": 0, "b": 13, "d": 13}),
        (both, (echo,), {"a": 0, "b": 19, "d": 19}),
        (both[:1], (echo,), {"a": 0, "b": 16, "d": 0}),
    ):
        work = tasks(ops, arrows, {"a": 1}, echoes=echoes, op_threads=1, alike={FAR.host: 3})
        assert times(work, link)[0] == pytest.approx(expected, abs=1e-3)


def test_a_process_asks_all_that_another_stands_for() -> None:
    """Three processes send a tensor each, which are asked for one after the other."""
    ops = [op("a=1", FAR), op("c=5", NEAR), op("d=1", NEAR)]
    work = tasks(ops, [("a", "d")], {"a": 1}, op_threads=1, alike={FAR.host: 3})
    assert times(work, Machine(cores=8, speed=1e12, asking=2e-3, work=2e-3))[0]["c"] == pytest.approx(6)


def test_a_circle_is_refused() -> None:
    """Ops that wait for each other never run."""
    with pytest.raises(ValueError, match="circle"):
        simulate(step([op("a=1"), op("b=1")], [("a", "b"), ("b", "a")]), Machine())


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
    found = [(each.what, round(each.seconds * 1e3, 6)) for each in path]
    assert found == [("op", 1), ("transfer", 10), ("op", 1), ("start", 0)]
    assert path[1].device == "cpu[0] -> cpu[1]"


def test_the_path_by_rule_and_scope() -> None:
    """What is on the path is added up by what it belongs to and by what placed it, the longest first."""
    ops = [op("a=1", rule="x"), op("b=10", rule="y", scope="s"), op("c=5", rule="x", scope="s")]
    found = forecast_step(step(ops, [("a", "b"), ("b", "c")]), Machine()).for_map()
    by_rule = [(each.name, round(each.seconds * 1e3, 6)) for each in found.by_rule]
    assert by_rule == [("y", 10), ("x", 6), ("(none)", 0)]
    assert (found.by_scope[0].name, found.by_scope[0].seconds) == ("s", pytest.approx(15e-3))


def test_how_busy_devices_and_links_are() -> None:
    """A device is busy while any of its ops runs, a link while it carries something."""
    work = step([op("a=10"), op("b=5"), op("d=10", OTHER_CPU)], [("a", "d")], {"a": 1000})
    forecast = forecast_step(work, Machine(speed=1e5))
    assert forecast.seconds * 1e3 == pytest.approx(30)
    assert {each.ref: each.busy for each in forecast.devices} == pytest.approx(
        {"cpu[0]": 10 / 30, "cpu[1]": 10 / 30}
    )
    (link,) = forecast.links
    assert (link.from_device, link.to_device, link.bytes) == ("cpu[0]", "cpu[1]", 1000)
    assert link.busy == pytest.approx(10 / 30)
    assert not forecast_step(FORK, Machine(speed=1e5)).links  # on one device


def test_a_forecast_as_the_map_has_it() -> None:
    """With what it was made from, the seconds around the ops, and the part of them that was measured."""

    class Half(Machine):
        """A machine on which one op was never measured."""

        def of(self, op: Any) -> Any:
            """Return the cost of an op."""
            return evolve(super().of(op), estimated=op.name.startswith("b"))

    machine = Half(step_start=2e-3, source="a profile")
    forecast = forecast_step(step([op("a=1"), op("b=3")], [("a", "b")]), machine)
    assert forecast.measured == pytest.approx(1 / 4)
    assert forecast.around * 1e3 == pytest.approx(2)
    assert not forecast.estimate
    found = forecast.for_map()
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


def test_tasks_that_end_together_are_taken_together() -> None:
    """If rounding leaves a little of all of them, the one with the least of it ends."""
    machine = machines.Machine(2, 1.0)
    first, second, third, fourth = (
        machines.Active(None, None, 0.0, each, 1.0, 1.0, None) for each in (1.0, 1.0, 1.0, 1.5)
    )
    for each in (first, second):
        machine.begin(each, 0.0)
    assert machine.take_ended(machine.next_end(0.0)) == [first, second]
    for each in (third, fourth):
        machine.begin(each, 1.0)
    machine.next_end(1.0)
    assert machine.take_ended(2.0 - 1e-9) == [third]
