"""What is varied: the rules for variables, sums of gradients, their sizes, numbers of clones, and groups."""

from typing import Any

import pytest

from compiler.pipeline import make_plan
from compiler.suggest import variations
from compiler.suggest.variations import Changes, slot_changes, variable_changes, variable_rules
from compiler.topology import Device, Topology
from dsl import ir
from dsl.schema.functions import function_names
from tests import support
from tfdeploy.suggesting.suggester import only_changes

SPEC = """\
tfdeploy = 1
model "m" {
  image = input(float32, [3])
  digit = input(int32, [])
  logits = image -> Dense(4, name = "hidden") -> Dense(2)
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}
devices { gpu = 4, cpu = 1 }
clones { batch = 6 }
update { optimizer = SGD(0.1) }
place { clones -> gpu[*] }
"""


def spec_of(*changes: tuple[str, str]) -> ir.Spec:
    """Return the spec with some texts in place of others."""
    text = SPEC
    for was, now in changes:
        assert was in text
        text = text.replace(was, now)
    return support.spec_of(text)


def plan_of(*changes: tuple[str, str]) -> Any:
    """Return the plan of that spec."""
    return make_plan(spec_of(*changes))


def values(found: Any, name: str) -> list[str]:
    """Return the values of an attribute of `update` in some changes."""
    return [each.values["update", name] for each in found]


ONE_CLONE = ("clones -> gpu[*]", "clones -> gpu[0]")


def test_other_ways_to_sum_are_tried() -> None:
    """All but that of the spec, none with one clone, and each says that digits change."""
    every = [name for name in function_names("aggregation") if name != "collective"]
    assert values(variations.aggregations(plan_of()), "aggregate") == [e for e in every if e != "add_n"]
    tree = plan_of(("update {", "update { aggregate = tree,"))
    assert values(variations.aggregations(tree), "aggregate") == [e for e in every if e != "tree"]
    assert list(variations.aggregations(plan_of(ONE_CLONE))) == []
    two = plan_of(("gpu[*] }", "gpu[0..1] }"))
    assert len(list(variations.aggregations(two))) == len(every) - 1
    assert values(variations.packs(two), "pack") == ["1MiB", "16MiB"]
    assert all("last digits" in each.notes["aggregate"] for each in variations.aggregations(tree))


def test_other_sizes_of_buckets_are_tried() -> None:
    """That gradients are not packed is tried only if they are."""
    assert values(variations.packs(plan_of()), "pack") == ["1MiB", "16MiB"]
    packed = plan_of(("update {", "update { pack = 4MiB,"))
    assert values(variations.packs(packed), "pack") == ["none", "1MiB", "16MiB"]
    assert list(variations.packs(plan_of(ONE_CLONE))) == []


def clones_of(found: Any) -> list[tuple[str, dict[tuple[str, str], str]]]:
    """Return the rules for clones and the values of some changes."""
    return [(each.rules["clones"][0], dict(each.values)) for each in found]


def test_other_numbers_of_clones_share_the_examples_of_a_step() -> None:
    """Twenty-four examples are six for four clones and eight for three; the most clones come first."""
    batch = ("clones", "batch")
    assert clones_of(variations.clone_counts(plan_of())) == [
        ("clones -> gpu[0..2]", {batch: "8"}),
        ("clones -> gpu[0..1]", {batch: "12"}),
        ("clones -> gpu[0]", {batch: "24"}),
    ]
    one = plan_of(ONE_CLONE)  # of six examples, which four clones cannot share
    assert clones_of(variations.clone_counts(one)) == [
        ("clones -> gpu[0..2]", {batch: "2"}),
        ("clones -> gpu[0..1]", {batch: "3"}),
    ]
    counted = plan_of(("{ batch = 6 }", "{ count = 2, global_batch = 12 }"))
    assert clones_of(variations.clone_counts(counted)) == [
        ("clones -> gpu[*]", {("clones", "count"): "4"}),
        ("clones -> gpu[0..2]", {("clones", "count"): "3"}),
        ("clones -> gpu[0]", {("clones", "count"): "1"}),
    ]


@pytest.mark.parametrize("normalized", [False, True])
def test_a_note_says_what_another_number_of_clones_changes(normalized: bool) -> None:
    """The examples of a step stay; those of the statistics of a batch do not, if there are any."""
    more = [('"hidden")', '"hidden") -> BatchNormalization()')] if normalized else []
    first = next(variations.clone_counts(plan_of(*more)))
    told = "a step has 24 examples as before: 3 times 8 in place of 4 times 6"
    if normalized:
        told += "; batch normalization takes its statistics from 8 examples in place of 6"
    assert first.notes == {"clones": told}


