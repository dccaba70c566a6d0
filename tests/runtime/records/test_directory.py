"""A run writes and removes in its own directory alone, and only what runs have written."""

from pathlib import Path

import pytest
from attrs import evolve

from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.ir import SPLITS
from tests.runtime.conftest import Project
from tests.support import refusal
from tfdeploy import api
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.lock import MARKER, new_events_name


def loaded(folder: Path, directory: str, name: str = "small.tfdeploy") -> ir.Spec:
    """Return a spec in `folder` with a run directory, which it names on its last line."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        'tfdeploy = 1\nmodel "m" {\n  x = input(float32, [4])\n  y = x -> Dense(2)\n  output = y\n}\n'
        f'train {{ directory = "{directory}" }}\n'
    )
    return api.load(path)


def refused(spec: ir.Spec) -> Diagnostic:
    """Return why the run directory of a spec cannot be had."""
    found = refusal(RunDirectory.of(spec).make, spec)
    assert found.span.source.name == spec.path
    return found


def contents(folder: Path) -> dict[str, str]:
    """Return the text of every file below a folder."""
    return {str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()}


@pytest.mark.parametrize(
    ("given", "path", "expected"),
    [
        ("/mine/here", "/specs/small.tfdeploy", "/mine/here"),
        (None, "/specs/small.tfdeploy", "runs/small"),
        (None, "/specs/small.of.two.tfdeploy", "runs/small.of.two"),
        (None, "", "runs/spec"),
    ],
)
def test_where_a_run_keeps_its_files(tmp_path: Path, given: str | None, path: str, expected: str) -> None:
    """In the directory of the spec, else in one with the spec's name; each file has a name of its own."""
    spec = loaded(tmp_path, "unused")
    run = RunDirectory.of(evolve(spec, path=path, train=evolve(spec.train, directory=given)))
    assert run.path == Path(expected)
    found = (
        run.spec, run.placement, run.history, run.store.directory, run.events, run.profile, run.cluster,
        run.model, run.layer_states, run.result, run.mark,
    )  # fmt: skip
    assert [str(each.relative_to(expected)) for each in found] == [
        "spec.tfdeploy", "placement.json", "history.jsonl", "checkpoints", "events", "profile",
        "cluster.json", "model.keras", "layer_states.json", "result.json", ".tfdeploy-run",
    ]  # fmt: skip


def test_a_run_that_goes_on_begins_tidy(tmp_path: Path) -> None:
    """Halves of its own files and the result of before go; whole files and halves of others' stay."""
    spec = loaded(tmp_path, str(tmp_path / "run"))
    run = RunDirectory.of(spec)
    run.make(spec)
    kept = (run.spec, run.placement, run.history, run.cluster, run.model, run.layer_states, run.mark)
    for path in (*kept, run.result):
        path.touch()
        path.with_name(f".partial-0123abcd-{path.name}").touch()
    (run.path / ".partial-0123abcd-notes.txt").touch()
    run.tidy()
    assert {each.name for each in run.path.iterdir()} == {
        *(each.name for each in kept),
        ".partial-0123abcd-notes.txt",
    }


def test_a_new_and_an_empty_folder_are_taken(tmp_path: Path) -> None:
    """They are marked, and so are known as a run's when another comes."""
    (tmp_path / "there" / "lost+found").mkdir(parents=True)
    for name in ("there", "new/er"):
        spec = loaded(tmp_path, str(tmp_path / name))
        for _ in range(2):
            RunDirectory.of(spec).make(spec)
            assert (tmp_path / name / MARKER).is_file()
            (tmp_path / name / "history.jsonl").touch()


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    """Nothing is written into it, what is in it is named, and the error stands at the attribute."""
    other = tmp_path / "other"
    (other / "events").mkdir(parents=True)
    for name in ("notes.txt", "model.keras", "history.jsonl", "result.json", "events/mine", ".partial-notes"):
        (other / name).write_text("{}")
    before = contents(other)
    found = refused(loaded(tmp_path, str(other)))
    assert found.code == "TFD751"
    assert found.message == f"`{other}` is no run directory, and it is not empty"
    assert found.notes == (
        "in it are `.partial-notes`, `events`, `history.jsonl`, `model.keras`, `notes.txt` and 1 more",
    )
    assert contents(other) == before


