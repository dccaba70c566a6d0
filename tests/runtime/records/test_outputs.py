"""Commands replace what they have written, and no file of anybody else's unless the user insists."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dsl.diagnostics import RunError
from tests.runtime.conftest import Project
from tests.support import refusal
from tfdeploy import api
from tfdeploy.cli.group import load
from tfdeploy.runtime.records.files import (
    InputFiles,
    is_own_predictions,
    new_folder,
    require_place,
    write_output,
)

SPEC = """
tfdeploy = 1
model "small" {
  x = input(float32, [2])
  y = input(float32, [])
  out = x -> Dense(1, name = "out") -> Reshape([], name = "price")
  loss = [y, out] -> MeanSquaredError()
}
data { train = csv("train.csv", x = "[ab]", y = "y") }
update { optimizer = SGD(0.1) }
clones { batch = 2 }
train { steps = 1, directory = "run" }
"""
OTHER = """
tfdeploy = 1
include = ["mine/outer.tfdeploy"]
model "other" {
  image = input(float32, [1, 1, 3])
  label = input(int32, [])
  out = image -> Flatten() -> Dense(2, name = "out")
  loss = [label, out] -> SparseCategoricalCrossentropy(from_logits = true)
}
data {
  train = images("flowers", size = [1, 1])
  test = python("waves:examples")
}
update { optimizer = SGD(rate) }
clones { batch = 2 }
train { steps = 1, weights = "run/model.keras" }
"""
TRAIN = "a,b,y\n1,2,3\n4,5,6\n"
NEW = "a,b\n1,2\n3,4\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a spec that has been trained for a step, its data, and examples."""
    folder = tmp_path_factory.mktemp("trained")
    for name, text in {"spec.tfdeploy": SPEC, "train.csv": TRAIN, "new.csv": NEW}.items():
        (folder / name).write_text(text)
    api.run(api.load(folder / "spec.tfdeploy", {"train.directory": str(folder / "run")}))
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the trained folder, which is the current one."""
    found = tmp_path / "copy"
    shutil.copytree(trained, found)
    monkeypatch.chdir(found)
    return found


def command(*arguments: str) -> tuple[int, str]:
    """Run a command in this process; return its exit code and what it has said of what went wrong."""
    name, *rest = arguments
    done = CliRunner().invoke(load(name), rest, standalone_mode=False)
    assert done.exception is None, done.exception
    code: int = done.return_value
    return code, done.stderr


def test_predictions_never_replace_what_is_read(folder: Path) -> None:
    """Neither the examples nor the training data, under another name too, and not by force."""
    (folder / "twin.csv").hardlink_to(folder / "train.csv")
    (folder / "link.csv").symlink_to("new.csv")
    for name in ("new.csv", "train.csv", "twin.csv", "link.csv"):
        code, said = command("predict", "spec.tfdeploy", "--input", "new.csv", "--output", name, "--force")
        assert code == 2
        assert said.startswith(f"error[TFD752]: `{name}` is read by this command, and would be overwritten\n")
    assert (folder / "train.csv").read_text() == TRAIN
    assert (folder / "new.csv").read_text() == NEW


@pytest.mark.full
def test_predictions_replace_predictions_alone(folder: Path) -> None:
    """The same command can be repeated; notes of somebody else's stay unless the user insists."""
    spec = api.load("spec.tfdeploy")
    for name in ("out.csv", "out.npz"):
        for _ in range(2):
            assert api.predict(spec, "new.csv", name) == 2
    with np.load("out.npz") as found:
        assert found["price"].shape == (2,)
    np.savez("mine.npz", price=np.zeros(2))
    (folder / "mine.csv").write_text("prices\n1\n")
    for name in ("mine.npz", "mine.csv"):
        before = (folder / name).read_bytes()
        refused = refusal(api.predict, spec, "new.csv", name)
        assert refused.code == "TFD753"
        assert (folder / name).read_bytes() == before
        assert api.predict(spec, "new.csv", name, force=True) == 2
        assert (folder / name).read_bytes() != before


