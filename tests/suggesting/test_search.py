"""Which placement a search takes, with placements whose values are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

import grammar
from compiler.pipeline import make_plan
from compiler.suggest import variations
from compiler.suggest.outcome import Goal, Outcome
from compiler.suggest.variations import Changes
from tests.cli.test_suggest import WIDE
from tests.compiler.suggest.test_outcome import chain, outcome, with_memory
from tfdeploy.suggesting.suggester import Suggester
from tfdeploy.suggesting.trials import Trials, Tried

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST = Changes()
SPLIT = Changes({"clones": ("clones -> groups(gpu[*], size = 2)",)})
SHARDED = Changes({"variables": ("variables -> sharded(gpu[*])",)})
SPREAD = Changes({"variables": ("variables -> balanced(gpu[*])",)})


def trials_of(monkeypatch: pytest.MonkeyPatch, times: Mapping[str, float]) -> Trials:
    """Return trials in which placements take the milliseconds that are given by their changes as text."""
    reading = grammar.read("wide.tfdeploy", text=WIDE)
    assert reading.spec is not None
    trials = Trials(reading.spec, reading.trees[0], Goal.STEP_TIME)
    plan = make_plan(reading.spec)
    known: dict[str, Outcome] = {name: outcome(chain(each)) for name, each in times.items()}

    def compare(self: Trials, changes: Changes) -> Tried | None:
        del self
        found = known.get(str(dict(changes.rules)))
        return None if found is None else Tried("", changes, reading.spec, plan, found)

    monkeypatch.setattr(Trials, "compare", compare)
    trials.first = compare(trials, FIRST)
    return trials


def rules_of(*changes: Changes) -> str:
    """Return the rules of some changes together, as text."""
    found = FIRST
    for each in changes:
        found = found.having(each)
    return str(dict(found.rules))


@pytest.mark.parametrize(("by_itself", "in_groups", "wanted"), [(5, 8, [SHARDED]), (9, 6, [SPLIT, SHARDED])])
def test_what_is_worse_at_first_may_be_better_when_varied(
    monkeypatch: pytest.MonkeyPatch, by_itself: float, in_groups: float, wanted: list[Changes]
) -> None:
    """Rules are varied for the clones of the spec and for those with groups, and the best of all is taken."""
    times = {
        rules_of(FIRST): 10.0,
        rules_of(SPLIT): 9.5,
        rules_of(SHARDED): by_itself,
        rules_of(SPLIT, SHARDED): in_groups,
    }
    trials = trials_of(monkeypatch, times)
    first = trials.first
    assert first is not None
    monkeypatch.setattr(Suggester, "_bases", lambda *_: [first])
    monkeypatch.setattr(Suggester, "_split", lambda *_: [SPLIT])
    monkeypatch.setattr(Suggester, "_variations", lambda *_: [[SHARDED, SPREAD]])
    found = Suggester(trials)._search(first)
    assert str(dict(found.changes.rules)) == rules_of(*wanted)


@pytest.mark.parametrize(("needed", "better"), [(99, True), (100, False), (101, False)])
def test_a_suggestion_is_better_by_the_figures_of_its_graph(
    monkeypatch: pytest.MonkeyPatch, needed: int, *, better: bool
) -> None:
    """Else that of the spec stays. The placement is counted once, when it is compared."""
    trials = trials_of(monkeypatch, {rules_of(FIRST): 10.0, rules_of(SHARDED): 10.0})
    first, compared = trials.first, trials.compare(SHARDED)
    assert first is not None
    assert compared is not None
    trials.first = first = evolve(first, outcome=outcome(chain(10), with_memory(100)))
    trials.goal = Goal.MEMORY
    built = evolve(compared, outcome=outcome(chain(10), with_memory(needed)))

    def build(self: Trials, changes: Changes) -> Tried:
        assert changes is SHARDED
        self.built += 1
        return built

    monkeypatch.setattr(Trials, "_build", build)
    assert trials.built_of(first) is first
    assert trials.built_of(compared) is (built if better else first)
    assert trials.built == 0


def test_a_note_on_the_examples_of_a_step_is_the_last_one() -> None:
    """If first groups and then the number of clones have changed, only the latter is told."""
    reading = grammar.read("wide.tfdeploy", text=WIDE)
    assert reading.spec is not None
    plan: Any = make_plan(reading.spec)
    grouped, counted = next(variations.groups(plan)), next(variations.clone_counts(plan))
    (note,) = grouped.having(counted).notes.values()
    assert note == next(iter(counted.notes.values()))
