"""What is asked of a map by kinds is what the map of each clone says."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from attrs import evolve

from compiler.kinds.kind_map import KindMap
from compiler.kinds.kinds import BusyKind, KindTime, LinkTimeKind, SlotKind
from compiler.mapping.records import DeviceTime, LinkTime, MapSlot, MapTensor, PlacementMap, Sought
from compiler.report.compare import compare
from compiler.report.page.data import Side, diff_data
from tests.placement_maps import make_kinds, make_map

SERVER, GPU = "ps[0].cpu[0]", "worker[{task}].gpu[{device}]"
TOWER = range(1, 5)


def timed() -> KindMap:
    """Return the map of three workers with two clones each, with slots on all of them and a forecast."""
    placement = make_kinds(3, 2)
    (variable,) = placement.variable_kinds
    slots = tuple(SlotKind(of, MapSlot("fc1/kernel/part_{clone}", 8, GPU)) for of in TOWER)
    devices = tuple(
        evolve(each, like=evolve(each.like, largest=(MapTensor("clone_{clone}/y:0", 4),)))
        if each.of
        else each
        for each in placement.device_kinds
    )
    time = KindTime(
        seconds=0.5,
        estimate=True,
        measured=0.25,
        source="v100",
        device_kinds=(
            BusyKind(0, DeviceTime(SERVER, 0.1, 0.2)),
            *(BusyKind(of, DeviceTime(GPU, 0.1 * of, 0.2 * of)) for of in TOWER),
        ),
        link_kinds=tuple(LinkTimeKind(of, LinkTime(SERVER, GPU, 0.01 * of, 0.02 * of, 64)) for of in TOWER),
        by_scope=(),
        by_rule=(),
    )
    variables = (evolve(variable, slots=(*variable.slots, *slots)),)
    return evolve(placement, variable_kinds=variables, device_kinds=devices, time=time, listed="worker:0")


def test_each_part_of_a_map_is_expanded_by_itself() -> None:
    """Who needs a part gets what the whole has."""
    placement, whole = timed(), timed().expanded()
    assert whole.expanded() is whole
    for part in ("devices", "clones", "workers", "transfers", "variables", "device_times", "op_count"):
        assert getattr(placement, part) == getattr(whole, part) != ()
    assert whole.op_count == len(whole.ops)
    assert placement.ran == whole.ran == 0
    assert placement.misplaced == whole.misplaced == ()
    assert [each.name for each in placement.variables_like] == [each.name for each in whole.variables]


def test_every_clone_has_its_own_names_and_numbers() -> None:
    """Slots, the largest tensors of devices, and the time of a step."""
    whole = timed().expanded()
    gpus = [f"worker[{task}].gpu[{at}]" for task in range(3) for at in range(2)]
    (variable,) = whole.variables
    assert [(each.name, each.device) for each in variable.slots] == [
        ("fc1/kernel/Adam", SERVER),
        *((f"fc1/kernel/part_{at}", gpu) for at, gpu in enumerate(gpus)),
    ]
    assert [each.largest for each in whole.devices] == [
        (),
        *((MapTensor(f"clone_{at}/y:0", 4),) for at in range(6)),
    ]
    assert whole.time is not None
    assert (whole.time.seconds, whole.time.estimate, whole.time.measured, whole.time.source) == (
        0.5,
        True,
        0.25,
        "v100",
    )
    assert [each.ref for each in whole.time.devices] == [SERVER, *gpus]
    assert {each.to_device for each in whole.time.links} == {*gpus}


def test_busy_devices_and_links() -> None:
    """Each device has its share, and the busiest links come first."""
    placement, whole = timed(), timed().expanded()
    assert placement.device_times == whole.device_times
    busy = {each.ref: each.busy for each in placement.device_times}
    assert busy["worker[2].gpu[1]"] == pytest.approx(0.8)
    for each in (placement, whole):
        links = [link.busy for link in each.busiest_links()]
        assert links[:3] == pytest.approx([0.08, 0.08, 0.06])
        assert len(links) == 6
    busiest = [link.to_device for link in placement.busiest_links()]
    assert set(busiest[:2]) == {"worker[1].gpu[1]", "worker[2].gpu[1]"}
    for bare in (make_kinds(), make_map()):
        assert bare.device_times == ()
        assert list(bare.busiest_links()) == []
        assert bare.expanded().time is None


@pytest.mark.parametrize(
    ("glob", "number"),
    [
        ("*", 14),
        ("fc1/MatMul", 6),
        ("clone_*/fc1/MatMul", 6),
        ("clone_4/fc1/*", 2),
        ("clone_[13]/*", 4),
        ("fc1/kernel", 1),
        ("fc1/kernel/*", 7),
        ("clone_5", 0),
        ("other*", 0),
    ],
)
def test_ops_are_chosen_by_their_names(glob: str, number: int) -> None:
    """In the graph, or in their tower; those of a kind are counted together if all of them match."""
    placement, whole = timed(), timed().expanded()
    found, singles = (list(each.counted(Sought.of_glob(glob))) for each in (placement, whole))
    assert sum(each.count for each in found) == sum(each.count for each in singles) == number
    assert {each.first for each in found} <= {each.first for each in singles}
    for each in found:
        assert each.each * len(each.devices) == each.count
    by_device = [
        sorted(ref for each in ops for ref in each.devices for _ in range(each.each))
        for ops in (found, singles)
    ]
    assert by_device[0] == by_device[1]


def test_all_ops_are_counted() -> None:
    """As many as the map of each clone has, with the devices of each kind."""
    placement = timed()
    found = list(placement.counted())
    assert sum(each.count for each in found) == placement.op_count
    assert len(found) == len(placement.op_kinds)
    assert [each.count for each in placement.expanded().counted()] == [1] * 14
    reads = [each for each in found if each.op.type == "ReadVariableOp"]
    assert [(each.count, each.each, each.first) for each in reads] == [
        (1, 1, "clone_0/fc1/kernel/read"),
        (1, 1, "clone_1/fc1/kernel/read"),
        (2, 2, "clone_2/fc1/kernel/read"),
        (2, 2, "clone_3/fc1/kernel/read"),
    ]


def test_readers_ask_the_same_of_both_maps() -> None:
    """A map by kinds lacks nothing that the other has but the list of its ops, which `expanded` makes."""
    offered = {name for name in dir(PlacementMap) if not name.startswith("_")}
    assert offered - set(dir(KindMap)) == {"ops"}
    placement = timed()
    (variable,) = placement.expanded().variables
    assert placement.variables == (variable,)
    held, held_by_each = placement.held(), placement.expanded().held()
    assert {held[each.like.name] for each in placement.op_kinds if each.like.name in held} == {64}
    assert held_by_each["fc1/kernel"] == held["fc1/kernel"]


def _moved() -> KindMap:
    """Return the map with the read of all clones but the first on a GPU, which makes a link larger."""
    placement = make_kinds()
    ops = list(placement.op_kinds)
    read = ops[8]
    assert read.of == 4
    ops[8] = evolve(read, like=evolve(read.like, requested="worker[{task}].gpu[{device}]"))
    links = list(placement.transfer_kinds)
    links[3] = evolve(links[3], like=evolve(links[3].like, bytes=128))
    return evolve(placement, op_kinds=tuple(ops), transfer_kinds=tuple(links))


def test_only_what_differs_is_expanded() -> None:
    """The comparison, and its page, are those of the expanded maps."""
    before, after = make_kinds(), _moved()
    found = compare(before, after)
    assert found == compare(before.expanded(), after.expanded())
    assert len(found.ops) == len(found.links) == 63 * 7
    assert {each.before for each in found.ops} == {("ps[0].cpu[0]",)}
    one, other = before.expanded(after), after.expanded(before)
    assert len(one.ops) == len(other.ops) == 63 * 7
    assert len(one.transfers) == 63 * 7
    sides = [(Side("a", before, {}), Side("b", after, {}))]
    sides.append((Side("a", before.expanded(), {}), Side("b", after.expanded(), {})))
    pages = [diff_data(*each, found) for each in sides]
    assert pages[0] == pages[1]


def test_maps_of_other_numbers_of_clones_are_compared_as_well() -> None:
    """Everything is expanded for that, also if one of them has the records of each clone."""
    few, many = make_kinds(2, 2), make_kinds(3, 2)
    found = compare(few, many)
    assert found == compare(few.expanded(), many.expanded()) == compare(few, many.expanded())
    assert {each.clone for each in found.ops} == {4, 5}


GLOBS = {
    "clone_*/fc1/MatMul": ("clone_", "/MatMul"),
    "clone_[!]0-3]/*": ("clone_", "clone"),
    "fc1/kernel": ("fc1/kernel", "/kernel"),
    "*": ("", ""),
}


@pytest.mark.parametrize("glob", GLOBS)
def test_what_all_names_have_that_match_a_glob(glob: str) -> None:
    """A beginning, and a text without digits, brackets or what a number of a clone may stand in."""
    sought = Sought.of_glob(glob)
    assert (sought.begin, sought.part) == GLOBS[glob]


@pytest.mark.parametrize("glob", ["clone_4/*", "*_5/fc1/M*", "*kernel/read", "clone_[3-4]/fc?/*", "*/read_1"])
def test_members_are_those_whose_names_match(glob: str) -> None:
    """All ops with such names are found, in the graph or in their tower, and no others."""
    placement = make_kinds(3, 2)
    names = [each.name for each in placement.expanded().ops]
    inside = [name.partition("/")[2] if name.startswith("clone_") else name for name in names]
    wanted = sum(
        fnmatchcase(name, glob) or fnmatchcase(own, glob) for name, own in zip(names, inside, strict=True)
    )
    found = 0
    for at, members in placement.members_sought(Sought.of_glob(glob)):
        every = placement.kinds[placement.op_kinds[at].of].count
        assert members is None or members
        found += every if members is None else len(members)
    assert found == wanted


def test_only_names_that_may_match_are_written() -> None:
    """Of a name that is known but for its end, those of other clones and of other ops are not looked at."""
    asked: list[str] = []

    def matches(name: str) -> bool:
        asked.append(name)
        return False

    sought = Sought.of_glob("clone_5/fc1/*", matches)
    assert list(make_kinds(3, 2).members_sought(sought)) == []
    written = [each for each in asked if each.startswith("clone_")]
    assert written
    assert all(each.startswith("clone_5/fc1/") for each in written)
