"""Which placements of a small spec `suggest` goes through, which it takes, and what it refuses."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

import grammar
from compiler.pipeline import make_plan
from compiler.plan import Plan
from compiler.suggest import variations
from compiler.suggest.outcome import Goal
from compiler.suggest.variations import Changes
from dsl.diagnostics import SpecError
from tests.cli.test_suggest import WIDE
from tests.compiler.time.steps import GPU, op, step
from tfdeploy.suggesting.suggester import CannotEditError, Suggester, suggest
from tfdeploy.suggesting.trials import Trials, Tried, is_same

SPLIT = Changes({"clones": ("clones -> groups(gpu[*], size = 2)",)}, {("clones", "batch"): "16"})
SHARDED = Changes({"variables": ("variables -> sharded(gpu[*])",)})
SPREAD = Changes({"variables": ("variables -> balanced(gpu[*])",)})
PACKED = Changes(values={("update", "pack"): "1MiB"})
TREE = Changes(values={("update", "aggregate"): "tree"})
RING = Changes(values={("update", "aggregate"): "ring"})


def trials_of(text: str, goal: Goal = Goal.STEP_TIME, **more: Any) -> Trials:
    """Return trials of a text, of which none has begun."""
    reading = grammar.read("wide.tfdeploy", text=text)
    assert reading.spec is not None
    return Trials(reading.spec, reading.trees[0], goal, **more)


@cache
def begun(goal: Goal) -> tuple[Trials, Tried]:
    """Return trials for a goal that have begun, and the placement of the spec as it is."""
    trials = trials_of(WIDE, goal)
    return trials, trials.begin()


@pytest.mark.parametrize(
    ("goal", "changes", "remains"),
    [
        (Goal.STEP_TIME, SHARDED.having(TREE), TREE),
        (Goal.STEP_TIME, SHARDED.having(PACKED), Changes()),
        (Goal.STEP_TIME, SHARDED, Changes()),
        (Goal.BALANCE, SHARDED.having(TREE), SHARDED),
        (Goal.MEMORY, SHARDED.having(PACKED), SHARDED.having(PACKED)),
    ],
)
def test_changes_that_make_nothing_better_are_taken_back(
    goal: Goal, changes: Changes, remains: Changes
) -> None:
    """Pieces cost time, and an aggregation does not change how even the weights are."""
    trials, _ = begun(goal)
    best = trials.compare(changes)
    assert best is not None
    assert Suggester(trials).simplest(best).changes == remains


@pytest.mark.parametrize(
    ("goal", "wanted"),
    [
        (Goal.MEMORY, ["clones", "variables"]),
        (Goal.BALANCE, ["variables"]),
        (Goal.STEP_TIME, ["variables"]),
    ],
)
def test_rules_are_varied_for_the_clones_of_the_spec_and_for_groups(goal: Goal, wanted: list[str]) -> None:
    """The best of all is taken. Groups need less memory, spread the weights no better, and split no time."""
    trials, first = begun(goal)
    found = Suggester(trials, groups=2).search(first)
    assert sorted(found.changes.rules) == wanted


@pytest.mark.parametrize(("vary", "again"), [((), False), (("aggregate",), True)])
def test_all_parts_are_varied_again_once_another_has_changed(vary: tuple[str, ...], *, again: bool) -> None:
    """With the aggregation that is best for pieces, all other places of variables are compared once more."""
    trials = trials_of(WIDE, Goal.MEMORY)
    first = trials.begin()
    best = Suggester(trials, vary=vary).varied(first, first)
    assert best.changes.rules["variables"] == SHARDED.rules["variables"]
    assert best.changes.values == (RING.values if again else {})
    before = trials.compared
    trials.compare(SPREAD.having(RING))
    assert trials.compared == before + (not again)


def plan_with(text: str) -> Any:
    """Return the plan of a text."""
    reading = grammar.read("wide.tfdeploy", text=text)
    assert reading.spec is not None, reading.diagnostics
    return make_plan(reading.spec)


@pytest.mark.parametrize(
    ("vary", "groups", "update", "clones", "said"),
    [
        ((), None, "", "gpu[*]", []),
        (("clones", "aggregate"), None, "", "gpu[*]", []),
        (
            ("clones",),
            None,
            "mode = async, ",
            "gpu[*]",
            ["the number of clones is not varied: with `mode = async`"],
        ),
        (
            ("groups",),
            None,
            "mode = async, ",
            "gpu[*]",
            ["the number of clones is not varied: with `mode = async`"],
        ),
        ((), 2, "mode = async, ", "gpu[*]", ["the number of clones is not varied: with `mode = async`"]),
        ((), None, "mode = async, ", "gpu[*]", []),
        (("aggregate",), None, "", "gpu[0]", ["there is one clone, whose gradients need no sum"]),
        (("pack",), None, "", "gpu[0]", ["there is one clone, whose gradients need no sum"]),
        (("clones",), None, "", "gpu[0]", []),
    ],
)
def test_what_could_not_be_varied_is_told(
    vary: tuple[str, ...], groups: int | None, update: str, clones: str, said: list[str]
) -> None:
    """If it was asked for, and why not."""
    plan = plan_with(WIDE.replace("update { ", "update { " + update).replace("gpu[*]", clones))
    found = list(Suggester(trials_of(WIDE), groups, vary).not_varied(plan))
    assert [text.startswith(start) for text, start in zip(found, said, strict=True)] == [True] * len(said)


@pytest.mark.parametrize(
    ("vary", "groups", "block", "is_refused"),
    [
        ((), None, "place", True),
        ((), None, "clones", False),
        (("clones",), None, "clones", True),
        (("groups",), None, "clones", True),
        ((), 2, "clones", True),
        (("pack",), None, "clones", False),
        (("pack",), None, "update", True),
        (("aggregate",), None, "update", True),
        (("clones",), None, "update", False),
        (("clones", "groups", "pack", "aggregate"), 2, "devices", False),
    ],
)
def test_only_blocks_of_the_file_itself_are_changed(
    tmp_path: Path, vary: tuple[str, ...], groups: int | None, block: str, *, is_refused: bool
) -> None:
    """What may change is refused in an included file, and all else may be there."""
    start = WIDE.index(f"\n{block} {{")
    end = WIDE.index("}", start) + 1
    own = WIDE[:start] + WIDE[end:]
    path = tmp_path / "wide.tfdeploy"
    path.write_text(own.replace("tfdeploy = 1", 'tfdeploy = 1\ninclude = ["part.tfdeploy"]'))
    (tmp_path / "part.tfdeploy").write_text(WIDE[start:end])
    reading = grammar.read(str(path))
    suggester = Suggester(Trials(reading.require(), reading.trees[0], Goal.STEP_TIME), groups, vary)
    if not is_refused:
        suggester.require_own_blocks()
        return
    with pytest.raises(CannotEditError, match=f"the block `{block}` is in `.*part.tfdeploy`, which"):
        suggester.require_own_blocks()


def grouped(size: int) -> str:
    """Return the rule for clones with so many devices each."""
    return f"clones -> groups(gpu[*], size = {size})"


@pytest.mark.parametrize(
    ("groups", "vary", "rules"),
    [
        (None, (), []),
        (2, (), [grouped(2)]),
        (None, ("groups",), [grouped(2), grouped(4)]),
        (2, ("groups",), [grouped(2), grouped(2), grouped(4)]),
    ],
)
def test_groups_are_tried_where_that_is_asked(
    groups: int | None, vary: tuple[str, ...], rules: list[str]
) -> None:
    """A size that is asked for comes before others."""
    trials, first = begun(Goal.MEMORY)
    found = Suggester(trials, groups, vary).bases(first)
    assert [each.changes.rules["clones"] for each in found] == [(each,) for each in rules]


def test_clones_that_have_groups_are_split_as_they_are() -> None:
    """And a size that the devices do not allow is an error of the spec with it."""
    trials = trials_of(WIDE.replace("gpu[*]", "groups(gpu[*], size = 2)"), Goal.MEMORY)
    first = trials.begin()
    assert list(Suggester(trials).bases(first)) == [first]
    trials, first = begun(Goal.MEMORY)
    with pytest.raises(SpecError):
        list(Suggester(trials, 8).bases(first))


def test_parts_are_varied_as_they_are_asked_for() -> None:
    """Rules for variables and slots always; the number of clones only if each has one device."""
    plan, in_groups = (
        plan_with(WIDE.replace("gpu[*]", each)) for each in ("gpu[*]", "groups(gpu[*], size = 2)")
    )

    def parts(plan: Plan, *vary: str) -> list[set[str]]:
        found = Suggester(trials_of(WIDE, Goal.MEMORY), vary=vary).variations_of(plan)
        return [
            {key for each in part for key in (*each.rules, *(name for _, name in each.values))}
            for part in found
        ]

    always = [{"variables", "slots"}, {"slots"}]
    assert parts(plan) == always
    assert parts(plan, "aggregate", "pack") == [*always, {"aggregate"}, {"pack"}]
    assert parts(plan, "clones", "groups") == [*always, {"clones", "batch"}]
    assert parts(in_groups, "clones") == always


EQUAL = """
tfdeploy = 1
model "equal" {
  x = input(float32, [8])
  y = x -> Dense(8, use_bias = false, name = "one") -> Dense(8, use_bias = false, name = "other")
  loss = [x, y] -> MeanSquaredError()
}
devices { %s }
clones { batch = 4 }
update { optimizer = SGD(0.1) }
"""


@pytest.mark.parametrize(
    ("devices", "goal", "tried"),
    [
        ("cpu = 2", Goal.STEP_TIME, False),
        ('job "worker" { tasks = 2 }', Goal.STEP_TIME, True),
        ("cpu = 2", Goal.MEMORY, True),
        ("cpu = 2", Goal.BALANCE, True),
    ],
)
def test_pieces_have_to_be_needed_for_the_time_within_a_process(
    devices: str, goal: Goal, *, tried: bool
) -> None:
    """Where two equal weights do as well; not if memory counts, or if links are between processes."""
    trials = trials_of(EQUAL % devices, goal)
    first = trials.begin()
    variables = next(iter(Suggester(trials).variations_of(first.plan)))
    rules = [rule for each in variables for rule in each.rules.get("variables", ())]
    assert any("sharded" in each for each in rules) is tried
    assert any("balanced" in each for each in rules)


def test_nothing_else_can_be_varied() -> None:
    """The first that is not known is named, with those that are, before the spec is read."""
    with pytest.raises(
        ValueError, match="'luck' cannot be varied; these can: clones, aggregate, pack, groups"
    ):
        suggest("/nowhere.tfdeploy", vary=["clones", "luck", "chance"])


# --- trials -----------------------------------------------------------------------------------------------


def test_the_text_of_a_placement() -> None:
    """Rules of a role are replaced, values are set, and all else stays as it is written."""
    trials = trials_of(WIDE)
    assert trials.text(Changes()) == WIDE
    text = trials.text(SHARDED.having(PACKED).having(TREE))
    assert "variables -> sharded(gpu[*])" in text
    assert "variables -> cpu[0]" not in text
    assert "clones -> gpu[*]" in text
    assert "pack = 1MiB" in text
    assert "aggregate = tree" in text
    assert "# the usual one" in text
    assert trials.read(text).update.aggregate.name == "tree"
    with pytest.raises(SpecError):
        trials.read(text.replace("tree", "bush"))
    assert trials_of(WIDE, overrides=(("clones.batch", "4"),)).read(WIDE).clones.batch == 4


def test_a_placement_is_compared_once() -> None:
    """The same text by other changes has the same outcome. What a check refuses is none."""
    trials = trials_of(WIDE)
    trials.begin()
    first, again = trials.compare(SHARDED), trials.compare(evolve(SHARDED, notes={"x": "y"}))
    assert (first.changes, again.changes.notes) == (SHARDED, {"x": "y"})
    assert first.outcome is again.outcome
    assert trials.compare(Changes({"variables": ("variables -> gpu[9]",)})) is None
    assert (trials.built, trials.compared) == (1, 1)


def test_a_suggestion_is_better_by_the_figures_of_its_graph() -> None:
    """Else that of the spec stays. The placement is counted once, when it is compared."""
    trials, first = begun(Goal.MEMORY)
    before = trials.built
    assert trials.built_of(first) is first
    better, worse = trials.compare(SHARDED), trials.compare(PACKED)
    assert worse is not None
    built = trials.built_of(better)
    assert (built.changes, built.outcome is better.outcome) == (SHARDED, False)
    assert built.figures.fullest[1] < first.figures.fullest[1]
    assert trials.built_of(worse) is first
    assert trials.built == before


def test_a_note_on_the_examples_of_a_step_is_the_last_one() -> None:
    """If first groups and then the number of clones have changed, only the latter is told."""
    plan = plan_with(WIDE)
    grouped, counted = next(variations.groups(plan)), next(variations.clone_counts(plan))
    (note,) = grouped.having(counted).notes.values()
    assert note == next(iter(counted.notes.values()))


def test_steps_are_the_same_if_ops_are_where_they_were() -> None:
    """With as many arrows; the order of ops does not count."""
    one = step([op("a=1"), op("b=2", GPU)], [("a", "b")])
    assert is_same(one, step([op("b=2", GPU), op("a=1")], [("a", "b")]))
    assert not is_same(one, step([op("a=1"), op("b=2")], [("a", "b")]))
    assert not is_same(one, step([op("a=1"), op("b=2", GPU)], []))
    assert not is_same(one, step([op("a=1"), op("b=2", GPU), op("a=1")], [("a", "b")]))
