"""Checkpoints of large variables are written, fetched and restored without a copy of the whole."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.graph.storage.saving import Saving, add_saving
from tests.support import Training, cloned, largest_difference, spec_of
from tfdeploy.runtime.session.checkpoint_files import ClientFiles, ServerFiles

WORDS = """
  word = input(int32, [5])
  label = input(int32, [])
  logits = word -> Embedding(100, 8, name = "table") -> Flatten() -> Dense(3, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
"""
MOST = 20 * 8 * 4  # bytes of 20 rows: each piece has ten slices of 5 rows


@pytest.fixture(scope="module", params=["Adam(0.1, lazy = true)", "Adam(0.1)"])
def saved(request: pytest.FixtureRequest) -> Iterator[tuple[bool, Training, Saving]]:
    """A model whose table changes by rows or as a whole, after two steps, and the ops that save it."""
    generator = np.random.default_rng(3)
    data = {
        "word": generator.integers(0, 20, (8, 5)).astype(np.int32),
        "label": generator.integers(0, 3, 8).astype(np.int32),
    }
    place = 'variables -> cpu[0], variables("table/*") -> sharded(cpu[*])'
    text = cloned(WORDS, place=place, update=f"optimizer = {request.param}", seed=7)
    with Training(spec_of(text), data) as training:
        training.steps(2)
        yield "lazy" in request.param, training, add_saving(training.compiled, most=MOST)


def _ends(ops: list[Any]) -> set[Any]:
    """Return the ops, and all that they need."""
    found, left = set(ops), list(ops)
    while left:
        op = left.pop()
        new = {*(each.op for each in op.inputs), *op.control_inputs} - found
        found |= new
        left += new
    return found


@pytest.mark.family(every=2)
def test_slices_of_a_table_that_changes_by_rows_are_gathered(saved: tuple[bool, Training, Saving]) -> None:
    """A read of the whole copies such a table and its slots; a gather copies what is written."""
    by_rows, _, saving = saved
    for group in saving.groups:
        slices = [each for each in group.slices if each.name.startswith("table/")]
        for op in _ends([each.read.op for each in slices]):
            assert op.type != ("ReadVariableOp" if by_rows else "ResourceGather"), op.name
        assert len(group.slices) == 1 or all(each.region.rows is None for each in group.slices)
    gathered = {each.name for group in saving.groups for each in group.slices if each.region.rows is not None}
    assert gathered == {"table/embeddings", "table/embeddings/Adam", "table/embeddings/Adam_1"}


@pytest.mark.family(every=2)
@pytest.mark.parametrize(("most", "parts"), [(1 << 20, 1), (8000, 2)])
def test_groups_are_written_one_by_one(saved: tuple[bool, Training, Saving], most: int, parts: int) -> None:
    """Each by an op of its own; a single group is all that there is."""
    _, training, _ = saved
    saving = add_saving(training.compiled, most=most)
    assert len(saving.groups) == len({each.write for each in saving.groups}) == parts
    assert (saving.save_op in [each.write for each in saving.groups]) == (parts == 1)


def test_restoring_leaves_no_variable_in_the_mode_for_rows(saved: tuple[bool, Training, Saving]) -> None:
    """Assigning rows puts a variable into that mode, which ends with the last rows if it is not needed."""
    by_rows, _, saving = saved
    for name, refills in saving.refills.items():
        ended = [each.ended.type for each in refills if each.ended is not None]
        whole = all(each.region.rows is None for each in refills)
        assert ended == ([] if whole or by_rows else ["DisableCopyOnRead"] * 2), name
        assert set(_ends([saving.restores[name]])) >= {op for each in refills for op in each.ops}


@pytest.mark.family(every=2)
def test_large_variables_are_restored_one_by_one(
    saved: tuple[bool, Training, Saving], tmp_path: Path
) -> None:
    """A run restores all small variables, or one large one, of which a slice is read after the one before."""
    _, training, saving = saved
    path = str(tmp_path / "model.ckpt")
    ServerFiles().write(training.session.run, saving, path)
    names_of = {restore: name for name, restore in saving.restores.items()}
    large = [name for name, refills in saving.refills.items() if len(refills) > 1]
    together: list[list[str]] = []
    fed: list[int] = []

    def by_server(fetches: Any, feed: dict[Any, str]) -> Any:
        together.append([names_of[each] for each in (fetches if isinstance(fetches, list) else [fetches])])
        return training.session.run(fetches, feed)

    def by_client(fetches: Any, feed: dict[Any, Any]) -> Any:
        fed.extend(value.nbytes for value in feed.values())
        return training.session.run(fetches, feed)

    ServerFiles().read(by_server, saving, path, list(saving.restores))
    assert large == ["table/embeddings", "table/embeddings/Adam", "table/embeddings/Adam_1"]
    assert together == [[name for name in saving.restores if name not in large], *([name] for name in large)]
    for name in large:
        refills = saving.refills[name]
        assert len(refills) == 20
        for before, after in pairwise(refills):
            assert before.assign in _ends([after.value.op]), name
    ClientFiles().read(by_client, saving, path, large[:1])
    assert fed == [MOST // 4] * 20


@pytest.mark.family(every=2)
def test_values_come_slice_by_slice_and_go_back(saved: tuple[bool, Training, Saving], tmp_path: Path) -> None:
    """What is fetched by slices is what is read as a whole; both ways of restoring bring it back."""
    _, training, saving = saved
    run, names = training.session.run, list(saving.reads)
    before = run(dict(saving.reads))
    largest: list[int] = []

    def watched(fetches: Any) -> Any:
        found = run(fetches)
        largest.append(found.nbytes if isinstance(found, np.ndarray) else 0)
        return found

    fetched = saving.values(watched, names)
    assert list(fetched) == names
    assert all((fetched[name] == before[name]).all() for name in names)
    assert max(largest) == MOST // 4
    for number, files in enumerate((ServerFiles(), ClientFiles())):
        path = str(tmp_path / f"model{number}.ckpt")
        files.write(run, saving, path)
        training.steps(1)
        assert largest_difference(saving.values(run, names), before) > 0
        files.read(run, saving, path, names)
        assert largest_difference(saving.values(run, names), before) == 0
