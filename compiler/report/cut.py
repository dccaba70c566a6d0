"""Cut a tree of scopes into a limited number of parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from attrs import frozen

from compiler.report.scopes import Scope

LITTLE = 0.05
"""The small parts of a scope that are combined have at most this share of its ops."""


@frozen(eq=False)
class Part:
    """A part of a tree.

    Attributes:
        scope: The scope.
        own: Whether the part is only the ops directly in the scope.
        members: The small scopes that share the part, if it is not a whole scope.
    """

    scope: Scope
    own: bool = False
    members: tuple[Scope, ...] | None = None

    @property
    def counts(self) -> Counter[str]:
        """The number of its ops for each key."""
        return self.scope.own if self.own else self.scope.counts

    @property
    def is_openable(self) -> bool:
        """Whether it is a whole scope with scopes inside."""
        return not self.own and self.members is None and bool(self.scope.children)


def cut(
    root: Scope,
    limit: int,
    worth_opening: Callable[[Scope], bool] = lambda _: True,
    cost: Callable[[Part], int] = lambda part: len(part.counts),
) -> list[Part]:
    """Cut a tree so that all parts together cost at most `limit`, by opening the largest scopes first.

    Scopes of one size are all opened or not, so that equal clones are shown equally.

    Args:
        root: The tree.
        limit: The most that all parts may cost together.
        worth_opening: Whether opening a scope would show anything new.
        cost: Returns the cost of a part.
    """
    parts = [Part(root)]
    waiting = {root.total: [parts[0]]} if worth_opening(root) else {}
    spent = cost(parts[0])
    while waiting:
        alike = waiting.pop(max(waiting))
        inside = [(part, opened(part.scope)) for part in alike]
        room = limit - spent + sum(map(cost, alike))
        if len(alike) == 1 and sum(map(cost, inside[0][1])) > room:
            inside = [(alike[0], _largest(alike[0].scope, room, cost))]
        grown = sum(cost(each) for _, new in inside for each in new)
        if grown > room:
            continue
        spent += grown - sum(map(cost, alike))
        for part, new in inside:
            at = parts.index(part)
            parts[at : at + 1] = new
            for each in new:
                if each.is_openable and worth_opening(each.scope):
                    waiting.setdefault(each.scope.total, []).append(each)
    return parts


def _largest(scope: Scope, room: int, cost: Callable[[Part], int]) -> list[Part]:
    """Open a scope with too many parts: its largest parts, and one part for the others, which are small."""
    inside = opened(scope)
    ranked = sorted(inside, key=lambda part: -part.counts.total())
    for kept in range(1, len(ranked)):
        large, small = ranked[:kept], ranked[kept:]
        if sum(part.counts.total() for part in small) > scope.total * LITTLE or any(
            part.own for part in small
        ):
            continue
        rest = _together(scope, [part.scope for part in small])
        if sum(map(cost, large)) + cost(rest) > room:
            break
        alone = set(map(id, large))
        return [part for part in inside if id(part) in alone] + [rest]
    return inside


def _together(scope: Scope, members: Sequence[Scope]) -> Part:
    counts: Counter[str] = Counter()
    for each in members:
        counts.update(each.counts)
    name = f"({len(members):,} others)"
    path = f"{scope.path}/{name}" if scope.path else name
    return Part(Scope(name, path, counts), members=tuple(members))


def opened(scope: Scope) -> list[Part]:
    """Return the parts of a scope: its own ops, if any, and the scopes in it."""
    return [Part(scope, own=True)] * bool(scope.own) + [Part(each) for each in scope.children.values()]


def finder(parts: Sequence[Part]) -> Callable[[str], Part | None]:
    """Return a function that finds the part of an op by the name of the op in the tree."""
    known: dict[str, Part | None] = {}
    for part in parts:
        known |= {scope.path: part for scope in part.members or (part.scope,)}

    def holding(path: str) -> Part | None:
        if path not in known:
            outer = holding(path.rpartition("/")[0]) if path else None
            known[path] = outer if outer is not None and not outer.own else None
        return known[path]

    return lambda name: holding(name.rpartition("/")[0])
