"""The stages of a chain that are computed again: what is found equals the best of all choices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from compiler.search.segments import Choice, Stage, cheapest, choice_of, least


def every_choice(count: int, at: int = 0) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield all sets of segments of a chain of `count` stages, from one of them on."""
    if at == count:
        yield ()
        return
    for end in range(at + 1, count + 1):
        for rest in every_choice(count, end):
            yield ((at, end), *rest)
            if end == at + 1:
                yield rest


def made_up(seed: int, count: int) -> list[Stage]:
    """Return a chain of unlike stages, whose times add up exactly."""
    draw = np.random.default_rng(seed).integers
    return [
        Stage(
            int(draw(1, 21)),
            int(draw(0, 4)),
            int(draw(0, 61)),
            int(draw(0, 31)),
            int(draw(0, 10)),
            4 + int(draw(1, 65)) / 16,
            int(draw(0, 65)) / 16,
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_best_of_all(seed: int) -> None:
    """For every limit between the least peak and the one of keeping everything; below it there is none."""
    stages = made_up(seed, 1 + seed % 7)
    choices = [choice_of(stages, each) for each in every_choice(len(stages))]
    lowest, whole = min(each.peak for each in choices), choice_of(stages, ()).peak
    assert cheapest(stages, lowest - 1) is None
    for limit in range(lowest, whole + 1):
        found = cheapest(stages, limit)
        assert found is not None
        assert found.peak <= limit
        assert found.seconds == min(each.seconds for each in choices if each.peak <= limit)
        assert found in choices
    assert cheapest(stages, whole) == choice_of(stages, ())


def test_a_peak_is_what_is_there_at_once() -> None:
    """Of two like stages behind a third, with both computed again alone and together."""
    stages = [Stage(1, 2, 40, 8, 100, 1.0)] + [Stage(10, 0, 50, 5, 3, 2.0, 0.5)] * 2
    assert choice_of(stages, ()) == Choice((), 0.0, max(43 + 8 + 6, 103 + 5 + 3, 163 + 5))
    alone = ((1, 2), (2, 3))
    assert choice_of(stages, alone) == Choice(alone, 3.0, max(43 + 8 + 6, 43 + 60 + 5 + 3, 53 + 60 + 5))
    assert choice_of(stages, ((0, 3),)) == Choice(((0, 3),), 4.5, 43 + 120 + 8)


def test_the_least_is_within_a_thousandth() -> None:
    """Of a long chain of like stages, about twice the root of their number is there at once."""
    stages = [Stage(1000, 0, 9000, 0, 0, 1.0)] * 36
    found = least(stages)
    assert found.peak <= 1.001 * min(choice_of(stages, even(36, size)).peak for size in (1, 2, 3, 4, 6))
    assert found.peak < 0.2 * choice_of(stages, ()).peak


def even(count: int, size: int) -> tuple[tuple[int, int], ...]:
    """Return segments of one size."""
    return tuple((at, at + size) for at in range(0, count, size))
