"""Workers that have graphs of their own, and batches that the clones of a spec can share."""

import pytest

from compiler.checks.devices import batches_fit_clones, workers_are_whole, workers_can_change
from tests.compiler.placement.places import places

CLUSTER = """
devices {{
  job "ps" {{ tasks = 1 }}
  job "worker" {{ tasks = 3, gpu = 2 }}
}}
clones {{ {clones} }}
place {{
  {place}
}}
update {{ replication = {replication}, backup = {backup} }}
"""
EVEN = "batch = 2"


def told(
    place: str = "", *, clones: str = EVEN, backup: int = 0, replication: str = "between_graph"
) -> list[tuple[str, str, str]]:
    """Return code, message and marked text of all that is wrong with three workers of two GPUs each."""
    found = places(CLUSTER.format(clones=clones, place=place, backup=backup, replication=replication))
    return [
        (each.code, each.message, each.span.text if each.span is not None else "")
        for each in workers_are_whole(found.spec, found.topology)
    ]


@pytest.mark.parametrize(
    ("place", "clones", "backup"),
    [
        ("", EVEN, 0),
        ("", EVEN, 2),
        ("", "batch = [1, 2, 2, 1, 3, 4]", 0),
        ("", "batch = [1, 3, 2, 2, 3, 1]", 1),
        ("variables -> worker[0].cpu[0]", EVEN, 0),
        ("slots -> worker[0].cpu[0]\n updates -> worker[1].cpu[0]", EVEN, 0),
        ('inputs -> worker[*].cpu[0]\n ops("a/*") -> gpu[1]', EVEN, 0),
        ("summaries -> ps[0]\n evaluation -> [ps[0], worker[0].cpu[0]]", EVEN, 0),
    ],
)
def test_workers_that_can_train(place: str, clones: str, backup: int) -> None:
    """Variables can be anywhere, and workers may take other batches unless some of them are left out."""
    assert told(place, clones=clones, backup=backup) == []


def test_workers_without_clones_and_clones_without_workers() -> None:
    """Each task is named, at the rule for clones or else at the block that has too few of them."""
    rule = "clones -> [worker[1].gpu[0], ps[0]]"
    assert told(rule) == [
        ("TFD541", "no clone is on `worker[0]`", rule),
        ("TFD541", "no clone is on `worker[2]`", rule),
        ("TFD542", "a clone is on `ps[0]`, which only keeps variables", rule),
    ]
    assert told(clones="count = 4") == [("TFD541", "no clone is on `worker[2]`", "clones")]
    assert told(rule, replication="in_graph") == []


def test_backup_workers() -> None:
    """A step waits for one worker at least, and those that it leaves out have the same batch as others."""
    assert told(backup=3) == [("TFD543", "`backup = 3` leaves no worker to wait for", "3")]
    uneven = told(clones="batch = [2, 2, 2, 2, 2, 3]", backup=2)
    assert uneven == [("TFD544", "`backup` needs workers with equal batches", "2")]


@pytest.mark.parametrize("role", ["inputs", "summaries", "evaluation", 'ops("a/*")'])
def test_what_each_graph_has_is_on_devices_of_its_worker(role: str) -> None:
    """The first worker without such a device is named once, with the device that it would use."""
    assert told(f"{role} -> worker[1..2].cpu[0]") == [
        (
            "TFD545",
            "the graph of `worker[0]` would have ops on `worker[1].cpu[0]`, which belongs to another worker",
            "worker[1..2].cpu[0]",
        )
    ]


def test_each_rule_for_one_worker_is_told() -> None:
    """A rule that is all right does not hide the next."""
    first = "inputs -> worker[*].cpu[0]\n variables -> ps[0]"
    wrong = "summaries -> worker[0].cpu[0]\n evaluation -> worker[2].gpu[1]"
    assert [(code, marked) for code, _, marked in told(f"{first}\n {wrong}")] == [
        ("TFD545", "worker[0].cpu[0]"),
        ("TFD545", "worker[2].gpu[1]"),
    ]


