"""A run leaves the files of the contract, and goes on where it was."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from dsl.diagnostics import SpecError
from tests.runtime.conftest import Listener, Project
from tests.support import refusal
from tfdeploy.runtime.records.lock import locked


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two sets of variables are equal bit for bit."""
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


RunBefore = Callable[..., Any]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> RunBefore:
    """Return a function that gives the project and the result of a run, which is made once for all tests."""
    runs: dict[str, tuple[Project, Any]] = {}

    def run(**overrides: Any) -> tuple[Project, Any]:
        key = repr(sorted(overrides.items()))
        if key not in runs:
            project = Project(tmp_path_factory.mktemp("shared"))
            runs[key] = (project, project.run(**overrides))
        return runs[key]

    return run


@pytest.fixture
def run_before(project: Project, shared: RunBefore) -> RunBefore:
    """Return a function that puts a run into the directory of the test's project, and returns its result."""

    def run(**overrides: Any) -> Any:
        made, result = shared(**overrides)
        shutil.copytree(made.run_directory, project.run_directory)
        return result

    return run


@pytest.fixture(scope="module")
def evaluated(shared: RunBefore) -> tuple[Project, Any]:
    """Return the project and the result of a run with evaluations that keeps two checkpoints."""
    settings = {"train__log_every": 25, "train__evaluate_every": 20, "train__checkpoint_every": 15}
    project, result = shared(**settings, train__keep=2)
    return project, result


def test_the_files_of_a_run(evaluated: tuple[Project, Any]) -> None:
    """Everything that the contract lists is there, agrees with the result, and nothing else."""
    project, result = evaluated
    names = {path.name for path in project.run_directory.iterdir()}
    assert names == {
        ".lock",
        ".tfdeploy-run",
        "checkpoints",
        "events",
        "history.jsonl",
        "model.keras",
        "placement.json",
        "result.json",
        "spec.tfdeploy",
    }
    assert json.loads((project.run_directory / "result.json").read_text()) == json.loads(result.to_json())
    assert (result.status, result.steps, result.directory) == ("finished", 60, str(project.run_directory))
    assert project.steps() == [25, 50, 60]
    assert project.steps("test") == [20, 40, 60]
    last = project.history()[-1]
    assert last["split"] == "test"
    assert result.test.examples == 359
    assert (last["loss"], last["metrics"]) == (result.test.loss, dict(result.test.metrics))
    manifest = json.loads((project.run_directory / "checkpoints" / "model.ckpt-60.json").read_text())
    assert (manifest["step"], manifest["examples"]) == (60, 60 * 32)


def test_only_so_many_checkpoints_are_kept(evaluated: tuple[Project, Any]) -> None:
    """`keep` counts, and TensorFlow's own list agrees."""
    project, _ = evaluated
    folder = project.run_directory / "checkpoints"
    assert sorted(path.name for path in folder.glob("*.json")) == ["model.ckpt-45.json", "model.ckpt-60.json"]
    assert tf.train.latest_checkpoint(str(folder)) == str(folder / "model.ckpt-60")


def test_the_map_knows_where_ops_are(evaluated: tuple[Project, Any]) -> None:
    """After a run every op of a tower that was run has its real device, and none is misplaced."""
    project, _ = evaluated
    placement = json.loads((project.run_directory / "placement.json").read_text())
    assert placement["misplaced"] == []
    products = [op for op in placement["ops"] if op["type"] == "MatMul" and op["role"] == "forward"]
    assert {(op["clone"], op["assigned"]) for op in products} == {(0, "cpu[0]"), (1, "cpu[1]")}
    roles = {op["role"] for op in placement["ops"] if op["assigned"] is not None}
    assert {"input", "variable", "read", "forward", "gradient", "update", "evaluation", "init"} <= roles


def test_a_finished_run_is_left_as_it_is(project: Project, run_before: RunBefore) -> None:
    """Running a finished spec again, elsewhere, trains nothing, and leaves what it has written."""
    first = run_before()
    history = project.history()
    names = ("spec.tfdeploy", "placement.json", "checkpoints/model.ckpt-60.json")
    kept = {name: (project.run_directory / name).stat().st_mtime_ns for name in names}
    again = project.run(devices__cpu=1, clones__count=1)
    assert again.resumed_from == 60
    assert kept == {name: (project.run_directory / name).stat().st_mtime_ns for name in kept}
    assert (again.steps, again.loss, again.metrics, again.test) == (60, first.loss, first.metrics, first.test)
    assert project.history() == history
    placement = json.loads((project.run_directory / "placement.json").read_text())
    assert any(op["assigned"] for op in placement["ops"])


