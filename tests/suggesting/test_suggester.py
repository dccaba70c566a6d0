"""Which placements `suggest` goes through, and what it refuses, with placements whose values are given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

import grammar
from compiler.pipeline import make_plan
from compiler.plan import Plan
from compiler.suggest.outcome import Goal
from compiler.suggest.variations import Changes
from dsl.diagnostics import SpecError
from tests.cli.test_suggest import WIDE
from tests.compiler.suggest.test_outcome import chain, outcome
from tests.compiler.time.steps import GPU, op, step
from tests.suggesting.test_search import FIRST, SHARDED, SPLIT, SPREAD, rules_of, trials_of
from tfdeploy.suggesting.suggester import ROUNDS, CannotEditError, Suggester, suggest
from tfdeploy.suggesting.trials import Trials, Tried, _is_same

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKED = Changes(values={("update", "pack"): "1MiB"})
TREE = Changes(values={("update", "aggregate"): "tree"})


def test_changes_that_make_nothing_better_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What remains is the smallest of the placements that are as good as the best."""
    times = {
        rules_of(FIRST): 10.0,
        rules_of(SPLIT): 5.0,
        rules_of(SHARDED): 9.0,
        rules_of(SPLIT, SHARDED): 5.0,
    }
    trials = trials_of(monkeypatch, times)
    best = trials.compare(SPLIT.having(SHARDED))
    assert best is not None
    assert dict(Suggester(trials)._simplest(best).changes.rules) == dict(SPLIT.rules)
    better = trials_of(monkeypatch, {**times, rules_of(SPLIT, SHARDED): 4.0})
    best = better.compare(SPLIT.having(SHARDED))
    assert best is not None
    assert Suggester(better)._simplest(best) is best
    alone = trials_of(monkeypatch, {**times, rules_of(SHARDED): 10.0})
    worse = alone.compare(SHARDED)
    assert worse is not None
    assert Suggester(alone)._simplest(worse) is alone.first


def test_all_parts_are_varied_until_nothing_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once if only rules are varied; else a few times, and no more often than something has changed."""
    trials = trials_of(monkeypatch, {rules_of(FIRST): 10.0, rules_of(SHARDED): 9.0})
    first = trials.first
    assert first is not None
    rounds: list[int] = []

    def varied(*times: float) -> int:
        rounds.clear()
        left = [*times]

        def better(self: Trials, best: Tried, others: Sequence[Changes]) -> Tried:
            del self, others
            rounds.append(1)
            return evolve(best, outcome=outcome(chain(left.pop(0)))) if left else best

        monkeypatch.setattr(Trials, "best_of", better)
        monkeypatch.setattr(Suggester, "_variations", lambda *_: [[SHARDED]])
        Suggester(trials, vary=("pack",) if times else ())._varied(first, first)
        return len(rounds)

    assert varied() == 1
    assert varied(9) == 2
    assert varied(9, 8) == 3
    assert varied(9, 8, 7, 6, 5) == ROUNDS == 3


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
    trials: Any = None
    found = list(Suggester(trials, groups, vary)._not_varied(plan))
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
    vary: tuple[str, ...], groups: int | None, block: str, *, is_refused: bool
) -> None:
    """What may change is refused in an included file, and all else may be there."""
    start = WIDE.index(f"\n{block} {{")
    end = WIDE.index("}", start) + 1
    own = WIDE[:start] + WIDE[end:]
    own = own.replace("tfdeploy = 1", 'tfdeploy = 1\ninclude = ["part.tfdeploy"]')
    texts = {"/nowhere/part.tfdeploy": WIDE[start:end]}
    reading = grammar.read("/nowhere/wide.tfdeploy", text=own, texts=texts)
    assert reading.spec is not None, reading.diagnostics
    trials: Any = SimpleNamespace(
        tree=reading.trees[0], reading=lambda text: reading if text == own else None
    )
    suggester = Suggester(trials, groups, vary)
    if not is_refused:
        suggester._require_own_blocks()
        return
    with pytest.raises(CannotEditError, match=f"the block `{block}` is in `.*part.tfdeploy`, which"):
        suggester._require_own_blocks()


def test_groups_are_tried_where_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clones that have groups already are split as they are; a size that is asked for comes before others."""
    trials = trials_of(monkeypatch, {})
    plans = {name: plan_with(WIDE.replace("gpu[*]", name)) for name in ("gpu[*]", "groups(gpu[*], size = 2)")}
    compared: list[str] = []
    checked: list[str] = []

    def compare(self: Trials, changes: Changes) -> object:
        del self
        compared.append(changes.rules["clones"][0])
        return None if "size = 4" in compared[-1] else changes

    monkeypatch.setattr(Trials, "compare", compare)
    monkeypatch.setattr(Trials, "text", lambda _, changes: changes.rules["clones"][0])
    monkeypatch.setattr(Trials, "read", lambda _, text: text)
    monkeypatch.setattr(Trials, "plan", lambda _, text: checked.append(text))

    def bases(rule: str, groups: int | None, *vary: str) -> int:
        compared.clear()
        checked.clear()
        first: Any = SimpleNamespace(plan=plans[rule])
        found = list(Suggester(trials, groups, vary)._bases(first))
        assert (first in found) == (rule != "gpu[*]")
        return len(found)

    two, four = (f"clones -> groups(gpu[*], size = {size})" for size in (2, 4))
    assert (bases("gpu[*]", None), compared, checked) == (0, [], [])
    assert (bases("groups(gpu[*], size = 2)", None), compared) == (1, [])
    assert (bases("gpu[*]", 2), compared, checked) == (1, [two], [two])
    assert (bases("gpu[*]", None, "groups"), compared, checked) == (1, [two, four], [])
    assert (bases("gpu[*]", 2, "groups"), compared, checked) == (2, [two, two, four], [two])


