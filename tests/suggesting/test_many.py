"""`suggest` for many clones that are alike: no graph of all of them is built."""

from pathlib import Path
from typing import Any

import pytest

import grammar
from compiler.graph import many_clones
from compiler.kinds.grid import NotAlikeError
from compiler.kinds.layout import Extras
from compiler.pipeline import make_plan
from compiler.suggest.outcome import Goal, bound
from compiler.suggest.text import suggestion_text
from compiler.suggest.variations import Changes
from tfdeploy.runtime import plans
from tfdeploy.suggesting.suggester import Suggester, _too_full
from tfdeploy.suggesting.trials import MOST_BUILT, Trials, are_many

SPEC = """
tfdeploy = 1

model "wide" {
  x = input(float32, [400])
  label = input(int32, [])
  y = x -> Dense(500, name = "fc1") -> Dense(500, name = "fc2") -> Dense(3, name = "fc3")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
}
devices {
  kind = v100
  link = 1GB
  job "ps" { tasks = 4 }
  job "worker" { tasks = 11, gpu = 6 }
}
clones { batch = 4 }
place {
  clones -> worker[*].gpu[*]
  variables -> ps[0]
}
update { optimizer = Momentum(0.1) }
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of the spec."""
    file = tmp_path / "wide.tfdeploy"
    file.write_text(SPEC)
    return file


def _trials(path: Path, text: str | None = None) -> Trials:
    reading = grammar.read(str(path), text=text)
    assert reading.spec is not None
    return Trials(reading.spec, reading.trees[0], Goal.STEP_TIME)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of clones of the graphs that are built; that of all clones must not be."""
    found: list[int] = []
    compile_step = many_clones.compile_step

    def noted(plan: Any, **words: Any) -> Any:
        found.append(len(plan.towers))
        return compile_step(plan, **words)

    monkeypatch.setattr(many_clones, "compile_step", noted)
    monkeypatch.setattr("compiler.graph.build.compile_step", None)
    return found


def test_placements_of_many_clones_are_compared_without_their_graph(path: Path, built: list[int]) -> None:
    """What is found has the figures that it was found for, and what was left out is told with the reason."""
    found, text = Suggester(_trials(path)).run()
    assert set(built) == {4, 9}
    (left_out,) = found.notes
    assert left_out == (
        "not compared, because clones are then not alike and need a graph of all: "
        "`variables -> cpu[0]`, `variables -> balanced(cpu[*])`, "
        "`variables -> replicated, slots -> sharded(clones)`"
    )
    assert (found.tried, found.compared) == (0, len(built) // 2 - 1)  # that of `cpu[0]` was built in vain
    assert found.improved
    assert found.after.value(Goal.STEP_TIME) < found.before.value(Goal.STEP_TIME)
    assert found.bound <= found.after.value(Goal.STEP_TIME)
    shown = suggestion_text(found)
    head = f"for step_time, {found.compared} placements compared without the graph of all clones"
    assert shown.startswith(f"{path}: {head}\n")
    again = Suggester(_trials(path, text)).run()[0]
    assert not again.improved
    assert again.before == found.after


def test_bytes_of_many_clones_are_those_of_their_map(path: Path, built: list[int]) -> None:
    """No time is needed to find the placement with the least on one device."""
    trials = _trials(path)
    trials.goal = Goal.BALANCE
    found, text = Suggester(trials).run()
    assert "sharded(ps[*])" in text or "balanced(ps[*])" in text
    held = 2 * 4 * (400 * 500 + 500 + 500 * 500 + 500 + 500 * 3 + 3)
    assert found.before.heaviest == ("ps[0].cpu[0]", held)
    assert found.after.heaviest[1] < held / 2
    assert set(built) == {4, 9}


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_share_of_many_clones_is_that_of_all(path: Path, mode: str) -> None:
    """It is the same whether one task stands for others or each has its ops. What GPUs lack is told once."""
    text = SPEC.replace("kind = v100", "kind = v100, gpu_memory = 1KB")
    update = f"Momentum(0.1), mode = {mode}, replication = in_graph"
    path.write_text(text.replace("Momentum(0.1)", update))
    plan = make_plan(grammar.load(path))
    found = _trials(path).begin().outcome
    whole = many_clones.map_many(plan, fold=False, extras=Extras(costs=True, time=False)).work
    assert len(whole.ops) > 3 * len(found.work.ops)
    bounds = [bound(Goal.STEP_TIME, found.placement, work, found.costs) for work in (found.work, whole)]
    assert bounds[0] <= bounds[1] * (1 + 1e-6)
    # Of what several clones repeat, less is counted for the tasks that are not there: a bound all the same.
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-6 if mode == "sync" else 0.02)
    first, *others = _too_full(found.placement)
    assert first.startswith("worker[0..10].gpu[0..5]: each of 66 needs ")
    assert [each.partition(": ")[0] for each in others] == ["worker[0].gpu[0]", "worker[0].gpu[0]"]


@pytest.mark.parametrize(
    ("changes", "many"),
    [
        ({}, True),
        ({"tasks = 11, gpu = 6": f"tasks = 8, gpu = {MOST_BUILT // 8}"}, False),
        ({"variables -> ps[0]": 'variables -> ps[0]\n  ops("fc1/*") -> worker[3].gpu[0]'}, False),
        ({"Momentum(0.1)": "Momentum(0.1)\n  aggregate = tree\n"}, False),
    ],
)
def test_only_clones_that_are_many_and_alike_are_compared_so(
    path: Path, changes: dict[str, str], many: bool
) -> None:
    """Of others the graph of all is built, and the step of each placement has all of them."""
    text = SPEC
    for old, new in changes.items():
        text = text.replace(old, new)
    path.write_text(text)
    assert are_many(make_plan(grammar.load(path))) is many


def test_with_fewer_clones_their_graph_is_built(path: Path) -> None:
    """So it is in a search that began with many; what would need the graph of many is told."""
    path.write_text(SPEC.replace("tasks = 11, gpu = 6", "tasks = 13, gpu = 5"))
    trials = _trials(path)
    trials.begin()
    rest = Changes({"clones": ("clones -> worker[0..1].gpu[*]",)}, {("clones", "batch"): "26"})
    fewer = trials.compare(rest)
    assert (len(fewer.plan.towers), trials.built, trials.left_out) == (10, 1, [])
    assert trials.compare(Changes(values={("update", "aggregate"): "tree"})) is None
    assert trials.left_out == ["update.aggregate = tree"]


def test_what_shows_only_when_a_few_are_built_needs_the_graph_of_all(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search goes on as for few clones."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise NotAlikeError("there is a reason")

    monkeypatch.setattr(plans, "many_of", refuse)
    path.write_text(SPEC.replace("tasks = 11, gpu = 6", "tasks = 13, gpu = 5"))
    trials = _trials(path)
    first = trials.begin()
    assert (trials.built, trials.compared) == (1, 0)
    assert len(trials.step.plan.towers) == len(first.plan.towers) == 65