@pytest.mark.full
def test_the_spec_that_is_kept_is_the_same_run(
    project: Project, run_before: RunBefore, make_project: Callable[[str], Project]
) -> None:
    """`spec.tfdeploy` of a run directory, run, ends at the same weights, to the bit."""
    result = run_before(train__steps=10)
    other = make_project("other")
    other.write((project.run_directory / "spec.tfdeploy").read_text())
    assert other.run().loss == result.loss
    assert same(project.variables(10), other.variables(10))


def test_a_run_in_two_parts_is_the_run(project: Project, shared: RunBefore) -> None:
    """A run that stops and goes on sees the examples, and ends at the weights, of one that did not stop.

    A damaged line of its history is taken out, which is told.
    """
    whole, _ = shared()
    project.run(train__steps=25)
    history = project.run_directory / "history.jsonl"
    history.write_text(f"damage\n{history.read_text()}")
    listener = Listener()
    result = project.run(reporter=listener)
    assert [(each.code, str(history) in each.message) for each in listener.warnings] == [("TFD743", True)]
    assert result.resumed_from == 25
    assert project.steps() == [10, 20, 25, 30, 40, 50, 60]
    assert same(project.variables(60), whole.variables(60))


@pytest.mark.full
def test_another_number_of_clones(project: Project, run_before: RunBefore) -> None:
    """A run goes on with more clones than it began with; steps and examples are counted on."""
    run_before(train__steps=10)
    result = project.run(clones__count=4)
    assert (result.resumed_from, result.steps) == (10, 60)
    assert result.test.metrics["accuracy"] > 0.5
    manifest = json.loads((project.run_directory / "checkpoints" / "model.ckpt-60.json").read_text())
    assert manifest["examples"] == 10 * 32 + 50 * 64