CHANGING = """
devices {{
  job "worker" {{ tasks = 2..4, gpu = 1 }}
  {devices}
}}
clones {{ {clones} }}
place {{ {place} }}
update {{ {update} }}
data {{
  train = synthetic(8, x = feature(float32, [4]), label = feature(int32, classes = 2)){data}
}}
"""


LOCAL = "mode = local, average_every = 2, replication = between_graph"


@pytest.mark.parametrize(
    ("what", "text", "fault", "marked"),
    [
        ("clones", "count = 2", "cannot be combined with `clones.count`", "2"),
        ("clones", "global_batch = 8", "cannot be combined with `clones.global_batch`", "8"),
        ("clones", "batch = [1, 2, 3, 4]", "cannot be combined with a list of batches", "[1, 2, 3, 4]"),
        ("place", "clones -> worker[0..1].gpu[0]", "cannot be combined with a rule that names a task", None),
        ("place", "variables -> worker[*].gpu[0]", "needs workers that each have all weights", "2..4"),
        ("update", "replication = in_graph", "needs workers that each have all weights", "2..4"),
        ("update", "compress = power_sgd(rank = 2)", "cannot be combined with `compress = power_sgd`", None),
        ("update", LOCAL, "cannot be combined with `mode = local`", "local"),
        ("devices", 'job "more" { tasks = 2 }', "needs workers that each have all weights", "2..4"),
        ("data", "\n per_clone = shard", "cannot be combined with `per_clone = shard`", "shard"),
    ],
)
def test_what_workers_cannot_have_that_come_and_go(
    what: str, text: str, fault: str, marked: str | None
) -> None:
    """What depends on their number is refused where it stands; without it they can."""
    parts = {"devices": "", "clones": EVEN, "place": "", "update": "optimizer = SGD(0.1)", "data": ""}
    plain = places(CHANGING.format(**parts))
    assert list(workers_can_change(plain.spec, plain.topology)) == []
    found = places(CHANGING.format(**{**parts, what: text}))
    told = [(each.code, each.message, each.span) for each in workers_can_change(found.spec, found.topology)]
    assert [each[:2] for each in told] == [("TFD748", f"`tasks = 2..4` {fault}")]
    assert told[0][2] is not None
    assert marked is None or told[0][2].text == marked


def test_at_least_two_workers_train() -> None:
    """With one there is no sum to make."""
    found = places('devices { job "worker" { tasks = 1..4 } }\nclones { batch = 2 }')
    (told,) = workers_can_change(found.spec, found.topology)
    assert (told.message, told.help) == ("`tasks = 1..4` begins with one worker", "begin with two")


@pytest.mark.parametrize(
    ("clones", "accumulate", "message"),
    [
        ("global_batch = 12", 1, None),
        ("global_batch = 12", 2, None),
        ("global_batch = 14", 1, "a global batch of 14 does not divide evenly among 3 clones"),
        (
            "global_batch = 15",
            2,
            "a global batch of 15 does not divide evenly among 3 clones with 2 micro-batches each",
        ),
        ("count = 7, global_batch = 14", 1, None),
        ("batch = [4, 5, 6]", 1, None),
        ("batch = [4, 5]", 1, "`batch` lists 2 numbers for 3 clones"),
        ("batch = [4, 5, 6, 7]", 1, "`batch` lists 4 numbers for 3 clones"),
        ("count = 2, batch = [4, 5]", 1, None),
        ("batch = 7", 2, None),
    ],
)
def test_batches_and_clones(clones: str, accumulate: int, message: str | None) -> None:
    """Without a number of clones there is one on each device; micro-batches divide the batch further."""
    found = places(f"devices {{ gpu = 3 }}\nclones {{ {clones} }}\nupdate {{ accumulate = {accumulate} }}\n")
    faults = list(batches_fit_clones(found.spec, found.topology))
    assert [each.message for each in faults] == ([] if message is None else [message])
    for each in faults:
        assert each.span.text in clones
