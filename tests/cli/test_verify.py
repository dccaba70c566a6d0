"""`verify`: it agrees where layouts compute the same, and says where they do not."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from compiler.graph import scores
from compiler.step import sums
from compiler.step.sums import Reduction
from dsl import ir
from tests.folders import ROOT
from tests.specs import LINE
from tests.support import spec_of
from tfdeploy.cli.commands.verify import DIFFERENT
from tfdeploy.cli.group import load
from tfdeploy.runtime import verify as verification
from tfdeploy.runtime.verify import Options, Verification, cases
from tfdeploy.runtime.verify.cases import Case
from tfdeploy.runtime.verify.compare import Differences
from tfdeploy.runtime.verify.session import Outcome

SPECS = Path(__file__).parent / "specs"
EVERYTHING = str(SPECS / "everything.tfdeploy")
DIGITS = str(ROOT / "examples" / "digits.tfdeploy")

IN_PIECES = """
devices {
  job "ps" { tasks = 2 }
  job "worker" { tasks = 2 }
}
clones { batch = 8 }
place {
  clones -> worker[*].cpu[0]
  variables -> replicated
  slots -> sharded(clones)
  variables("table/*") -> sharded(ps[*], axis = 1)
}
"""

PIECES = (("sync", "sharded"), ("async", "sharded"), ("sync", cases.SLOTS_SHARDED))


def verify(*arguments: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(load("verify"), list(arguments), standalone_mode=False)


def lines_of(result: Result) -> list[list[str]]:
    """Return the cells of the table: mode, aggregation (none for async), placement, number of cases."""
    rows = [line.split() for line in result.stdout.splitlines()]
    rows = [cells for cells in rows if cells and cells[0] in {"sync", "async", "local"}]
    return [cells[:-4] for cells in rows if cells[1] != "against"]


def choose(monkeypatch: pytest.MonkeyPatch, few: Callable[[list[Case]], Iterable[Case]]) -> None:
    """Let a sample consist of few of its cases."""
    sample = cases.sample
    monkeypatch.setattr(cases, "sample", lambda kept, clones: list(few(sample(kept, clones))))


def one_of_each(sampled: list[Case]) -> list[Case]:
    """Keep one case of each aggregation in one process.

    Those on clusters are for `make full`, and some of them are among the cases on processes. Of `local` two
    aggregations are kept: copies are averaged alike by all of them, as
    tests/compiler/graph/update/test_local.py shows.
    """
    kept: dict[tuple[str, str], Case] = {}
    for each in sampled:
        if not each.workers and (each.mode != "local" or each.aggregate.name in {"add_n", "ring"}):
            kept.setdefault((each.mode, each.aggregate.name), each)
    return list(kept.values())


def few_on_a_cluster(sampled: list[Case]) -> list[Case]:
    """Keep each mode with a graph for each worker, and a ring and a table in pieces in one graph."""
    kept: list[Case] = []
    left = set().union(*map(aspects, sampled))
    while left:
        kept.append(max(sampled, key=lambda each: len(aspects(each) & left)))
        left -= aspects(kept[-1])
    return kept


def aspects(case: Case) -> set[tuple[str, str]]:
    """Return what of a case on a cluster another must have if it is left out."""
    if case.between:
        return {(case.mode, "between")}
    return {(case.mode, case.aggregate.name), (case.mode, case.variables)} & {("sync", "ring"), PIECES[0]}


@pytest.mark.slow
@pytest.mark.parametrize("few", [one_of_each, pytest.param(list, id="all", marks=pytest.mark.full)])
def test_a_sample_of_everything_agrees(
    monkeypatch: pytest.MonkeyPatch, few: Callable[[list[Case]], list[Case]]
) -> None:
    """Dropout, a penalty, clipping, averages, a schedule: a few steps of every kind give the same weights."""
    choose(monkeypatch, few)
    result = verify(EVERYTHING, "--quick", "--steps", "3")
    assert result.return_value == 0, result.output
    assert result.stdout.splitlines()[-1] == "all agree"
    cells = lines_of(result)
    assert {line[0] for line in cells} == {"sync", "async", "local"}
    assert {line[1] for line in cells if line[0] == "sync"} == {
        "add_n",
        "tree",
        "hierarchical",
        "ring",
        "shuffle",
        "collective",
    }


@pytest.mark.full
@pytest.mark.parametrize(
    ("at", "name"), [*enumerate(["embedding", "normalized", "masked", "recurrent", "lengths", "varied"])]
)
def test_samples_of_other_models_agree(monkeypatch: pytest.MonkeyPatch, at: int, name: str) -> None:
    """Rows of a table, masks, statistics, loops, clipping, averages: a third of the cases, by turns."""
    choose(monkeypatch, lambda sampled: sampled[at % 3 :: 3])
    result = verify(str(SPECS / f"{name}.tfdeploy"), "--quick", "--json", "--steps", "3", "--allow-python")
    assert result.return_value == 0, result.output
    found = json.loads(result.stdout)
    assert found["agrees"]
    assert found["cases"]
    assert all(each["weights"] <= 1e-5 for each in found["cases"])
    reasons = {each["reason"] for each in found["left_out"]}
    assert ("`aggregate = collective` cannot sum the rows of a table" in reasons) == (name != "normalized")


@pytest.mark.full
@pytest.mark.slow
def test_statistics_of_each_clone_are_held_against_the_same_clones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without synchronisation a step depends on how the batch is cut, and the reference has the same cuts."""
    choose(monkeypatch, lambda sampled: {case.mode: case for case in sampled}.values())
    result = verify(
        str(SPECS / "normalized.tfdeploy"), "--quick", "--steps", "3", "--set", "update.batch_norm=mean"
    )
    assert result.return_value == 0, result.output
    assert {line[0] for line in lines_of(result)} == {"sync", "local"}
    assert "held against the same clones" in result.stdout


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.usefixtures("forked_tasks")
@pytest.mark.parametrize(
    ("few", "kill"),
    [
        pytest.param(list, False, id="all"),
        pytest.param(few_on_a_cluster, True, id="killed"),
    ],
)
def test_a_cluster_of_processes_agrees(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, few: Callable[[list[Case]], list[Case]], *, kill: bool
) -> None:
    """Servers that are processes train in every way that goes together, one after the other.

    Also if one of them is killed in each way.

    The spec itself has a table in pieces on servers, and slots in pieces on clones.
    """
    choose(monkeypatch, few)
    path = tmp_path / "bag.tfdeploy"
    path.write_text((SPECS / "embedding.tfdeploy").read_text() + IN_PIECES)
    result = verify(str(path), "--launch", *["--kill"][: int(kill)], "--quick", "--json", "--steps", "2")
    assert result.return_value == 0, result.output
    found = json.loads(result.stdout)
    assert found["agrees"]
    kinds = {(each["mode"], each["aggregate"]) for each in found["cases"]}
    every = few is list
    aggregates = {"add_n", "tree", "ring", "shuffle"} if every else {"add_n", "ring"}
    assert {aggregate for mode, aggregate in kinds if mode == "sync"} >= aggregates
    assert {mode for mode, _ in kinds} == {"sync", "async", "local"}
    placed = {(each["mode"], each["variables"]) for each in found["cases"]}
    assert placed >= set(PIECES if every else PIECES[:1])
    assert all(each["weights"] <= 1e-5 for each in found["cases"])


