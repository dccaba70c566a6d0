"""`evaluate` and `predict`: what was trained, taken from its checkpoint."""

import json
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from click.testing import CliRunner

from tests.runtime.conftest import DIGITS, Project
from tests.runtime.train.test_evaluation import digits, forward
from tests.support import refusal
from tfdeploy import api
from tfdeploy.cli.group import load
from tfdeploy.runtime.records.store import MOST_DIGITS
from tfdeploy.runtime.trained.trained import _is_step


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project after 20 steps, with checkpoints of step 10 and 20."""
    made = Project(tmp_path_factory.mktemp("trained"))
    made.run(train__steps=20, train__checkpoint_every=10)
    return made


@pytest.fixture
def trained(project: Project, run_once: Project) -> Project:
    """Return the project with a copy of that run."""
    shutil.copytree(run_once.run_directory, project.run_directory)
    return project


@pytest.mark.parametrize(
    ("text", "is_step"),
    [
        ("0", True),
        ("20", True),
        ("9" * MOST_DIGITS, True),
        ("9" * (MOST_DIGITS + 1), False),  # more than TensorFlow can count
        ("-1", False),
        ("2²", False),
        ("٣", False),
        ("", False),
    ],
)
def test_a_checkpoint_may_be_asked_for_by_its_step(text: str, *, is_step: bool) -> None:
    """Every number that a step can have, written as checkpoints have it; all else is a path."""
    assert _is_step(text) == is_step


@pytest.mark.full
def test_evaluate(trained: Project) -> None:
    """The scores are those of the end of the run, unless another step or split is asked for."""
    at_end = json.loads((trained.run_directory / "result.json").read_text())
    found = api.evaluate(trained.load())
    assert json.loads(found.to_json()) == {
        "checkpoint": str(trained.run_directory / "checkpoints" / "model.ckpt-20"),
        "step": 20,
        "splits": {"test": at_end["test"]},
    }
    earlier = api.evaluate(trained.load(), checkpoint="10", splits=["train", "test"])
    assert (earlier.step, list(earlier.splits)) == (10, ["train", "test"])
    assert earlier.splits["train"].examples == 1438
    assert earlier.splits["test"].loss > found.splits["test"].loss
    path = trained.run_directory / "checkpoints" / "model.ckpt-10"
    assert api.evaluate(trained.load(), checkpoint=str(path), splits=["test"]).splits == {
        "test": earlier.splits["test"]
    }


@pytest.mark.full
def test_evaluate_changes_nothing(trained: Project) -> None:
    """A checkpoint that is damaged is passed over with a warning, and is left where it is."""
    index = trained.run_directory / "checkpoints" / "model.ckpt-20.index"
    index.write_bytes(bytes(index.stat().st_size))
    before = {path: path.stat().st_mtime_ns for path in trained.run_directory.rglob("*")}
    warnings: list[Any] = []
    assert api.evaluate(trained.load(), warn=warnings.append).step == 10
    assert [each.code for each in warnings] == ["TFD734"]
    assert {path: path.stat().st_mtime_ns for path in trained.run_directory.rglob("*")} == before
    found = refusal(api.evaluate, trained.load(), checkpoint="20")
    assert found.message.startswith(f"the checkpoint `{index.with_suffix('')}` cannot be read: ")


@pytest.mark.full
def test_a_checkpoint_as_a_number_or_a_path_and_one_split(trained: Project) -> None:
    """All of them mean what the texts and the list mean."""
    spec = trained.load()
    path = trained.run_directory / "checkpoints" / "model.ckpt-20"
    by_number = api.evaluate(spec, checkpoint=20, splits="test")
    assert list(by_number.splits) == ["test"]
    assert by_number.step == api.evaluate(spec, checkpoint=path, splits=["test"]).step == 20


@pytest.mark.parametrize("checkpoint", [None, "30", "nowhere/model.ckpt-3", "nonsense"])
def test_no_checkpoint(project: Project, checkpoint: str | None) -> None:
    """What was not trained, or not at that step, cannot be evaluated."""
    found = refusal(api.evaluate, project.load(), checkpoint=checkpoint)
    assert (found.code, found.notes, found.help) == ("TFD735", (), "train first: `compile-and-run`")


@pytest.mark.parametrize("checkpoint", ["7", "nowhere/model.ckpt-3", "nonsense"])
def test_no_such_checkpoint(trained: Project, checkpoint: str) -> None:
    """What names no checkpoint of a trained model is refused with the steps that there are."""
    found = refusal(api.evaluate, trained.load(), checkpoint=checkpoint)
    folder = trained.run_directory / "checkpoints"
    assert found.code == "TFD735"
    assert found.notes == (f"`{folder}` has the checkpoints of steps `20` and `10`",)
    assert found.help == "name one of these steps"


@pytest.mark.full
def test_commands(trained: Project) -> None:
    """Both commands print what they did, and agree with the API."""
    run = CliRunner().invoke
    where = ["--set", f"train.directory={trained.run_directory}"]
    done = run(load("evaluate"), [str(trained.spec), "--json", *where], standalone_mode=False)
    assert (done.return_value, json.loads(done.stdout)["step"]) == (0, 20)
    output = trained.folder / "out.csv"
    files = ["--input", str(DIGITS / "test.csv"), "--output", str(output)]
    done = run(load("predict"), [str(trained.spec), *files, *where], standalone_mode=False)
    assert (done.return_value, done.stdout) == (0, f"{output}: 359 predictions\n")
    assert len(output.read_text().splitlines()) == 360


def test_a_spec_stays_where_it_was_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its data and its run directory are found from another folder, in which nothing is written."""
    home, away = tmp_path / "home", tmp_path / "away"
    for each in (home, away):
        each.mkdir()
    (home / "small.tfdeploy").write_text(
        'tfdeploy = 1\nmodel "m" { x = input(float32, []), y = input(float32, [])\n'
        "h = x -> Reshape([1]) -> Dense(1) -> Reshape([])\nloss = [y, h] -> MeanSquaredError() }\n"
        "clones { batch = 2 }, update { optimizer = SGD(0.1) }, train { steps = 2 }\n"
        'data { train = csv("a.csv", x = "x", y = "y"), test = csv("a.csv", x = "x", y = "y") }\n'
    )
    (home / "a.csv").write_text("x,y\n1,2\n3,4\n")
    monkeypatch.chdir(home)
    spec = api.load("small.tfdeploy")
    monkeypatch.chdir(away)
    assert api.run(spec).directory == str(home / "runs" / "small")
    assert api.evaluate(spec).step == 2
    assert not list(away.iterdir())
    monkeypatch.chdir(home)
    assert api.run(spec).directory == "runs/small"


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_a_file_without_examples_is_named(trained: Project, ending: str) -> None:
    """It is in no line of the spec, and the split in whose place it is read may have examples."""
    empty = trained.folder / f"empty.{ending}"
    if ending == "csv":
        empty.write_text((DIGITS / "test.csv").read_text().splitlines()[0] + "\n")
    else:
        np.savez(empty, image=np.zeros([0, 64], np.float32))
    found = refusal(api.predict, trained.load(), empty, trained.folder / "out.csv")
    assert (found.code, found.message) == ("TFD703", f"`{empty}`: there is no example")


