"""The numbers that each dtype can hold, and what is said of tensors."""

import numpy as np

from tfdeploy.data.arguments import BOUNDS, INTEGERS, ROUGH_SIZE, Field


def test_bounds_are_those_of_numpy() -> None:
    """Of every dtype of whole numbers, and of `bool`."""
    found = {name: (np.iinfo(name).min, np.iinfo(name).max) for name in INTEGERS}
    assert {**found, "bool": (0, 1)} == BOUNDS


def test_a_tensor_is_written_as_in_the_language() -> None:
    """An axis without a fixed size is `none`, and counts as some in estimates."""
    found = [(each.words, each.sizes, each.numbers) for each in (
        Field("a", "int32", ()),
        Field("a", "float32", (2, 3)),
        Field("a", "string", (None, 3)),
    )]  # fmt: skip
    assert found == [
        ("int32[]", (), 1),
        ("float32[2, 3]", (2, 3), 6),
        ("string[none, 3]", (3,), 3 * ROUGH_SIZE),
    ]
