"""Results that are kept for the latest argument."""

from __future__ import annotations

from compiler.model.graph import kept_for_latest


def test_a_result_is_made_once_for_an_object() -> None:
    """The same object gets the same result; an equal one, and the first one after another, a new one."""
    given: list[list[int]] = []

    @kept_for_latest
    def counted(argument: list[int]) -> int:
        """Return how often this was called."""
        given.append(argument)
        return len(given)

    one, equal = [1], [1]
    assert [counted(one), counted(one), counted(equal), counted(one)] == [1, 1, 2, 3]
    assert counted.__doc__ == "Return how often this was called."
