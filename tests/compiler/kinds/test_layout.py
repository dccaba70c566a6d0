"""Which deployments are grids of clones that are alike, and what smaller ones are built in their stead."""

from __future__ import annotations

import pytest

from compiler.kinds.grid import MapGrid, NotAlikeError
from compiler.kinds.layout import grid_of, why_not, with_grid
from compiler.pipeline import make_plan
from compiler.plan import Plan
from compiler.topology import declare
from compiler.towers import each_clone_reads, lay_out_towers
from tests.specs import CLASSES
from tests.support import spec_of

WORKERS = 'job "ps" { tasks = 2 }\n job "worker" { tasks = 4, gpu = 2 }'
CPUS = 'job "ps" { tasks = 1 }\n job "worker" { tasks = 3, cpu = 2 }'
DATA = "synthetic(64, x = feature(float32, [4]), label = feature(int32, classes = 2))"


def plan(
    devices: str, place: str = "", *, clones: str = "batch = 2", update: str = "", data: str = ""
) -> Plan:
    """Return the plan of a small model."""
    return make_plan(
        spec_of(
            f"{CLASSES}devices {{\n {devices}\n}}\nclones {{ {clones} }}\nplace {{\n {place}\n}}\n"
            f"update {{\n optimizer = SGD(0.1)\n {update}\n}}\n{data}"
        )
    )


GRIDS = [
    ("gpu = 6", "", {}, MapGrid(None, "gpu", 1, 6, 1)),
    ("cpu = 6", "", {}, MapGrid(None, "cpu", 1, 6, 1)),
    ("gpu = 6", "clones -> groups(gpu[*], size = 2)", {}, MapGrid(None, "gpu", 1, 3, 2)),
    ("cpu = 3\n gpu = 6", "variables -> cpu[2]", {}, MapGrid(None, "gpu", 1, 6, 1)),
    ("cpu = 3\n gpu = 6", "variables -> balanced(cpu[*])", {}, MapGrid(None, "gpu", 1, 6, 1)),
    # Copies that are averaged, data that all split or each reads, and a collective are alike, too.
    ("gpu = 6", "", {"update": "mode = local\n average_every = 2"}, MapGrid(None, "gpu", 1, 6, 1)),
    ("gpu = 6", "", {"update": "aggregate = collective"}, MapGrid(None, "gpu", 1, 6, 1)),
    *(
        ("gpu = 6", "", {"data": f"data {{\n {more}train = {DATA}\n}}\n"}, MapGrid(None, "gpu", 1, 6, 1))
        for more in ("", "per_clone = split\n ", "per_clone = shard\n ")
    ),
    (WORKERS, "clones -> groups(gpu[*], size = 2)", {}, MapGrid("worker", "gpu", 4, 1, 2)),
    *(
        (WORKERS, place, {}, MapGrid("worker", "gpu", 4, 2, 1))
        for place in (
            "",
            "variables -> balanced(ps[*])\n updates -> ps[1]",
            "variables -> replicated",
            "inputs -> worker[*].cpu[0]\n summaries -> worker[0].cpu[0]",
            'ops("a/*") -> gpu[*]\n evaluation -> worker[0].gpu[0]',
        )
    ),
    # Workers with graphs of their own have equally many clones each, and not the sums of tasks in one graph.
    *(
        (
            WORKERS,
            "",
            {"update": f"replication = between_graph\n aggregate = {each}"},
            MapGrid("worker", "gpu", 4, 2, 1),
        )
        for each in ("tree", "ring", "shuffle", "hierarchical", "hierarchical(3)")
    ),
    (CPUS, "", {}, MapGrid("worker", "cpu", 3, 2, 1)),
    (CPUS, "variables -> sharded(worker[0].cpu[0])", {}, MapGrid("worker", "cpu", 3, 2, 1)),
]


@pytest.mark.parametrize(("devices", "place", "more", "grid"), GRIDS)
def test_grids(devices: str, place: str, more: dict[str, str], grid: MapGrid) -> None:
    """Rules may name the first device or task, all of them, and what has no clones."""
    found = plan(devices, place, **more)
    assert grid_of(found) == grid
    assert each_clone_reads(found) is ("shard" in more.get("data", ""))