def test_predictions_are_written_into_a_pipe(folder: Path) -> None:
    """It stays one, as somebody reads from it."""
    for name, begins in (("pipe.csv", b"price\n"), ("pipe.npz", b"PK")):
        os.mkfifo(name)
        reader = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
        try:
            assert api.predict(api.load("spec.tfdeploy"), "new.csv", name) == 2
            assert os.read(reader, 1 << 16).startswith(begins)
        finally:
            os.close(reader)
        assert (folder / name).is_fifo()


@pytest.mark.parametrize(
    ("name", "data", "own"),
    [
        ("table.csv", b"price,word_0,word_1_2\n1,2,3\n", True),
        ("table.csv", b"price,other\n1,2\n", False),
        ("table.csv", b"\xff\xfe,price\n1,2\n", False),
        ("archive.npz", b"price\n1\n", False),
    ],
)
def test_predictions_are_known_by_their_header(tmp_path: Path, name: str, data: bytes, own: bool) -> None:
    """What cannot be read as a table or an archive is a file of somebody else, and so is a folder."""
    path = tmp_path / name
    path.write_bytes(data)
    assert is_own_predictions(path, ["price", "word"]) is own
    assert not is_own_predictions(tmp_path, ["price", "word"])


def test_pages_graphs_and_pictures(folder: Path) -> None:
    """`plan` and `plot` know their own files, leave others, and follow a link to where it leads."""
    drawing = ("plot", "run", "--out", "curves.svg")
    mapping = ("plan", "spec.tfdeploy", "--html", "map.html", "--dot", "step.dot")
    (folder / "real.html").write_text("<!-- made by tfdeploy -->")
    (folder / "map.html").symlink_to("real.html")
    for made in (drawing, mapping):
        for _ in range(2):
            assert command(*made)[0] == 0, made
    assert (folder / "map.html").is_symlink()
    for name, made in {"curves.svg": drawing, "real.html": mapping, "step.dot": mapping}.items():
        (folder / name).write_text("mine")
        code, said = command(*made)
        assert (code, said.split(":")[0]) == (2, "error[TFD753]")
        assert (folder / name).read_text() == "mine"
        assert command(*made, "--force")[0] == 0
        assert (folder / name).read_text() != "mine"


def test_a_map_never_replaces_its_spec(folder: Path) -> None:
    """Nor does it replace the map that it is made of; this is said before anything is built."""
    for source in ("spec.tfdeploy", "run/placement.json"):
        before = (folder / source).read_text()
        code, said = command("plan", source, "--html", source, "--force")
        assert (code, said.split(":")[0]) == (2, "error[TFD752]")
        assert (folder / source).read_text() == before


def test_nothing_that_a_spec_reads_is_replaced(folder: Path) -> None:
    """An include, data, weights, a module and an image of a spec stay, even by force."""
    (folder / "mine").mkdir()
    (folder / "mine" / "inner.tfdeploy").write_text("let { rate = 0.1 }\n")
    (folder / "mine" / "outer.tfdeploy").write_text('include = ["inner.tfdeploy"]\n')
    (folder / "flowers" / "rose").mkdir(parents=True)
    (folder / "flowers" / "rose" / "1.png").write_text("no picture")
    (folder / "waves.py").write_text("raise SystemExit\n")
    (folder / "other.tfdeploy").write_text(OTHER)
    (folder / "link.html").symlink_to("mine/inner.tfdeploy")
    kept = ("mine/inner.tfdeploy", "mine/outer.tfdeploy", "run/model.keras", "waves.py", "flowers/rose/1.png")
    for name in (*kept, "link.html"):
        before = (folder / name).read_bytes()
        for option in ("--html", "--dot"):
            code, said = command("plan", "other.tfdeploy", "--allow-python", option, name, "--force")
            assert (code, said.split(":")[0]) == (2, "error[TFD752]"), said
        assert (folder / name).read_bytes() == before
    (folder / "curves.svg").symlink_to("run/history.jsonl")
    assert command("plot", "run", "--out", "curves.svg", "--force")[1].startswith("error[TFD752]")


