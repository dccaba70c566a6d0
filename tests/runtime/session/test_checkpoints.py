"""Checkpoints: TensorFlow's format, only finite values, copies that equal them, and full disks."""

import os
import re
import resource
import shutil
import signal
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from attrs import evolve

from compiler.graph.build import compile_graph
from compiler.pipeline import make_plan
from dsl.diagnostics import Diagnostic, RunError
from tests.runtime.conftest import Project
from tests.support import classifier, refusal
from tfdeploy.runtime.records.store import Checkpoint, Store
from tfdeploy.runtime.session.checkpoint_files import ServerFiles
from tfdeploy.runtime.session.checkpoints import Checkpoints, DamagedCheckpoint
from tfdeploy.runtime.session.engine import Engine


@pytest.fixture
def engine() -> Any:
    """Return an engine on a small graph."""
    started = Engine.start(compile_graph(make_plan(classifier(update__ema="0.9"))))
    yield started
    started.close()


def checkpoints(engine: Any, folder: Path, keep: int = 5) -> Any:
    """Return the checkpoints of an engine in `folder`."""
    return Checkpoints(Store(folder), engine, keep)


def test_any_tensorflow_program_can_read_them(engine: Any, tmp_path: Path) -> None:
    """The names in the files are those of the variables, and the values theirs."""
    checkpoints(engine, tmp_path).save(3, 96)
    reader = tf.train.load_checkpoint(str(tmp_path / "model.ckpt-3"))
    values = engine.values(list(engine.compiled.saved))
    assert set(reader.get_variable_to_shape_map()) == set(values)
    assert all(np.array_equal(reader.get_tensor(name), value) for name, value in values.items())


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_server_writes_group_by_group(count: int) -> None:
    """No more than a group is in its memory at once; a single group needs no file of its own."""
    groups = [SimpleNamespace(write=f"write {at}") for at in range(count)]
    saving: Any = SimpleNamespace(path="path", parts="parts", written="written", merge="merge", groups=groups)
    ran: list[tuple[str, dict[str, Any]]] = []
    ServerFiles().write(lambda op, fed: ran.append((op, fed)), saving, "at")
    parts = [f"at.part-0000{at}" for at in range(count)]
    wanted = [(f"write {at}", {"path": part}) for at, part in enumerate(parts)]
    merged = [*wanted, ("merge", {"path": "at", "parts": parts})]
    assert ran == ([("written", {"path": "at"})] if count == 1 else merged)


def test_weights_that_are_not_finite_are_not_saved(engine: Any, tmp_path: Path) -> None:
    """A step that spoils the weights leaves the checkpoint before it the newest."""
    kept = checkpoints(engine, tmp_path)
    kept.save(3, 96)
    bias = engine.values(["logits/bias"])["logits/bias"]
    engine.assign({"logits/bias": np.full_like(bias, np.inf)})
    found = refusal(kept.save, 4, 128)
    assert (found.code, found.message) == ("TFD730", "after step 4 `logits/bias` is not finite")
    assert found.notes == ("the checkpoint of step 3 is kept",)
    assert kept.store.steps() == [3]


def test_restoring_gives_the_values_back(engine: Any, tmp_path: Path) -> None:
    """Every variable, slots and averages included, is what it was."""
    kept = checkpoints(engine, tmp_path)
    names = list(engine.compiled.saved)
    engine.assign({"global_step": 3})
    before = engine.values(names)
    kept.save(3, 96)
    engine.assign({name: np.zeros_like(value) for name, value in before.items()})
    found = checkpoints(engine, tmp_path).resume(lambda _: pytest.fail("nothing is amiss"))
    assert (found.step, found.manifest.examples) == (3, 96)
    after = engine.values(names)
    assert all(np.array_equal(after[name], value) for name, value in before.items())


NAMES = ("a[1]", "[!a]", "a\\b", "a\\", "a*", "a?", "a{b}", "~", "a b\n", "$HOME", "gs:", "x[", "\u00e9]")


def test_folders_whatever_they_are_called(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow takes a path for a pattern when it reads: that of a folder beside it is never read."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary[1]"))
    monkeypatch.chdir(tmp_path)
    engine.assign({"global_step": 3})
    before = engine.values(["logits/bias"])["logits/bias"]
    checkpoints(engine, Path("a1")).save(3, 96)
    for at, name in enumerate(NAMES):
        folder = Path(name) if at % 2 else tmp_path / name
        engine.assign({"global_step": 3, "logits/bias": before + at})
        checkpoints(engine, folder).save(3, 96)
        engine.assign({"global_step": 4, "logits/bias": before})
        again = checkpoints(engine, folder)
        assert again.resume(pytest.fail).step == 3
        np.testing.assert_array_equal(engine.values(["logits/bias"])["logits/bias"], before + at)
        again.store.remove(3)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted((*NAMES, "a1"))  # and no link is left