def test_what_is_on_or_off_takes_no_value() -> None:
    """All is off unless it is asked for, and what follows is the spec."""
    flags = {
        "--quick": "quick",
        "--synthetic": "synthetic",
        "--launch": "launch",
        "--kill": "kill",
        "--json": "as_json",
    }
    for given in (*([each] for each in flags), [], list(flags)):
        found = load("verify").make_context("verify", [*given, "a.tfdeploy"]).params
        assert {name: found[name] for name in flags.values()} == {
            name: flag in given for flag, name in flags.items()
        }
        assert (found["spec"], found["steps"], found["tolerance"]) == ("a.tfdeploy", 5, None)


@pytest.mark.slow
def test_a_wrong_sum_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An aggregation that leaves out the last clone makes the command end with 1, and is named.

    All else agrees on examples that are made up without any data: words are in the table, and classes among
    the predictions.
    """

    def forgetful(reduction: Reduction) -> list[Any]:
        few = max(len(reduction.values) - 1, 1)
        kept = evolve(reduction, values=reduction.values[:few], homes=reduction.homes[:few])
        return sums.AGGREGATIONS["add_n"](kept)

    monkeypatch.setitem(sums.AGGREGATIONS, "tree", forgetful)
    choose(
        monkeypatch,
        lambda sampled: {
            case.aggregate.name: case
            for case in sampled
            if case.mode == "sync" and not case.between and case.aggregate.name in {"add_n", "tree"}
        }.values(),
    )
    text = (SPECS / "embedding.tfdeploy").read_text()
    path = tmp_path / "spec.tfdeploy"
    path.write_text(text[: text.index("data {")] + text[text.index("update {") :])
    result = verify(str(path), "--quick", "--synthetic", "--steps", "2")
    assert result.return_value == 1, result.output
    assert {line[1] for line in lines_of(result)} >= {"add_n", "tree"}
    wrong = [line for line in result.stdout.splitlines() if line.endswith("beyond the tolerance")]
    assert {line.split()[1] for line in wrong} == {"tree"}
    assert "differ" in result.stdout.splitlines()[-1]


WEIGHED = f"""{LINE.replace("  loss", "  regularize = L2(1.0), loss")}
data {{ train = synthetic(100, x = feature(float32, [3]), y = feature(float32, [1])) }}
update {{ optimizer = SGD(0.1), ema = 0.9 }}
train {{ steps = 3, seed = 1 }}
"""


@pytest.mark.full
@pytest.mark.parametrize("averages", [pytest.param(True, id="ema"), pytest.param(False, id="plain")])
def test_an_evaluation_of_other_weights_is_found(monkeypatch: pytest.MonkeyPatch, *, averages: bool) -> None:
    """The penalty of the training's weights beside the loss of averages, or of a mean of copies, is named."""

    def differing() -> set[str]:
        verification = Verification(spec_of(WEIGHED, **more), Options(steps=3))
        cases = [Case(mode, ir.Call("add_n"), "replicated", (15, 9)) for mode in ("sync", "local")]
        verification.selected = evolve(verification.selected, cases=tuple(cases))
        outcomes = [each for each in verification.outcomes() if each.differences.largest > 1e-4]
        assert all(each.differences.worst == "loss evaluated" for each in outcomes)
        return {each.case.mode for each in outcomes}

    more = {} if averages else {"update__ema": "none"}
    assert differing() == set()
    monkeypatch.setattr(scores, "_regularization", lambda *given: given[-1].regularization)
    assert differing() == ({"sync", "local"} if averages else {"local"})


