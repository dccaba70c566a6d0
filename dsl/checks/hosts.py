"""A check that every task of a cluster has a valid address that no other task has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic
    from dsl.source import Span


def hosts(facts: Facts) -> Iterator[Diagnostic]:
    """Report addresses in `hosts` that are not `host:port`, and addresses that two tasks share."""
    jobs = facts.devices.jobs if facts.devices is not None else ()
    if not any(job.hosts for job in jobs):
        return
    from dsl.addresses import split_address
    from dsl.errors import cluster

    taken: dict[tuple[str, int], tuple[str, Span | None]] = {}
    for job in jobs:
        span = job.span_of("hosts")
        for index, address in enumerate(job.hosts):
            try:
                parts = split_address(address)
            except ValueError as error:
                yield cluster.bad_address(span, address=address, reason=str(error))
                continue
            name = f"{job.name}:{index}"
            if parts in taken:
                first, other = taken[parts]
                yield cluster.shared_address(
                    span, address=address, first=first, second=name, other=None if other == span else other
                )
            taken.setdefault(parts, (name, span))
