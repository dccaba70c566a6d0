"""The pieces of a variable: contiguous, together the whole, and as equal as rows allow."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compiler.shards import blocks, cut, parts_for


@given(
    shape=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    count=st.integers(1, 20),
    axis=st.integers(0, 2),
)
def test_pieces_are_the_whole_in_order_and_differ_by_at_most_one_row(
    shape: list[int], count: int, axis: int
) -> None:
    """Joined along their axis, the pieces are the array; there are as many as devices and rows allow."""
    pieces = cut("w", shape, 0, count, axis=axis)
    rows = shape[axis] if axis < len(shape) else 1
    if min(count, rows) == 1:
        assert pieces == ()
        return
    assert len(pieces) == min(count, rows)
    sizes = [each.size for each in pieces]
    assert max(sizes) - min(sizes) <= 1
    whole = np.arange(np.prod(shape)).reshape(shape)
    parts = [whole[each.index] for each in pieces]
    assert [part.shape for part in parts] == [each.shape for each in pieces]
    assert (np.concatenate(parts, axis) == whole).all()
    assert [each.name for each in pieces] == [f"w/shard_{at}" for at in range(len(pieces))]


def test_a_least_size_gives_fewer_pieces() -> None:
    """A table of 100 rows of 32 bytes: pieces of 800 bytes and more are at most four."""
    counts = {least: len(cut("w", (100, 8), 3200, 8, least=least)) for least in (0, 401, 800, 1601, 4000)}
    assert counts == {0: 8, 401: 7, 800: 4, 1601: 0, 4000: 0}


def test_what_has_no_elements_or_no_axes_stays_whole() -> None:
    """A single number and an empty variable are not cut."""
    assert cut("w", (), 4, 3) == cut("w", (0, 4), 0, 3) == ()


@given(shape=st.lists(st.integers(1, 7), max_size=4), data=st.data())
def test_blocks_of_a_range_are_its_elements_in_their_order(shape: list[int], data: st.DataObject) -> None:
    """However a range of elements lies in an array, few blocks along its axes make it up."""
    count = int(np.prod(shape))
    start = data.draw(st.integers(0, count - 1))
    stop = data.draw(st.integers(start + 1, count))
    whole = np.arange(count).reshape(shape)
    found = list(blocks(shape, start, stop))
    indices = [
        tuple(slice(first, first + length) for first, length in zip(begin, size, strict=True))
        for begin, size in found
    ]
    assert np.concatenate([whole[index].ravel() for index in indices]).tolist() == list(range(start, stop))
    assert len(found) <= max(1, 2 * len(shape) - 1)


@given(
    shapes=st.lists(st.lists(st.integers(1, 30), max_size=3), min_size=1, max_size=8),
    owners=st.integers(2, 9),
    by_rows=st.booleans(),
)
def test_owners_have_equal_parts_of_all_variables(
    shapes: list[list[int]], owners: int, *, by_rows: bool
) -> None:
    """The parts of each variable are all of it in order, and over all variables owners differ by one element.

    With whole rows, they differ by at most a row of the largest variable.
    """
    load = [0] * owners
    for shape in shapes:
        whole = np.arange(np.prod(shape)).reshape(shape)
        rows = by_rows and bool(shape)
        parts = parts_for("w", shape, load, by_rows=rows)
        assert [each.number for _, each in parts] == list(range(parts[0][1].count))
        assert [owner for owner, _ in parts] == sorted({owner for owner, _ in parts})
        taken = [whole.reshape(each.cut_shape)[each.index] for _, each in parts]
        assert [each.shape for each in taken] == [each.shape for _, each in parts]
        assert np.concatenate([each.ravel() for each in taken]).tolist() == list(range(whole.size))
        for (owner, _), part in zip(parts, taken, strict=True):
            load[owner] += part.size
    unit = max(int(np.prod(shape[1:])) for shape in shapes) if by_rows else 1
    assert max(load) - min(load) <= unit
