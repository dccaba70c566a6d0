"""For the examples, no rules that people write by hand are better than those that `suggest` finds."""

from pathlib import Path

import pytest

import grammar
from compiler.suggest.outcome import Goal
from compiler.suggest.variations import Changes
from tests.folders import ROOT
from tfdeploy.suggesting.suggester import Suggester
from tfdeploy.suggesting.trials import Trials, Tried

EXAMPLES = sorted((ROOT / "examples").rglob("*.tfdeploy"))[::3]
SMALL = ("focal_loss",)
"""The examples that take the least time, which are tried in each run of the tests."""

ON_FOUR = (("devices.gpu", "4"), ("devices.cpu", "2"), ("devices.kind", "v100"))
BY_HAND = (
    "variables -> cpu[0]",
    "variables -> gpu[0]",
    "variables -> gpu[3]",
    "variables -> balanced(cpu[*])",
    "variables -> balanced(gpu[*])",
    "variables -> round_robin(gpu[*])",
    "variables -> sharded(gpu[*])",
    "variables -> replicated",
)
"""What the documentation shows for variables."""


def trials_for(path: Path) -> Trials:
    """Return the trials of an example: on four GPUs, unless its devices are those of a cluster."""
    spec = grammar.load(path, allow_python=True)
    overrides = () if spec.devices.jobs else ON_FOUR
    reading = grammar.read(path, overrides, allow_python=True)
    assert reading.spec is not None, reading.diagnostics
    return Trials(reading.spec, reading.trees[0], Goal.STEP_TIME, None, overrides)


@pytest.mark.parametrize(
    "path",
    [each if each.stem in SMALL else pytest.param(each, marks=pytest.mark.full) for each in EXAMPLES],
    ids=lambda path: path.stem,
)
def test_no_rules_by_hand_are_better(path: Path) -> None:
    """By forecast, each of them takes at least as long, or cannot be built; everything has a place."""
    trials = trials_for(path)
    found, _ = Suggester(trials).run()
    assert found.after.seconds <= trials.first.figures.value(Goal.STEP_TIME)
    compared = 0
    for rule in BY_HAND:
        other = trials.compare(Changes({"variables": (rule,)}))
        if other is not None:
            compared += 1
            assert placed(other) == placed(trials.first), rule
            assert found.after.missing <= other.figures.missing
            assert found.after.seconds <= other.figures.value(Goal.STEP_TIME) * 1.001, rule
    assert compared or trials.spec.devices.jobs


def placed(tried: Tried) -> set[str]:
    """Return the variables that have a place, as wholes."""
    return {each.name.partition("/shard_")[0] for each in tried.outcome.placement.variables}