def test_predictions_are_the_models(trained: Project) -> None:
    """CSV and npz, with and without targets, give the outputs of the averaged weights, in order."""
    images, _ = digits("test")
    expected = forward(trained.variables(20), images, suffix="/ExponentialMovingAverage")
    folder = trained.folder
    lines = (DIGITS / "test.csv").read_text().splitlines()
    header = lines[0].split(",")
    keep = [at for at, name in enumerate(header) if name != "digit"]
    bare = folder / "bare.csv"
    bare.write_text("".join(",".join(line.split(",")[at] for at in keep) + "\n" for line in lines))
    arrays = folder / "arrays.npz"
    np.savez(arrays, image=(images * 16).astype(np.float32))
    for examples in (DIGITS / "test.csv", bare, arrays):
        assert api.predict(trained.load(), examples, folder / "out.csv") == 359
        text = (folder / "out.csv").read_text().splitlines()
        assert text[0] == ",".join(f"logits_{at}" for at in range(10))
        found = np.array([[float(cell) for cell in line.split(",")] for line in text[1:]])
        assert np.max(np.abs(found - expected)) < 1e-5
    api.predict(trained.load(), bare, folder / "out.npz")
    with np.load(folder / "out.npz") as archive:
        assert list(archive) == ["logits"]
        assert archive["logits"].shape == (359, 10)
        assert np.max(np.abs(archive["logits"] - expected)) < 1e-5


