"""A check that clones which update weights of their own (`mode = local`) are averaged at some time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def averaging(facts: Facts) -> Iterator[Diagnostic]:
    """Report `mode = local` without `average_every`."""
    update = facts.update
    if update is not None and update.mode == "local" and update.average_every is None:
        yield names.missing_average(update.spans["mode"])
