"""Every rule of a block `optimizer` can be the first that matches a weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors import layers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def optimizer_groups(facts: Facts) -> Iterator[Diagnostic]:
    """Report every rule that comes after one with the same glob or with the glob of all weights."""
    taken: set[str] = set()
    for group in facts.update.groups if facts.update is not None else ():
        if taken & {"*", group.pattern}:
            yield layers.group_without_weights(group.name_span or group.span, pattern=group.pattern)
        taken.add(group.pattern)