def test_parts_are_varied_as_they_are_asked_for() -> None:
    """Rules for variables and slots always; the number of clones only if each has one device."""
    plan, grouped = (
        plan_with(WIDE.replace("gpu[*]", each)) for each in ("gpu[*]", "groups(gpu[*], size = 2)")
    )
    trials: Any = SimpleNamespace(goal=Goal.MEMORY)

    def parts(plan: Plan, *vary: str) -> list[set[str]]:
        found = Suggester(trials, vary=vary)._variations(plan)
        return [
            {key for each in part for key in (*each.rules, *(name for _, name in each.values))}
            for part in found
        ]

    always = [{"variables", "slots"}, {"slots"}]
    assert parts(plan) == always
    assert parts(plan, "aggregate", "pack") == [*always, {"aggregate"}, {"pack"}]
    assert parts(plan, "clones", "groups") == [*always, {"clones", "batch"}]
    assert parts(grouped, "clones") == always


def test_pieces_have_to_be_needed_for_the_time_within_a_process() -> None:
    """They are left out if whole weights do as well, unless memory counts or links are between processes."""
    info = SimpleNamespace(weight="w", bytes=40, slot_bytes=80)
    placement = SimpleNamespace(info=info)
    variables = {each: SimpleNamespace(placement=placement) for each in ("first piece", "second piece")}

    def sizes(goal: Goal, job: str | None) -> tuple[int, ...]:
        device = SimpleNamespace(job=job)
        plan: Any = SimpleNamespace(topology=SimpleNamespace(devices=[device]))
        trials: Any = SimpleNamespace(goal=goal, step=SimpleNamespace(variables=variables))
        return Suggester(trials)._sizes_if_whole_do(plan)

    assert sizes(Goal.STEP_TIME, None) == (240,)
    assert sizes(Goal.STEP_TIME, "worker") == sizes(Goal.MEMORY, None) == sizes(Goal.BALANCE, None) == ()


def test_nothing_else_can_be_varied() -> None:
    """The first that is not known is named, with those that are, before the spec is read."""
    with pytest.raises(
        ValueError, match="'luck' cannot be varied; these can: clones, aggregate, pack, groups"
    ):
        suggest("/nowhere.tfdeploy", vary=["clones", "luck", "chance"])


# --- trials -----------------------------------------------------------------------------------------------


def real_trials(text: str = WIDE, **more: Any) -> Trials:
    """Return trials of a text."""
    reading = grammar.read("wide.tfdeploy", text=text)
    assert reading.spec is not None
    return Trials(reading.spec, reading.trees[0], Goal.STEP_TIME, **more)


def test_the_text_of_a_placement() -> None:
    """Rules of a role are replaced, values are set, and all else stays as it is written."""
    trials = real_trials()
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
    assert real_trials(overrides=(("clones.batch", "4"),)).read(WIDE).clones.batch == 4


def test_a_placement_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a check refuses is none; the same text by other changes has the same outcome."""
    trials = real_trials()
    compiled: list[str] = []
    found = Tried("text", SHARDED, trials.spec, plan_with(WIDE), outcome(chain(5)))

    def compile_(self: Trials, text: str, changes: Changes) -> Tried | None:
        del self
        compiled.append(text)
        if changes.rules == SPREAD.rules:
            raise SpecError([])
        return None if changes.rules == SPLIT.rules else found

    monkeypatch.setattr(Trials, "_by_step", compile_)
    first, again = trials.compare(SHARDED), trials.compare(evolve(SHARDED, notes={"x": "y"}))
    assert first is not None
    assert again is not None
    assert (first.changes, again.changes.notes) == (SHARDED, {"x": "y"})
    assert first.outcome is again.outcome is found.outcome
    assert trials.compare(SPLIT) is None
    assert trials.compare(SPREAD) is None
    assert len(compiled) == 3


def test_steps_are_the_same_if_ops_are_where_they_were() -> None:
    """With as many arrows; the order of ops does not count."""
    one = step([op("a=1"), op("b=2", GPU)], [("a", "b")])
    assert _is_same(one, step([op("b=2", GPU), op("a=1")], [("a", "b")]))
    assert not _is_same(one, step([op("a=1"), op("b=2")], [("a", "b")]))
    assert not _is_same(one, step([op("a=1"), op("b=2", GPU)], []))
    assert not _is_same(one, step([op("a=1"), op("b=2", GPU), op("a=1")], [("a", "b")]))