def test_data_is_not_made_up_unasked(tmp_path: Path) -> None:
    """Where the data is missing the command says so and ends with 2."""
    text = (SPECS / "embedding.tfdeploy").read_text()
    start = text.index("data {")
    away = text[:start] + 'data { train = npz("nowhere.npz") }\n' + text[text.index("update {") :]
    path = tmp_path / "spec.tfdeploy"
    path.write_text(away)
    result = verify(str(path), "--quick")
    assert result.return_value == 2
    assert "TFD701" in result.stderr


class Prepared:
    """A verification of two cases, of which one differs."""

    def __init__(self, spec: Any, options: Any) -> None:
        self.spec, self.options, self.tolerance, self.depends_on_clones = spec, options, 1e-4, False
        plain = ir.Call("add_n")
        self.cases = [cases.Case(mode, plain, "shared", (24,)) for mode in ("sync", "async")]
        self.selected = cases.SelectedCases(tuple(self.cases), ())

    def outcomes(self) -> Iterator[Outcome]:
        """Yield their outcomes."""
        for case, difference in zip(self.cases, (0.0, self.options.tolerance or 0.0), strict=True):
            yield Outcome(case, Differences(difference, 0.0, 0.0, "w"), 1.0)


@pytest.mark.parametrize(("tolerance", "code"), [("1e-4", 0), ("0.5", DIFFERENT)])
def test_every_outcome_is_told(monkeypatch: pytest.MonkeyPatch, tolerance: str, code: int) -> None:
    """As lines of a table below its head, or in JSON; a difference beyond the tolerance has an exit code."""
    monkeypatch.setattr(verification, "Verification", Prepared)
    result = verify(DIGITS, "--tolerance", tolerance, "--steps", "7")
    assert result.return_value == code, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("2 combinations, 7 steps each")
    assert [line.split()[:3] for line in lines[4:6]] == [
        ["sync", "add_n", "shared"],
        ["async", "shared", "1"],
    ]
    assert lines[-1] == ("all agree" if code == 0 else "1 of 2 combinations differ")
    found = json.loads(verify(DIGITS, "--tolerance", tolerance, "--json").stdout)
    assert [each["mode"] for each in found["cases"]] == ["sync", "async"]
    assert found["agrees"] is (code == 0)
