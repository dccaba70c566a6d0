"""Batches that the clones of a spec can share."""

from __future__ import annotations

import pytest

from compiler.checks.devices import batches_fit_clones
from tests.compiler.placement.places import places


@pytest.mark.parametrize(
    ("clones", "accumulate", "message"),
    [
        ("global_batch = 12", 1, None),
        ("global_batch = 12", 2, None),
        ("global_batch = 14", 1, "a global batch of 14 does not divide evenly among 3 clones"),
        (
            "global_batch = 15",
            2,
            "a global batch of 15 does not divide evenly among 3 clones with 2 micro-batches each",
        ),
        ("count = 7, global_batch = 14", 1, None),
        ("batch = [4, 5, 6]", 1, None),
        ("batch = [4, 5]", 1, "`batch` lists 2 numbers for 3 clones"),
        ("batch = [4, 5, 6, 7]", 1, "`batch` lists 4 numbers for 3 clones"),
        ("count = 2, batch = [4, 5]", 1, None),
        ("batch = 7", 2, None),
    ],
)
def test_batches_and_clones(clones: str, accumulate: int, message: str | None) -> None:
    """Without a number of clones there is one on each device; micro-batches divide the batch further."""
    found = places(f"devices {{ gpu = 3 }}\nclones {{ {clones} }}\nupdate {{ accumulate = {accumulate} }}\n")
    faults = list(batches_fit_clones(found.spec, found.topology))
    assert [each.message for each in faults] == ([] if message is None else [message])
    for each in faults:
        assert each.span is not None
        assert each.span.text in clones