@pytest.mark.family(every=2)
@pytest.mark.parametrize("damage", [lambda size: slice(size // 2, size // 2 + 64), slice])
def test_broken_checkpoints_are_passed_over(
    project: Project, run_before: RunBefore, damage: Callable[[int], slice]
) -> None:
    """A checkpoint without its manifest does not count, nor one that does not read, and that is said.

    Neither if some of its tensors are damaged, nor if all are, the step with them.
    """
    run_before(train__checkpoint_every=10, train__steps=30)
    (project.run_directory / "checkpoints" / "model.ckpt-30.json").unlink()
    data = project.run_directory / "checkpoints" / "model.ckpt-20.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    part = damage(len(content))
    content[part] = (each ^ 255 for each in content[part])
    data.write_bytes(content)
    listener = Listener()
    result = project.run(train__steps=40, reporter=listener)
    assert (result.resumed_from, result.steps) == (10, 40)
    assert [each.code for each in listener.warnings] == ["TFD734", "TFD734"]
    prefix = project.run_directory / "checkpoints" / "model.ckpt-30"
    said = f"the checkpoint `{prefix}` is passed over: it was not written to its end"
    assert listener.warnings[0].message == said
    assert project.steps() == [10, 20, 30, 40]


@pytest.mark.full
def test_all_checkpoints_damaged(project: Project, run_before: RunBefore) -> None:
    """Where none can be read, the run ends with advice, and removes nothing."""
    run_before(train__steps=10)
    index = project.run_directory / "checkpoints" / "model.ckpt-10.index"
    index.write_bytes(bytes(len(index.read_bytes())))
    found = refusal(project.run, reporter=Listener())
    assert found.code == "TFD734"
    assert found.help == "start again with `--resume never`, which removes them"
    assert index.exists()
    assert project.run(resume="never", train__steps=5).steps == 5


@pytest.mark.full
def test_another_model(project: Project, run_before: RunBefore) -> None:
    """A checkpoint of another model is refused, naming the variables that differ."""
    run_before(train__steps=10)
    project.write(project.spec.read_text().replace("Dense(16,", "Dense(24,"))
    found = refusal(project.run)
    assert found.code == "TFD736"
    assert "`hidden/kernel` is float32[64, 16] there and float32[64, 24] here" in found.notes
    assert found.span.text.startswith('model "small"')


@pytest.mark.full
def test_another_optimizer(project: Project, run_before: RunBefore) -> None:
    """A run goes on with another optimizer; its slots start anew, and that is said."""
    run_before(train__steps=10)
    listener = Listener()
    changed = {"update__optimizer": "Momentum(0.05, momentum = 0.9)", "train__steps": 20}
    result = project.run(**changed, reporter=listener)
    assert (result.resumed_from, result.steps) == (10, 20)
    assert [each.code for each in listener.warnings] == ["TFD737"]


@pytest.mark.full
def test_averages_that_a_checkpoint_lacks(project: Project) -> None:
    """Where `ema` is new, the averages start from the weights that were restored; the spec is the new one."""
    project.run(train__steps=10, update__ema="none")
    before = project.variables(10)
    project.run(train__steps=11, update__ema=1.0 - 1e-7)
    after = project.variables(11)
    assert "steps = 11" in (project.run_directory / "spec.tfdeploy").read_text()
    assert np.allclose(after["hidden/kernel/ExponentialMovingAverage"], before["hidden/kernel"], atol=1e-6)
    assert not np.allclose(after["hidden/kernel"], before["hidden/kernel"], atol=1e-6)


def test_resume_must(project: Project) -> None:
    """`must` refuses to start from the beginning."""
    assert refusal(project.run, resume="must").code == "TFD735"


def test_resume_never(project: Project, run_before: RunBefore) -> None:
    """`never` begins again, and leaves nothing of the run before."""
    run_before(train__steps=10)
    result = project.run(train__steps=5, train__checkpoint_every=100, resume="never")
    assert (result.resumed_from, result.steps) == (None, 5)
    assert project.steps() == [5]
    assert sorted(path.name for path in (project.run_directory / "checkpoints").glob("*.json")) == [
        "model.ckpt-5.json"
    ]


def test_a_loss_that_is_not_finite(project: Project, run_before: RunBefore) -> None:
    """The run ends with the step and the line of the loss, and the last good checkpoint stays the newest."""
    run_before(train__steps=10, train__checkpoint_every=100)
    found = refusal(project.run, update__optimizer="SGD(1e30)", train__checkpoint_every=100)
    assert found.code == "TFD730"
    assert found.notes == ("the checkpoint of step 10 is kept",)
    assert found.span.text == "[digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)"
    manifests = sorted(path.name for path in (project.run_directory / "checkpoints").glob("*.json"))
    assert manifests == ["model.ckpt-10.json"]


def test_two_runs_in_one_directory(project: Project) -> None:
    """A directory that is in use is refused before anything is compiled, with the line of the spec."""
    project.run_directory.mkdir()
    with locked(project.run_directory):
        assert refusal(project.run).code == "TFD731"
    assert {path.name for path in project.run_directory.iterdir()} == {".lock", ".tfdeploy-run"}


def test_what_training_needs(project: Project) -> None:
    """Everything that is missing is said at once."""
    text = project.spec.read_text()
    start, end = text.index("data {"), text.index("devices {")
    text = text[:start] + text[end:].replace("optimizer = Adam(learning_rate = 1e-2)\n", "")
    project.write(text.replace("steps = 60", ""))
    with pytest.raises(SpecError) as caught:
        project.run()
    assert [each.code for each in caught.value.diagnostics] == ["TFD509", "TFD508", "TFD509"]


def test_bad_data_in_mid_run(project: Project, tmp_path: Path) -> None:
    """A cell that is no number ends the run with file, row and column, also where training has begun."""
    spec, broken = project.spec.read_text(), tmp_path / "broken.csv"
    sound = spec.split('train = csv("')[1].split('"')[0]
    rows = Path(sound).read_text().splitlines()
    rows[900] = rows[900].replace(",", ",x", 1)
    broken.write_text("\n".join(rows) + "\n")
    project.write(spec.replace(sound, str(broken)))
    found = refusal(project.run)
    assert found.code == "TFD706"
    assert "row 901" in found.message


@pytest.mark.full
def test_clones_that_train_copies(project: Project) -> None:
    """In local training what is evaluated, saved and exported is the mean of the copies."""
    more = {"update__mode": "local", "update__average_every": 7, "update__ema": "none"}
    project.write(project.spec.read_text().replace("update {", "place { variables -> replicated }\nupdate {"))
    result = project.run(**more)
    assert result.steps == 60
    assert result.test.metrics["accuracy"] > 0.6
    assert project.run(train__steps=70, **more).resumed_from == 60
