"""A run directory, or files in it, that somebody removes, and what goes wrong when one is written."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsl.diagnostics import RunError
from tests.runtime.conftest import Project
from tests.runtime.train.test_processes import LONG, PATIENCE, wait_for_step
from tests.support import refusal
from tfdeploy.runtime.records.files import replacing, write_atomically, write_output
from tfdeploy.runtime.records.lock import guard_directory
from tfdeploy.runtime.show.reporting import Reporter


class Meddler(Reporter):
    """Does something to the files when step 20 is logged."""

    def __init__(self, deed: Callable[[], None]) -> None:
        self.deed = deed

    def logged(self, line: Any) -> None:
        """Do it once."""
        if line.step == 20:
            self.deed()


@pytest.mark.full
def test_a_renamed_directory_ends_the_run(project: Project) -> None:
    """The process ends with 2 and says where the directory is; nothing takes its place, nothing is lost."""
    moved = project.folder / "moved"
    process = project.start(*LONG)
    try:
        wait_for_step(project, process, 60)
        project.run_directory.rename(moved)
        _, said = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 2, said
    assert f"error[TFD747]: the run directory `{project.run_directory}` is not there any more" in said
    assert f"it was renamed, and is `{moved}` now, with all that was written" in said
    assert not project.run_directory.exists()
    moved.rename(project.run_directory)
    assert project.run(train__steps=150).resumed_from >= 50


def test_a_removed_directory_ends_the_run(project: Project) -> None:
    """It is told at the next write, and the directory is not made again without what was in it."""
    found = refusal(project.run, reporter=Meddler(lambda: shutil.rmtree(project.run_directory)))
    assert (found.code, found.span is not None) == ("TFD747", True)
    assert found.notes == ("it was removed, or moved to an unknown place",)
    assert not project.run_directory.exists()


@pytest.mark.full
def test_a_removed_history_ends_the_run(project: Project) -> None:
    """Lines that go nowhere are no history: the run does not end as one that has all its files."""
    history = project.run_directory / "history.jsonl"
    found = refusal(project.run, reporter=Meddler(history.unlink))
    assert (found.code, found.message) == ("TFD747", f"`{history}` was removed or replaced during the run")
    assert not (project.run_directory / "result.json").exists()


@pytest.mark.full
def test_what_can_be_written_again_is(project: Project) -> None:
    """Without its checkpoints and events a run goes on, and writes new ones."""

    def remove() -> None:
        for name in ("checkpoints", "events"):
            shutil.rmtree(project.run_directory / name)

    settings = {"train__checkpoint_every": 10, "train__steps": 40, "train__summaries": "all"}
    assert project.run(reporter=Meddler(remove), **settings).status == "finished"
    names = {path.name for path in (project.run_directory / "checkpoints").glob("*.json")}
    assert names == {f"model.ckpt-{step}.json" for step in (20, 30, 40)}
    assert list((project.run_directory / "events" / "train").iterdir())


def test_a_directory_that_took_its_place(tmp_path: Path) -> None:
    """Another folder under the same name is not the run's; the run's own, back under its name, is."""
    run, away = tmp_path / "run", tmp_path / "away"
    run.mkdir()
    with guard_directory(run) as guard:
        guard.require()
        run.rename(away)
        run.mkdir()
        found = refusal(guard.require)
        assert found.notes == (f"it was renamed, and is `{away}` now, with all that was written",)
        run.rmdir()
        away.rename(run)
        guard.require()
    with pytest.raises(RunError, match="cannot be used"), guard_directory(tmp_path / "none"):
        pass


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    """An error of the operating system becomes a diagnostic with the path, and with advice."""
    path = tmp_path / "result.json"
    with pytest.raises(RunError) as caught, replacing(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    found = caught.value.diagnostic
    assert (found.code, found.message) == ("TFD733", f"`{path}` cannot be written: no space left on device")
    assert (
        found.help == "make room on the disk and run again: a run continues from its last checkpoint, if any"
    )


def test_links_are_followed_on_request(tmp_path: Path) -> None:
    """A link that the user names stays one; a link among the files of a run is replaced by a file."""
    for follow in (True, False):
        (tmp_path / "real").write_text("old")
        link = tmp_path / "link"
        link.unlink(missing_ok=True)
        link.symlink_to("real")
        (write_output if follow else write_atomically)(link, "new")
        assert (link.read_text(), link.is_symlink()) == ("new", follow)
        assert (tmp_path / "real").read_text() == ("new" if follow else "old")


def test_links_in_a_circle_are_said(tmp_path: Path) -> None:
    """They end in a diagnostic as every other fault does."""
    (tmp_path / "page.html").symlink_to("page.html")
    found = refusal(write_output, tmp_path / "page.html", "text")
    assert found.message.endswith("too many levels of symbolic links")
