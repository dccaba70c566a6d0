"""A lint that every constant of `let` is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors import lint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def unused_constants(facts: Facts) -> Iterator[Diagnostic]:
    """Report constants of `let` that nothing uses."""
    for name, span in facts.constants.items():
        if name not in facts.used:
            yield lint.unused_constant(span, name=name)