def test_broken_input_leaves_no_output(trained: Project) -> None:
    """A cell that is no number is named with its file and row, and no part of the predictions is left."""
    lines = (DIGITS / "test.csv").read_text().splitlines()
    lines[300] = lines[300].replace(",", ",x", 1)
    broken = trained.folder / "broken.csv"
    broken.write_text("\n".join(lines) + "\n")
    found = refusal(api.predict, trained.load(), broken, trained.folder / "out.csv")
    assert found.code == "TFD706"
    assert found.message.startswith(f"`{broken}`, row 301, column `pixel_1`")
    assert sorted(path.name for path in trained.folder.iterdir()) == ["broken.csv", "run", "small.tfdeploy"]


def test_a_split_that_the_spec_lacks(trained: Project) -> None:
    """It is refused where the spec has its data, whatever should be done with it."""
    spec, output = trained.load(), trained.folder / "out.csv"
    for found in (
        refusal(api.evaluate, spec, splits="validation"),
        refusal(api.predict, spec, DIGITS / "test.csv", output, split="validation"),
    ):
        assert (found.code, found.message) == ("TFD744", "the spec has no split `validation`")
        assert found.span == spec.data.span
    assert not output.exists()


def test_files_of_other_kinds(trained: Project) -> None:
    """Only CSV and npz are read and written; anything else is wrong usage."""
    done = CliRunner().invoke(
        load("predict"), [str(trained.spec), "--input", "a.txt", "--output", "b.csv"], standalone_mode=True
    )
    assert done.exit_code == 2
    assert "'a.txt' is neither a .csv nor a .npz file" in done.stderr


SERIES = """tfdeploy = 1
model "m" {{
  x = input(float32, [3])
  later = input(float32, [2])
  y = x -> Dense(2)
  loss = [later, y] -> MeanSquaredError()
}}
clones {{
  count = 2
  batch = 4
}}
update {{ optimizer = SGD(0.1) }}
devices {{ cpu = 2 }}
data {{ train = csv("s.csv", x = "x", later = "x") -> window(3, horizon = 2, label = later) }}
train {{
  steps = 3
  directory = "{}"
}}
"""


@pytest.mark.full
def test_what_follows_the_last_rows_of_a_series_is_predicted(tmp_path: Path) -> None:
    """There is a forecast for every window, also for those of which the future is not known."""
    numbers = np.sin(np.arange(12, dtype=np.float32))
    (tmp_path / "s.csv").write_text("x\n" + "".join(f"{each:.6f}\n" for each in numbers))
    spec = tmp_path / "s.tfdeploy"
    spec.write_text(SERIES.format(tmp_path / "run"))
    api.run(api.load(spec))
    assert api.predict(api.load(spec), tmp_path / "s.csv", tmp_path / "out.npz") == 10
    with np.load(tmp_path / "out.npz") as archive:
        (found,) = archive.values()
    model = keras.models.load_model(tmp_path / "run" / "model.keras")
    windows = np.lib.stride_tricks.sliding_window_view(numbers, 3)
    np.testing.assert_allclose(found, model(windows), atol=1e-5)