def test_a_first_checkpoint_that_was_not_written_to_its_end(engine: Any, tmp_path: Path) -> None:
    """There is none to go on from, and what is left of it goes. If there had been one, that is an error."""
    kept, warnings = checkpoints(engine, tmp_path), list[Diagnostic]()
    kept.save(3, 96)
    (tmp_path / "model.ckpt-3.json").rename(tmp_path / ".partial-01234567-model.ckpt-3.json")
    assert refusal(checkpoints(engine, tmp_path).resume, warnings.append).code == "TFD734"
    kept.store.state.unlink()
    assert checkpoints(engine, tmp_path).resume(warnings.append) is None
    assert [each.code for each in warnings] == ["TFD734", "TFD734"]
    assert not [*tmp_path.iterdir()]


def test_what_the_system_does_not_let_be_read(engine: Any, tmp_path: Path) -> None:
    """Such a checkpoint may be whole: the run ends, and neither passes it over nor advises to remove it."""
    kept = checkpoints(engine, tmp_path)
    for step in (3, 4):
        engine.assign({"global_step": step})
        kept.save(step, 32 * step)
    manifest = tmp_path / "model.ckpt-4.json"
    text = manifest.read_bytes()
    manifest.unlink()
    manifest.mkdir()
    found = refusal(checkpoints(engine, tmp_path).resume, pytest.fail)
    path = tmp_path / "model.ckpt-4"
    assert (found.code, found.message, found.help) == (
        "TFD734",
        f"the checkpoint `{path}` cannot be read: is a directory",
        None,
    )
    manifest.rmdir()
    manifest.write_bytes(text)
    assert checkpoints(engine, tmp_path).resume(pytest.fail).step == 4


@pytest.mark.parametrize("before", [Path("before"), None])
def test_a_folder_of_checkpoints_that_is_moved(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Path | None
) -> None:
    """Resuming works there, and so does `tf.train.latest_checkpoint`, wherever the process was."""
    here = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")) if before is not None else tmp_path
    here.mkdir(exist_ok=True)
    monkeypatch.chdir(here)
    engine.assign({"global_step": 3})
    checkpoints(engine, before or here / "before").save(3, 96)
    after = (here / "before").rename(tmp_path / "after")
    assert tf.train.latest_checkpoint(str(after)) == str(after / "model.ckpt-3")
    assert checkpoints(engine, after).resume(pytest.fail).step == 3


def test_a_checkpoint_is_written_once(engine: Any, tmp_path: Path) -> None:
    """Unless it was removed or damaged since; its manifest says what it is of, and the oldest ones go."""
    kept = checkpoints(engine, tmp_path, keep=2)
    assert (kept.last_step, kept.latest(pytest.fail)) == (None, None)
    kept.save(3, 96)
    first = kept.newest
    assert kept.save(3, 96) > 0
    assert kept.newest is first
    (tmp_path / "model.ckpt-3.index").write_bytes(b"x")
    kept.save(3, 96)
    assert kept.newest is not first
    assert kept.store.find(3) == kept.newest
    manifest = kept.newest.manifest
    plan = engine.compiled.plan
    assert (manifest.step, manifest.examples, manifest.seed) == (3, 96, 7)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", manifest.time)
    assert manifest.spec_sha256 == plan.spec.sha256
    assert manifest.files == {
        path.name: path.stat().st_size for path in kept.store.files(3) if path.suffix != ".json"
    }
    for step in (4, 5, 6):
        kept.best_step = 4
        kept.save(step, 32 * step)
    assert [each.step for each in kept.store.whole()] == [6, 5, 4]
    assert kept.last_step == 6
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-6")
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert [Path(each).name for each in state.all_model_checkpoint_paths] == [
        f"model.ckpt-{step}" for step in (4, 5, 6)
    ]


