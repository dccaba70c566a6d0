"""The random states of towers: one for each clone, step and micro-batch."""

from __future__ import annotations

from compiler.graph.randomness import draw_seed


def test_a_seed_that_nobody_gives_is_another_one_each_time() -> None:
    """A number that fits into 31 bits."""
    drawn = {draw_seed() for _ in range(20)}
    assert len(drawn) > 10
    assert all(0 <= each < 2**31 for each in drawn)