def test_clones_with_groups_of_devices() -> None:
    """All sizes that divide the devices, or the one that is asked for; rules for layers are taken back."""
    found = list(variations.groups(plan_of()))
    assert clones_of(found) == [
        ("clones -> groups(gpu[*], size = 2)", {("clones", "batch"): "12"}),
        ("clones -> groups(gpu[*], size = 4)", {("clones", "batch"): "24"}),
    ]
    assert all(each.rules["ops"] == () for each in found)
    assert [rule for rule, _ in clones_of(variations.groups(plan_of(), (3,)))] == [
        "clones -> groups(gpu[*], size = 3)"
    ]
    grouped = plan_of(("clones -> gpu[*]", "clones -> groups(gpu[*], size = 2)"))
    assert [rule for rule, _ in clones_of(variations.groups(grouped))] == [
        "clones -> groups(gpu[*], size = 4)"
    ]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ((), None),
        ((("update {", "update { mode = async,"),), "with `mode = async` it decides"),
        ((("batch = 6", "batch = [6, 6, 6, 6]"),), "`clones.batch` is a list"),
    ],
)
def test_why_the_number_of_clones_stays(changes: Any, why: str | None) -> None:
    """There is a reason exactly if nothing is varied."""
    plan = plan_of(*changes)
    found = variations.why_clones_stay(plan)
    assert found is None if why is None else (found or "").startswith(why)
    assert bool(list(variations.clone_counts(plan))) == bool(list(variations.groups(plan))) == (why is None)


@pytest.mark.parametrize(
    ("devices", "targets"),
    [
        ([("cpu", ""), ("gpu", "")], ["cpu[0]", "gpu[0]"]),
        (
            [("cpu", ""), ("gpu", ""), ("gpu", "")],
            ["cpu[0]", "balanced(gpu[*])", "sharded(gpu[*])", "round_robin(gpu[*])", "gpu[0]"],
        ),
        ([("cpu", "ps"), ("cpu", "worker"), ("gpu", "worker")], ["ps[0]", "cpu[0]"]),
        (
            [("cpu", "ps"), ("cpu", "ps"), ("cpu", "worker")],
            ["balanced(ps[*])", "sharded(ps[*])", "round_robin(ps[*])", "ps[0]", "cpu[0]"],
        ),
        ([("cpu", "ps"), ("cpu", "worker"), ("cpu", "worker")], ["ps[0]", "cpu[0]", "balanced(cpu[*])"]),
    ],
)
def test_rules_for_variables(devices: list[tuple[str, str]], targets: list[str]) -> None:
    """One device needs no spreading; parameter servers come first if there are some, then workers' CPUs."""
    made = [
        Device(kind, 0 if job else at, job or None, at if job else 0)
        for at, (kind, job) in enumerate(devices)
    ]
    assert variable_rules(Topology(tuple(made))) == tuple(
        f"variables -> {each}" for each in [*targets, "replicated"]
    )


def test_each_clone_may_keep_a_part_of_the_slots() -> None:
    """If there are several. Other rules for slots stay, and those that cut them go with other variables."""
    rules = 'gpu[*], variables -> replicated, slots -> sharded(clones), slots("hidden/*") -> cpu[0] }'
    plan, kept = plan_of(("gpu[*] }", rules)), 'slots("hidden/*") -> cpu[0]'
    assert {each.rules["slots"] for each in variable_changes(plan)} == {(kept,)}
    assert [each.rules["variables"] for each in variable_changes(plan)] == [
        (each,) for each in variable_rules(plan.topology)
    ]
    (cut,) = slot_changes(plan)
    assert dict(cut.rules) == {"slots": ("slots -> sharded(clones)", kept)}
    alone = plan_of(ONE_CLONE)
    assert not list(slot_changes(alone))
    assert {tuple(each.rules) for each in variable_changes(alone, (8, 8))} == {("variables",)}


def test_changes_come_together_and_apart() -> None:
    """The later ones win; each that needs no other can be taken back, with the note on it."""
    assert not Changes()
    assert Changes({"ops": ()})
    assert Changes(values={("update", "pack"): "1MiB"})
    first = Changes({"clones": ("a",), "ops": ("b",)}, {("clones", "batch"): "2"}, {"clones": "x"})
    second = Changes(
        {"ops": ("c",)}, {("update", "pack"): "1MiB", ("update", "aggregate"): "tree"}, {"pack": "y"}
    )
    both = first.having(second)
    assert both.rules == {"clones": ("a",), "ops": ("c",)}
    assert both.notes == {"clones": "x", "pack": "y"}
    parts = both.parts()
    assert [dict(each.rules) for each in parts] == [{"clones": ("a",)}, dict(both.rules), dict(both.rules)]
    assert [[name for _, name in each.values] for each in parts] == [
        ["batch", "pack", "aggregate"],
        ["batch", "aggregate"],
        ["batch", "pack"],
    ]
    assert [list(each.notes) for each in parts] == [["clones", "pack"], ["clones"], ["clones", "pack"]]


def test_a_spec_differs_by_its_changes_alone() -> None:
    """Rules of the roles and values that are named may differ, and nothing else."""
    before = spec_of()
    batch, pack = {("clones", "batch"): "2"}, {("update", "pack"): "1MiB"}
    other = spec_of(("batch = 6", "batch = 2"))
    assert only_changes(before, other, Changes(values=batch))
    assert not only_changes(before, other, Changes(values=pack))
    placed = spec_of(("gpu[*] }", "gpu[*], variables -> gpu[0] }"))
    assert only_changes(before, placed, Changes({"variables": ("variables -> gpu[0]",)}))
    assert not only_changes(before, placed, Changes({"ops": ()}))
    assert not only_changes(before, placed, Changes())
