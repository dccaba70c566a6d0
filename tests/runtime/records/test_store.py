"""Which checkpoints count, and which may go."""

from pathlib import Path

import pytest

from tfdeploy.runtime.records.store import BrokenCheckpoint, Checkpoint, Manifest, Store


def commit(store: Store, step: int) -> Checkpoint:
    """Make a checkpoint of two small files."""
    store.directory.mkdir(exist_ok=True)
    prefix = store.prefix(step)
    files = {f"{prefix.name}.index": 3, f"{prefix.name}.data-00000-of-00001": 5}
    for name, size in files.items():
        (store.directory / name).write_bytes(b"x" * size)
    return store.commit(Manifest(step, step * 64, "abc", 7, "2030-01-01T00:00:00.000Z", files))


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    """What was committed is found again, with its manifest, newest first."""
    store = Store(tmp_path / "checkpoints")
    assert store.whole() == []
    made = [commit(store, step) for step in (9, 100, 20)]
    assert store.whole() == [made[1], made[2], made[0]]
    assert [each.step for each in store.whole()] == [100, 20, 9]
    text = (store.directory / "model.ckpt-9.json").read_text()
    assert text.startswith('{\n "step": 9,\n "examples": 576,\n')  # for people who look at it
    assert text.endswith("\n}\n")


def test_broken_checkpoints_say_why(tmp_path: Path) -> None:
    """A missing manifest, a damaged one, a missing file and a short one each have their reason."""
    store = Store(tmp_path)
    for step in (1, 2, 3, 4):
        commit(store, step)
    (tmp_path / "model.ckpt-1.json").unlink()
    (tmp_path / "model.ckpt-2.json").write_text('{"step": 2')
    (tmp_path / "model.ckpt-3.index").unlink()
    (tmp_path / "model.ckpt-4.data-00000-of-00001").write_bytes(b"xx")
    assert [store.find(step) for step in store.steps()] == [
        BrokenCheckpoint(store.prefix(4), 4, "`model.ckpt-4.data-00000-of-00001` has 2 bytes and not 5"),
        BrokenCheckpoint(store.prefix(3), 3, "`model.ckpt-3.index` is missing"),
        BrokenCheckpoint(store.prefix(2), 2, "its manifest is not JSON (line 1, column 11)"),
        BrokenCheckpoint(store.prefix(1), 1, "it was not written to its end"),
    ]
    assert store.whole() == []


STEP_4 = {"model.ckpt-4.index": 3, "model.ckpt-4.data-00000-of-00001": 5}


@pytest.mark.parametrize(
    ("files", "listed"),
    [
        (STEP_4, True),
        (
            {
                "model.ckpt-4.index": 3,
                "model.ckpt-4.data-00000-of-00002": 5,
                "model.ckpt-4.data-00001-of-00002": 5,
            },
            True,
        ),
        ({"model.ckpt-4.index": 3}, False),
        ({"model.ckpt-4.data-00000-of-00001": 5}, False),
        ({"model.ckpt-4.index": 3, "model.ckpt-4.data-00000-of-00002": 5}, False),
        ({"model.ckpt-4.index": 3, "model.ckpt-4.data-00001-of-00001": 5}, False),
        ({**STEP_4, "model.ckpt-4.other": 1}, False),
        ({"model.ckpt-5.index": 3, "model.ckpt-5.data-00000-of-00001": 5}, False),
    ],
)
def test_a_manifest_lists_the_files_of_a_checkpoint(
    tmp_path: Path, files: dict[str, int], *, listed: bool
) -> None:
    """The index, and as many shards as their names say; nothing else."""
    store = Store(tmp_path)
    for name, size in {**STEP_4, **files}.items():
        (tmp_path / name).write_bytes(b"x" * size)
    store.commit(Manifest(4, 256, "abc", 7, "2030-01-01T00:00:00.000Z", files))
    found = store.find(4)
    if listed:
        assert isinstance(found, Checkpoint)
    else:
        assert found == BrokenCheckpoint(
            store.prefix(4), 4, "its manifest does not list the files of a checkpoint"
        )


def test_only_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    """Pruning leaves the wanted number, and never none; one is spared, whatever its step is."""
    store = Store(tmp_path)
    for step in (10, 20, 30, 40):
        commit(store, step)
    for count, spare, left in ((1, 20, [40, 20]), (2, 40, [40, 20]), (1, None, [40]), (0, None, [40])):
        store.prune(count, spare=spare)
        assert [each.step for each in store.whole()] == left
    assert len(list(tmp_path.iterdir())) == 3


def test_what_is_newer_than_the_restored_one_goes(tmp_path: Path) -> None:
    """After going back to a step, damaged and half-written newer ones are removed."""
    store = Store(tmp_path)
    for step in (10, 20, 100):
        commit(store, step)
    (tmp_path / "model.ckpt-30.index").write_bytes(b"x")
    (tmp_path / "model.ckpt-40.data-00000-of-00001.tempstate17").write_bytes(b"x")
    (tmp_path / "model.ckpt-40.part-00001.index").write_bytes(b"x")
    (tmp_path / ".partial-0123abcd-model.ckpt-40.json").write_bytes(b"x")
    store.remove_after(20)
    assert store.steps() == [20, 10]
    assert len(list(tmp_path.iterdir())) == 6


def test_only_its_own_files_go(tmp_path: Path) -> None:
    """What is called almost as a checkpoint, or is half of somebody else's file, stays."""
    store = Store(tmp_path)
    commit(store, 7)
    store.best.touch()
    store.state.touch()
    others = ["model.ckpt-7.data-of-mine", "model.ckpt-7.json.bak", "model.ckpt-x.json", ".partial-notes.txt"]
    for name in others:
        (tmp_path / name).touch()
    store.clear()
    assert {each.name for each in tmp_path.iterdir()} == set(others)


def test_the_manifest_comes_last_and_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At no moment is there a manifest without its files, so a kill leaves nothing that seems whole."""
    store = Store(tmp_path)
    found = []
    unlink = Path.unlink

    def look(self: Path, **options: bool) -> None:
        unlink(self, **options)
        found.append(store.find(7))

    commit(store, 7)
    monkeypatch.setattr(Path, "unlink", look)
    store.remove(7)
    assert found == [BrokenCheckpoint(store.prefix(7), 7, "it was not written to its end")] * 3