ALL = "they do not have all devices of one kind, one each"
SOME = "a rule names devices of some of them"
SPREAD = "a rule spreads variables over their devices"
ROUNDS = "the rounds of `hierarchical` depend on the number of clones"
COPIES = "variables -> replicated"


@pytest.mark.parametrize(
    ("devices", "place", "more", "reason"),
    [
        ("gpu = 6", "", {"clones": "batch = [2, 2, 2, 2, 2, 3]"}, "they have batches of different sizes"),
        ("gpu = 6", "", {"clones": "count = 5"}, ALL),
        ("gpu = 3", "", {"clones": "count = 6"}, ALL),
        ("gpu = 6", "clones -> [gpu[1], gpu[0], gpu[2..5]]", {}, ALL),
        ("gpu = 5", "clones -> groups(gpu[*], size = 2)", {}, ALL),
        (WORKERS, "clones -> worker[0..2].gpu[*]", {}, ALL),
        ('job "ps" { tasks = 3 }', "clones -> ps[*]", {}, ALL),
        ("gpu = 6", "variables -> gpu[1]", {}, SOME),
        ("gpu = 6", "variables -> balanced(gpu[0..2])", {}, SOME),
        ("gpu = 6", "variables -> cpu[0]\n summaries -> gpu[5]", {}, SOME),
        (WORKERS, "variables -> worker[1].cpu[0]", {}, SOME),
        (WORKERS, "variables -> gpu[1]", {}, SOME),
        (WORKERS, "variables -> balanced(worker[*].cpu[0])", {}, SPREAD),
        (WORKERS, "variables -> round_robin(worker[0].gpu[*])", {}, SPREAD),
        ("gpu = 6", 'variables("a/*") -> round_robin(gpu[*])', {}, SPREAD),
        ("gpu = 6", "variables -> sharded(gpu[*])", {}, SPREAD),
        ("gpu = 6", f"{COPIES}\n slots -> sharded(clones)", {}, "each has other parts of the slots"),
        (WORKERS, "", {"update": "mode = local\n average_every = 2\n aggregate = hierarchical"}, ROUNDS),
        ("gpu = 6", "", {"update": "aggregate = ring"}, ROUNDS.replace("hierarchical", "ring")),
        ("gpu = 6", "", {"update": "aggregate = tree"}, ROUNDS.replace("hierarchical", "tree")),
        ("gpu = 6", "", {"update": "aggregate = hierarchical"}, ROUNDS),
        ("gpu = 6", "", {"update": "aggregate = hierarchical(2)"}, ROUNDS),
        (WORKERS, COPIES, {"update": "aggregate = hierarchical"}, ROUNDS),
    ],
)
def test_clones_that_are_not_alike(devices: str, place: str, more: dict[str, str], reason: str) -> None:
    """The graph of all clones has to be built, and the reason is told."""
    with pytest.raises(NotAlikeError) as fault:
        grid_of(plan(devices, place, **more))
    assert reason in str(fault.value)


def test_workers_of_which_some_may_be_missing_are_alike() -> None:
    """Two workers can do without one, not without as many as four can; without `backup` they need both."""
    for backup, of_two in ((0, 0), (1, 1), (3, 1)):
        whole = plan(WORKERS, update=f"replication = between_graph\n backup = {backup}")
        smaller = with_grid(whole, grid_of(whole).cut(2, 2))
        assert smaller.update.backup == of_two
        assert grid_of(make_plan(smaller)) == MapGrid("worker", "gpu", 2, 2, 1)


def test_sums_within_tasks_are_alike() -> None:
    """Those of each task are summed on one of its devices; of three tasks, all clones would be built."""
    update = "aggregate = hierarchical"
    found = plan(WORKERS, update=update)
    assert grid_of(found) == MapGrid("worker", "gpu", 4, 2, 1, sums=1)
    assert why_not(found, least=2) is None
    three = plan(WORKERS.replace("tasks = 4", "tasks = 3"), update=update)
    assert why_not(three, least=2) == "they are few"


