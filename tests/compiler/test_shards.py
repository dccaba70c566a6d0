"""The pieces of a variable: contiguous, together the whole, and as equal as rows allow."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compiler.shards import cut


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