@pytest.mark.parametrize("name", ["small.tfdeploy", "spec.tfdeploy", "below/small.tfdeploy"])
def test_a_run_directory_never_holds_the_spec(tmp_path: Path, name: str) -> None:
    """Neither in a new folder nor in one that is a run's already, and also through a link."""
    folder = tmp_path / "project"
    spec = loaded(folder, str(folder), name)
    found = refused(spec)
    assert found.code == "TFD750"
    assert contents(folder).keys() == {name}
    if name != "spec.tfdeploy":
        (folder / MARKER).touch()
        (tmp_path / "link").symlink_to(folder)
        assert refused(loaded(folder, str(tmp_path / "link"), name)).code == "TFD750"


@pytest.mark.parametrize("link", ["events", "events/train", "checkpoints", "profile"])
def test_links_in_it_are_not_followed(tmp_path: Path, link: str) -> None:
    """A folder in it that leads elsewhere makes it unusable."""
    run = tmp_path / "run"
    (run / link).parent.mkdir(parents=True)
    (run / MARKER).touch()
    (run / link).symlink_to(tmp_path)
    found = refused(loaded(tmp_path, str(run)))
    assert found.code == "TFD732"
    assert found.message.endswith(f"`{link}` in it is a symbolic link")


def test_only_what_runs_have_written_is_cleared(tmp_path: Path) -> None:
    """Folders of events go with their last file, and a file of others stays with its folder."""
    spec = loaded(tmp_path, str(tmp_path / "run"))
    run = RunDirectory.of(spec)
    run.make(spec)
    for split in SPLITS:
        (run.events / split).mkdir(parents=True)
        (run.events / split / new_events_name()).touch()
    for path in (run.result, run.model, run.history, run.placement, run.spec):
        path.touch()
    run.clear(spec)
    assert {each.name for each in run.path.iterdir()} == {MARKER}
    (run.events / SPLITS[0]).mkdir(parents=True)
    (run.events / SPLITS[0] / "mine.txt").touch()
    run.clear(spec)
    assert [each.name for each in run.events.rglob("*") if each.is_file()] == ["mine.txt"]


@pytest.mark.full
def test_beginning_again_keeps_what_no_run_has_written(project: Project) -> None:
    """`never` leaves nothing of the run before, and everything else, whatever it is called."""
    project.run(train__steps=2)
    run = project.run_directory
    first = set(contents_of_names(run))
    others = [
        ".partial-notes.txt",
        "checkpoints/model.ckpt-2.data-of-mine",
        "checkpoints/.partial-notes.txt",
        "events/mine.txt",
        "events/train/events.out.tfevents.mine",
        "events/other/events.out.tfevents.1.2",
        "notes.txt",
    ]
    for name in others:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("mine")
    (run / ".partial-0123abcd-result.json").write_text("half")
    project.run(train__steps=1, resume="never")
    names = set(contents_of_names(run))
    assert {name for name in names if (run / name).read_bytes() == b"mine"} == set(others)
    assert not {name for name in names if "ckpt-2" in name} - set(others)
    assert not {name for name in first & names if "tfevents" in name}
    assert not [name for name in names if "0123abcd" in name]


def contents_of_names(folder: Path) -> list[str]:
    """Return the names of all files below a folder."""
    return [str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()]


@pytest.mark.full
def test_the_spec_that_a_run_has_kept_can_be_run_where_it_is(project: Project) -> None:
    """It goes on in its directory, and is not touched, also when it begins again."""
    project.run(train__steps=2)
    spec = project.run_directory / "spec.tfdeploy"
    text = spec.read_text()
    assert api.run(api.load(spec, {"train.steps": 3})).resumed_from == 2
    assert api.run(api.load(spec), resume="never").steps == 2
    assert spec.read_text() == text