@pytest.mark.parametrize(("size", "sums"), [(1, 4), (2, 2), (3, 2), (4, 1), (9, 1), ("none", 1)])
def test_groups_of_each_task_make_a_sum_each(size: object, sums: int) -> None:
    """No group has clones of two tasks, so that the last of a task can be smaller."""
    workers = WORKERS.replace("gpu = 2", "gpu = 4")
    for arguments in (str(size), f"size = {size}"):
        found = plan(workers, update=f"aggregate = hierarchical({arguments})")
        assert grid_of(found) == MapGrid("worker", "gpu", 4, 4, 1, sums=sums)
        smaller = make_plan(with_grid(found, grid_of(found).cut(2, 4)))
        assert grid_of(smaller) == MapGrid("worker", "gpu", 2, 4, 1, sums=sums)


def test_few_clones_are_built_as_they_are() -> None:
    """From 24 clones on, the graphs of fewer are worth it, unless these have as many."""
    assert why_not(plan("gpu = 23")) == "they are few"
    assert why_not(plan("gpu = 24")) is None
    assert why_not(plan("gpu = 5"), least=5) is None
    assert why_not(plan("gpu = 3"), least=2) == "they are few"
    assert why_not(plan("gpu = 4"), least=2) is None
    assert why_not(plan(WORKERS), least=2) is None
    assert why_not(plan("gpu = 24", "variables -> gpu[1]")) == SOME


def test_workers_with_graphs_of_their_own_have_all_their_clones() -> None:
    """Only their number is cut, so that two or three workers with many clones are few."""
    jobs = 'job "ps" {{ tasks = 1 }}\n job "worker" {{ tasks = {}, gpu = 9 }}'
    alone = "replication = between_graph"
    assert why_not(plan(jobs.format(3), update=alone)) == "they are few"
    assert why_not(plan(jobs.format(3))) is None
    assert why_not(plan(jobs.format(4), update=alone)) is None


@pytest.mark.parametrize(
    ("devices", "place", "clones", "cut", "refs"),
    [
        ("gpu = 6", "", "batch = 2", (2, 2), ["gpu[0]", "gpu[1]"]),
        ("cpu = 6", "", "count = 6, global_batch = 12", (2, 3), ["cpu[0]", "cpu[1]", "cpu[2]"]),
        ("gpu = 6", "clones -> groups(gpu[*], size = 2)", "batch = 2", (3, 1), ["gpu[0]"]),
        (WORKERS, "", "count = 8, batch = 2", (2, 1), ["worker[0].gpu[0]", "worker[1].gpu[0]"]),
        (CPUS, "", "batch = [2, 2, 2, 2, 2, 2]", (1, 2), ["worker[0].cpu[0]", "worker[0].cpu[1]"]),
    ],
)
def test_a_smaller_deployment_has_the_same_clones(
    devices: str, place: str, clones: str, cut: tuple[int, int], refs: list[str]
) -> None:
    """They have as many devices and examples as before, and parameter servers stay as they are."""
    whole = plan(devices, place, clones=clones)
    grid = grid_of(whole).cut(*cut)
    smaller = with_grid(whole, grid)
    towers = lay_out_towers(smaller, declare(smaller.devices, 0))
    assert [each.device.ref for each in towers] == refs
    assert {each.batch for each in towers} == {2}
    assert {len(each.devices) for each in towers} == {grid.members}
    assert grid_of(make_plan(smaller)) == grid
    assert [each for each in smaller.devices.jobs if each.name == "ps"] == [
        each for each in whole.spec.devices.jobs if each.name == "ps"
    ]


def test_a_smaller_deployment_has_the_addresses_of_its_tasks() -> None:
    """There is one for each task that is left."""
    workers_at = ", ".join(f'"h{at}:1"' for at in range(4))
    jobs = f'job "ps" {{ hosts = ["p:1", "q:1"] }}\n job "worker" {{\n hosts = [{workers_at}]\n gpu = 2\n }}'
    whole = plan(jobs)
    servers, workers = with_grid(whole, grid_of(whole).cut(2, 2)).devices.jobs
    assert workers.hosts == ("h0:1", "h1:1")
    assert servers.hosts == ("p:1", "q:1")
