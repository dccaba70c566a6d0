"""Backward operators joined with the forward operators that they belong to, where a workload does not say so.

The gradient of an operator needs what the operator has read, so that in a good placement most gradients are
where their operators are. Among pieces of such pairs, the best split is found sooner than among pieces that
have operators and gradients in any mixture.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.search.problem import Integers, Problem, numbered
from compiler.search.workload import Operator, Workload


def join_backward(workload: Workload, problem: Problem) -> Integers | None:
    """Return which groups are joined so that every gradient is with its operator, as far as that can be seen.

    A backward operator is taken to belong to the last forward operator that it reads from. If it reads from
    none, it belongs to those of the backward operators that it reads from, to the first of them.

    Returns:
        The number of the joined group of each group, from 0 on; None if all of them have forward operators,
        or none has.
    """
    group_of, operators = problem.group_of.tolist(), workload.operators
    forward = {group for group, each in zip(group_of, operators, strict=True) if not each.backward}
    if not forward or len(forward) == problem.size:
        return None
    depths = _depths(operators, [not each.backward for each in operators])
    order = _depths(operators, [each.backward for each in operators])
    partners: dict[int, int] = {}  # by backward operator: the forward one that it belongs to
    for at in sorted(depths, key=lambda at: depths[at]):
        for reader in operators[at].readers:
            if operators[reader].backward:
                partners[reader] = at  # the last one that is read from remains
    read = set(partners)
    for at in sorted(order, key=lambda at: order[at]):
        for reader in operators[at].readers if at in partners else ():
            known = partners.get(reader)
            if reader not in read and (known is None or depths[partners[at]] < depths[known]):
                partners[reader] = partners[at]
    labels = list(range(problem.size))
    for at in order:
        if group_of[at] not in forward and at in partners:
            labels[group_of[at]] = group_of[partners[at]]
    return numbered(labels)


def _depths(operators: Sequence[Operator], among: Sequence[bool]) -> dict[int, int]:
    """Return for some operators how many are before each in the longest chain of them; not for cycles."""
    waits = [0] * len(operators)
    for at, each in enumerate(operators):
        for reader in each.readers if among[at] else ():
            waits[reader] += 1
    depths = {at: 0 for at, is_one in enumerate(among) if is_one and waits[at] == 0}
    ready = list(depths)
    for at in ready:  # grows while it is gone through
        for reader in operators[at].readers:
            if among[reader]:
                depths[reader] = max(depths.get(reader, 0), depths[at] + 1)
                waits[reader] -= 1
                if waits[reader] == 0:
                    ready.append(reader)
    return depths
