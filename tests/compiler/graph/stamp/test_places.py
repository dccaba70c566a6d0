"""The op that a gradient follows, and the table beside which it runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from compiler.graph.stamp.lookups import Lookup
from compiler.graph.stamp.places import Layout


@pytest.fixture
def layout() -> Layout:
    """A look-up of converted rows, whose conversion runs after the gather, and a product."""
    template: Any = SimpleNamespace(
        follows={"of_cast": "cast", "of_gather": "gather", "of_product": "product", "of_lost": "lost"}
    )
    usage: Any = SimpleNamespace(
        lookups={"other": Lookup("v", "other", "ids"), "gather": Lookup("w", "gather", "ids", "cast")},
        gone={"cast", "lost"},
        at_table={"gather": "w", "other": "v"},
    )
    rulebook: Any = None
    return Layout(template, usage, rulebook)


@pytest.mark.parametrize(
    ("inner", "forward", "table"),
    [
        ("product", None, None),
        ("gather", None, "w"),
        ("of_product", "product", None),
        ("of_gather", "gather", "w"),
        ("of_cast", "gather", "w"),  # the conversion itself is gone
        ("of_lost", "lost", None),
        ("other", None, "v"),
    ],
)
def test_a_gradient_follows_what_is_left_of_its_op(
    layout: Layout, inner: str, forward: str | None, table: str | None
) -> None:
    """A conversion of a whole table is gone, and its gather stands for it."""
    assert layout.forward(inner) == forward
    assert layout.table_of(inner) == table
