"""A placement that is compared has the step of its graph, and no graph is made of it."""

from collections import Counter
from typing import Any

import pytest
from attrs import evolve

import grammar
from compiler.graph import ledger
from compiler.graph.build import compile_graph
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.tower.trace import Tracer
from compiler.pipeline import for_worker
from compiler.step.read.memory import forecast_memory
from compiler.step.read.work import timed_step
from compiler.suggest.outcome import Figures, Goal
from compiler.suggest.variations import Changes
from compiler.time.forecast import forecast_step
from tests.cli.test_suggest import WIDE
from tests.compiler.graph.inspect.shapes.test_assumed import TEXT
from tests.compiler.graph.test_structure import ADAM, CASES, MODEL, SERVERS, SGD, TABLE
from tests.support import cloned
from tfdeploy.runtime.plans import SHARED_SEED, plan_of
from tfdeploy.suggesting.suggester import Suggester
from tfdeploy.suggesting.trials import Trials

FREE = "a free axis"
COMPARED = (
    *("slots over clones add_n", "pieces", "float16", "micro-batches", FREE),
    *("workers", "workers async", "copies tree", "packed ring", "summaries"),
    *("async", "async stale", "local ring", "clipped", "slots over clones"),
)
"""Cases of `tests/compiler/graph/test_structure.py`, whose records are compared there with their graphs."""


def trials_of(text: str, goal: Goal = Goal.STEP_TIME, *overrides: tuple[str, str]) -> Trials:
    """Return trials of a text."""
    reading = grammar.read("wide.tfdeploy", overrides, text=text)
    assert reading.spec is not None, reading.diagnostics
    return Trials(reading.spec, reading.trees[0], goal, overrides=overrides)


def changes_of(rules: str) -> Changes:
    """Return the changes that put variables, and what follows them, where some rules say."""
    listed = [each.strip() for each in rules.splitlines()]
    roles = dict.fromkeys(each.partition(" ")[0].partition("(")[0] for each in listed)
    return Changes({role: tuple(each for each in listed if each.startswith(role)) for role in roles})


def graph_of(trials: Trials, text: str) -> Any:
    """Return the graph of a text, for which nothing is used that the trials have made."""
    plan = plan_of(trials.read(text))
    return compile_graph(evolve(plan, model=plan.model.assumed), seed=SHARED_SEED)


@pytest.mark.family(every=5)
@pytest.mark.parametrize("name", COMPARED)
def test_the_work_of_a_placement_is_that_of_its_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every mode: the same ops at the same places, which wait for the same. Towers are traced once."""
    if name == FREE:
        text, rules = cloned(TEXT.format(shape="none], assume = [50")), "variables -> sharded(cpu[*])"
    else:
        place, update, devices, batch, train = (*CASES[name], *("cpu = 3", "4", "")[len(CASES[name]) - 2 :])
        home = "ps[0]" if devices == SERVERS else "cpu[0]"
        given = {"devices": devices, "batch": batch, "update": update, "train": train}
        first = "" if "local" in update else f"variables -> {home}"
        text, rules = MODEL.format(found=TABLE, place=first, **given), place or "variables -> cpu[1]"
    trials = trials_of(text)
    traced, imported = [], []
    trace, import_nodes = Tracer.trace, ledger.import_nodes
    monkeypatch.setattr(Tracer, "trace", lambda *a, **more: traced.append(a[1]) or trace(*a, **more))
    monkeypatch.setattr(ledger, "import_nodes", lambda *a: imported.append(a) or import_nodes(*a))
    trials.begin()
    before = len(traced), len(imported)
    assert before == (2, 1)  # towers for training and for evaluation; one graph
    found = trials.compare(changes_of(rules))
    assert (trials.built, trials.compared) == (1, 1)
    assert len(traced) == before[0]
    if name != "micro-batches":  # in a loop, TensorFlow finds out the shapes
        assert len(imported) == before[1]
    wanted = timed_step(graph_of(trials, found.text).step)
    work = found.outcome.work
    assert work.ops == wanted.ops
    assert Counter(work.arrows) == Counter(
        wanted.arrows
    )  # TensorFlow lists what an op waits for in any order
    assert evolve(work, arrows=()) == evolve(wanted, arrows=())


def test_what_is_refused_is_left_out() -> None:
    """By a check of the spec, of the plan, or of the model; and what `--set` makes another step."""
    trials = trials_of(WIDE, Goal.STEP_TIME, ("clones.batch", "4"))
    trials.begin()
    for rules in ("slots -> sharded(clones)", "variables -> gpu[9]", 'variables("nothing") -> gpu[0]'):
        assert trials.compare(changes_of(rules)) is None
    halved = Changes({"clones": ("clones -> gpu[0..1]",)}, {("clones", "batch"): "8"})
    assert trials.compare(halved) is None
    assert (trials.built, trials.compared) == (1, 0)
    same = trials.compare(changes_of("variables -> cpu[0]"))
    assert same.outcome is trials.compare(Changes()).outcome  # type: ignore[union-attr]


@pytest.mark.parametrize("goal", [Goal.MEMORY, pytest.param(Goal.STEP_TIME, marks=pytest.mark.full)])
def test_the_figures_of_a_suggestion_are_those_of_its_graph(goal: Goal) -> None:
    """The memory of what is compared is an estimate, and that of what is suggested is not."""
    trials = trials_of(WIDE, goal)
    found, text = Suggester(trials).run()
    assert found.improved
    compiled = graph_of(trials, text)
    assert trials.costs is not None
    time = forecast_step(timed_step(compiled.step), trials.costs)
    assert found.after == Figures.of(map_placement(compiled, memory=forecast_memory(compiled.step)), time)
    assert (found.tried, found.compared) == (1, trials.compared)


@pytest.mark.full
def test_slots_are_cut_over_clones_where_variables_are_replicated() -> None:
    """The rule goes again where variables are elsewhere, whether the spec has it or the search."""
    cut = WIDE.replace("variables -> cpu[0]", "variables -> replicated\n  slots -> sharded(clones)")
    trials = trials_of(cut.replace("Momentum(0.1, momentum = 0.9)", ADAM.partition("= ")[2]), Goal.BALANCE)
    found, text = Suggester(trials).run()
    assert "slots" not in text
    assert found.rules == ("clones -> gpu[*]", "variables -> sharded(gpu[*])")


def test_workers_that_send_each_other_sums_are_compared_by_the_steps_of_all() -> None:
    """Another aggregation is ranked by the ops of every worker, and of neither a graph is made."""
    text = MODEL.format(
        found=TABLE, place="", devices='job "worker" { tasks = 2 }', batch="4", update=SGD, train=""
    )
    trials = trials_of(text)
    first = trials.begin()
    ring = Changes({}, {("update", "aggregate"): "ring"}, {})
    found = trials.compare(ring)
    assert found is not None
    assert not trials.left_out
    works = [each.outcome.work for each in (first, found)]
    for work, aggregation in zip(works, ("add_n", "ring"), strict=True):
        spec = trials.read(trials.text(ring) if aggregation == "ring" else text)
        steps = [compile_graph(for_worker(plan_of(spec), at), seed=SHARED_SEED).step for at in range(2)]
        names = Counter(each.name for each in work.ops)
        wanted = Counter(name for step in steps for name in {each.name for each in step.run})
        assert [name for name, count in wanted.items() if names[name] < count] == []
        assert {each.device.ref for each in work.ops} == {"worker[0].cpu[0]", "worker[1].cpu[0]"}