def test_what_fails_while_a_checkpoint_is_read(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage is told from files that cannot be read, a lost task, a full machine and a run that ends."""
    engine.assign({"global_step": 3})
    kept = checkpoints(engine, tmp_path)
    kept.save(3, 96)

    def fail(kind: Any, *, lost: bool | None) -> Any:
        fault = kind(None, None, "no good")

        def read(*_: Any) -> None:
            raise fault

        monkeypatch.setattr(engine, "files", SimpleNamespace(read=read))
        monkeypatch.setattr(engine, "lost", None if lost is None else lambda: lost)
        with pytest.raises((DamagedCheckpoint, RunError, tf.errors.OpError)) as caught:
            kept.restore(kept.newest, pytest.fail)
        if isinstance(caught.value, RunError):
            return caught.value.diagnostic.message.rpartition("` ")[2]
        return "raised" if caught.value is fault else str(caught.value)

    assert fail(tf.errors.DataLossError, lost=None) == "no good"
    unread = "cannot be read: no good"
    for kind in (tf.errors.NotFoundError, tf.errors.PermissionDeniedError, tf.errors.UnknownError):
        assert fail(kind, lost=False) == unread
    assert fail(tf.errors.NotFoundError, lost=True) == "raised"
    for kind in (tf.errors.ResourceExhaustedError, tf.errors.CancelledError, tf.errors.UnavailableError):
        assert fail(kind, lost=None) == "raised"


def test_tensors_that_are_not_those_of_the_manifest(engine: Any, tmp_path: Path) -> None:
    """Files of another step or run under the newest name are damage: the one before it is gone on from.

    The index of one checkpoint with the manifest of another, all files of another step, renamed, and weights
    of the same step from elsewhere are all of the right sizes.
    """
    kept = checkpoints(engine, tmp_path / "run")
    elsewhere = checkpoints(engine, tmp_path / "elsewhere")
    for step in (3, 4):
        engine.assign({"global_step": step})
        kept.save(step, 32 * step)
    expected = engine.values(["logits/bias"])["logits/bias"]
    engine.assign({"logits/bias": expected + 1})
    elsewhere.save(4, 128)

    def latest(reason: str) -> None:
        warnings: list[Any] = []
        found = checkpoints(engine, tmp_path / "run").latest(warnings.append)
        assert (found.step, [each.code for each in warnings]) == (3, ["TFD734"])
        assert warnings[0].message.endswith(reason)
        np.testing.assert_array_equal(engine.values(["logits/bias"])["logits/bias"], expected)
        assert engine.values(["global_step"])["global_step"] == 3

    endings = ("index", "data-00000-of-00001")
    for ending in endings:
        name = f"model.ckpt-4.{ending}"
        shutil.copy(tmp_path / "elsewhere" / name, tmp_path / "run" / name)
    latest("`model.ckpt-4.index` is not the one that was written with its manifest")
    for ending in endings:
        shutil.copy(tmp_path / "run" / f"model.ckpt-3.{ending}", tmp_path / "run" / f"model.ckpt-4.{ending}")
    latest("`model.ckpt-4.index` is not the one that was written with its manifest")
    own = kept.store.find(3)
    assert isinstance(own, Checkpoint)
    files = {f"model.ckpt-4.{each}": own.manifest.files[f"model.ckpt-3.{each}"] for each in endings}
    kept.store.commit(evolve(own.manifest, step=4, files=files))
    assert isinstance(kept.store.find(4), Checkpoint)  # only the tensors tell
    latest("its tensors are of step 3")


def test_a_full_disk_loses_nothing(engine: Any, tmp_path: Path) -> None:
    """What cannot be written whole is removed, earlier checkpoints stay, and the error says what to do."""
    kept = checkpoints(engine, tmp_path)
    kept.save(3, 96)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        found = refusal(kept.save, 4, 128)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert (found.code, found.message) == (
        "TFD733",
        f"`{tmp_path / 'model.ckpt-4'}` cannot be written: file too large",
    )
    assert (
        found.help == "make room on the disk and run again: a run continues from its last checkpoint, if any"
    )
    assert found.notes == ("the checkpoint of step 3 is kept",)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_checkpoint_is_on_the_disk_before_it_counts(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files and their names first, then the manifest and its name: a power cut leaves all or nothing."""
    synced: list[Path] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
    )
    checkpoints(engine, tmp_path).save(3, 96)
    names = ["." if path == tmp_path else path.name for path in synced]
    (manifest,) = [name for name in names if name.endswith("-model.ckpt-3.json")]
    assert manifest.startswith(".partial-")
    assert names == ["model.ckpt-3.data-00000-of-00001", "model.ckpt-3.index", ".", manifest, "."]


PLACE = "place { clones -> [cpu[0], cpu[1]], variables -> replicated }\n"


@pytest.mark.full
@pytest.mark.parametrize(
    "settings",
    [
        {"place": PLACE, "update__optimizer": "Adam(1e-2)"},
        pytest.param(
            {"update__optimizer": "SGD(0.1)", "update__mode": "local", "update__average_every": "4"},
            marks=pytest.mark.full,
        ),
    ],
    ids=["replicated", "local"],
)
def test_a_resumed_run_has_the_checkpoint_in_every_copy(project: Project, settings: dict[str, str]) -> None:
    """Taken back to its checkpoint of step 4, a run ends at step 8 with the bits that it had before.

    A copy that had kept its initial values would change what its clone computes. In the local mode the copies
    are averaged at step 4, so that the checkpoint holds all there is.
    """
    project.write(project.spec.read_text() + settings.pop("place", ""))
    settings |= {"train__steps": "8", "train__checkpoint_every": "4"}
    project.run(**settings)
    unbroken = project.variables(8)
    before = project.variables(4)
    assert any((unbroken[name] != before[name]).any() for name in before)
    for path in (project.run_directory / "checkpoints").glob("model.ckpt-8.*"):
        path.unlink()
    assert project.run(**settings).resumed_from == 4
    resumed = project.variables(8)
    assert resumed.keys() == unbroken.keys()
    for name, value in resumed.items():
        np.testing.assert_array_equal(value, unbroken[name], err_msg=name)
