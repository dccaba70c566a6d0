"""What the figures of placements are compared by, against steps whose times can be computed in the head."""

import pytest
from attrs import evolve

from compiler.suggest.outcome import Figures, Goal, NoForecastError, bound, held
from compiler.time.forecast import forecast_step
from compiler.topology import Device
from tests.compiler.time.steps import GPU, Machine, op, step
from tests.placement_maps import make_map


def test_no_step_is_shorter_than_its_longest_chain() -> None:
    """A chain of ops counts with what each of them waits for; an equal share counts if it is larger."""
    ops = [op("a=10"), op("b=20"), op("c=5"), op("d=1")]
    arrows = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    machine = Machine(cores=8)

    def least(pairs: list[tuple[str, str]], **more: object) -> float:
        return bound(Goal.STEP_TIME, make_map(1), step(ops, pairs, **more), machine) * 1e3

    assert least(arrows) == pytest.approx(10 + 20 + 1)
    assert least([("a", "b")]) == pytest.approx(10 + 20)
    assert least([]) == pytest.approx(20)
    one_core = bound(Goal.STEP_TIME, make_map(1), step(ops, []), evolve(machine, cores=1))
    assert one_core * 1e3 == pytest.approx(36)
    assert least([], loops=((0,), (1,))) == pytest.approx(36 / 8 / 2)


def figures(missing: int, seconds: float | None) -> Figures:
    """Return the figures of a placement that lacks some bytes and takes some time."""
    return Figures(missing, seconds, ("gpu[0]", 7), ("cpu[0]", 5), 3)


def test_the_figure_of_a_goal() -> None:
    """The time, the memory of the fullest device, or what one device holds."""
    assert [figures(0, 2.0).value(each) for each in Goal] == [2.0, 7, 5]
    with pytest.raises(NoForecastError):
        figures(0, None).value(Goal.STEP_TIME)


def test_the_figures_of_a_map() -> None:
    """Variables and slots count together, and memory that is missing is added up over devices."""
    cpu, *gpus = make_map(2).devices
    devices = (
        evolve(cpu, memory_bytes=50, memory_limit=40, variable_bytes=10, slot_bytes=1),
        evolve(gpus[0], memory_bytes=90, memory_limit=70, variable_bytes=9, slot_bytes=9),
        evolve(gpus[1], memory_bytes=60, memory_limit=1000, variable_bytes=12, slot_bytes=3),
    )
    placement = evolve(make_map(2), devices=devices)
    found = Figures.of(placement, None)
    assert (found.missing, found.fullest, found.heaviest) == (10 + 20, ("gpu[0]", 90), ("gpu[0]", 18))
    assert found.sent == sum(each.bytes for each in placement.transfers)
    assert (found.seconds, found.bottleneck) == (None, "")
    assert [held(each) for each in devices] == [11, 18, 15]
    unknown = tuple(evolve(each, memory_bytes=None) for each in devices)
    assert Figures.of(evolve(placement, devices=unknown), None).fullest == ("cpu[0]", 0)


@pytest.mark.parametrize(
    ("speed", "told"),
    [(1e5, "gpu[0], busy 67 % of the time"), (1e4, "the link from cpu[0] to gpu[0], busy 83 % of the time")],
)
def test_the_bottleneck_is_what_is_busiest(speed: float, told: str) -> None:
    """A device or a link."""
    work = step([op("a=0"), op("b=20", GPU)], [("a", "b")], {"a": 1000})
    found = Figures.of(make_map(1), forecast_step(work, Machine(speed=speed)))
    assert found.bottleneck == told


def test_no_device_holds_less_than_an_equal_share() -> None:
    """Variables and slots count once, however many copies there are; parts of a slot are parts of it."""
    placement = make_map(2)
    whole = 2 * (1152 + 20480) / 3
    for goal in (Goal.MEMORY, Goal.BALANCE):
        assert bound(goal, placement, None, None) == pytest.approx(whole)
    copied = [
        evolve(each, copies=("gpu[0]", "gpu[1]"), slots=(each.slots[0], each.slots[0]))
        for each in placement.variables
    ]
    assert bound(Goal.MEMORY, evolve(placement, variables=tuple(copied)), None, None) == pytest.approx(whole)
    halves = [
        evolve(each, slots=tuple(evolve(slot, bytes=slot.bytes // 2) for slot in each.slots))
        for each in copied
    ]
    assert bound(Goal.MEMORY, evolve(placement, variables=tuple(halves)), None, None) == pytest.approx(whole)


def test_an_equal_share_is_for_all_cores_and_gpus() -> None:
    """Machines have cores of their own, and an op is no slower than on the device that is best for it."""
    near, far = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
    ops = [op(f"{name}=10", device) for name, device in zip("abcdef", (near, far) * 3, strict=True)]
    tasks = step(ops, [], one_process=False)

    def least(work: object, machine: Machine) -> float:
        return bound(Goal.STEP_TIME, make_map(1), work, machine) * 1e3  # type: ignore[arg-type]

    assert least(tasks, Machine(cores=1)) == pytest.approx(60 / 2)
    assert least(evolve(tasks, one_process=True), Machine(cores=1)) == pytest.approx(60)
    assert least(step([*ops, op("g=0", GPU)], []), Machine(cores=1)) == pytest.approx(60 / 2)
    assert least(step([op("a=10")], []), Machine(cores=4, widening=0.5)) == pytest.approx(5)