def test_what_a_run_has_written_is_no_input_of_its_spec(folder: Path) -> None:
    """Pictures below the run directory may be replaced; those of a folder that a text names may not."""
    for name in ("run/plots/loss.png", "flowers/rose/1.PNG", "flowers/rose/notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    own = OTHER.replace('include = ["mine/outer.tfdeploy"]', "let { rate = 0.1 }")
    (folder / "other.tfdeploy").write_text(own)
    files = InputFiles.of(api.load("other.tfdeploy", allow_python=True), "also.txt")
    names = {str(each.resolve().relative_to(folder)) for each in files.paths}
    assert {"other.tfdeploy", "also.txt", "run/model.keras", "flowers/rose/1.PNG"} <= names
    assert not names & {"run/plots/loss.png", "flowers/rose/notes.txt"}


def test_pipes_are_written_into_and_folders_are_refused(tmp_path: Path) -> None:
    """Only a file is replaced as a whole."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_output(pipe, "one\ntwo\n")
        assert os.read(reader, 100) == b"one\ntwo\n"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    for refused in (lambda: write_output(tmp_path, "text"), lambda: require_place(tmp_path)):
        with pytest.raises(RunError, match="cannot be written: is a directory"):
            refused()
    with pytest.raises(RunError, match="cannot be written: no such file or directory"):
        require_place(tmp_path / "none" / "out.txt")
    require_place(tmp_path / "out.txt")


def test_a_new_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    """What ends before leaves nothing; one that is there by then stays."""
    folder = tmp_path / "new"
    for content in (KeyboardInterrupt(), "whole", "second"):
        with suppress(KeyboardInterrupt, RunError), new_folder(folder) as beside:
            (beside / "file").write_text("half")
            if isinstance(content, KeyboardInterrupt):
                raise content
            (beside / "file").write_text(content)
        assert folder.exists() is isinstance(content, str)
    assert [each.name for each in tmp_path.iterdir()] == ["new"]
    assert (folder / "file").read_text() == "whole"


def test_a_map_replaces_nothing_of_its_spec(folder: Path) -> None:
    """The map of a run names its spec, whose data stay too."""
    before = (folder / "train.csv").read_text()
    assert command("compile", "spec.tfdeploy", "--out", "built")[0] == 0
    for name in ("spec.tfdeploy", "train.csv"):
        assert command("plan", "built", "--html", name, "--force")[1].startswith("error[TFD752]")
    assert (folder / "train.csv").read_text() == before


def test_compiled_graphs(folder: Path) -> None:
    """`compile` replaces its own files, in a folder that it has marked, and refuses all others."""
    for _ in range(2):
        assert command("compile", "spec.tfdeploy", "--out", "built")[0] == 0
    before = (folder / "run" / "spec.tfdeploy").read_text()
    for out, code in {".": "TFD752", "run": "TFD753"}.items():
        assert command("compile", "spec.tfdeploy", "--out", out)[1].startswith(f"error[{code}]")
    assert (folder / "spec.tfdeploy").read_text() == SPEC
    assert (folder / "run" / "spec.tfdeploy").read_text() == before
    (folder / "built" / ".tfdeploy-graph").unlink()
    assert command("compile", "spec.tfdeploy", "--out", "built")[1].startswith("error[TFD753]")


@pytest.mark.full
def test_weights_are_not_removed_before_they_are_read(project: Project) -> None:
    """Beginning again from the model of the run that is to go is refused, and the model stays."""
    project.run(train__steps=1)
    model = project.run_directory / "model.keras"
    found = refusal(project.run, train__steps=1, train__weights="run/model.keras", resume="never")
    assert found.code == "TFD752"
    assert model.exists()
