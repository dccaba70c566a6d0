"""Cutting a tree of scopes into not too many parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from attrs import frozen

from compiler.report.scopes import Scope


@frozen(eq=False)
class Part:
    """A whole scope, or (`own`) the ops directly in it."""

    scope: Scope
    own: bool = False

    @property
    def counts(self) -> Counter[str]:
        """Its ops per key."""
        return self.scope.own if self.own else self.scope.counts


def cut(root: Scope, limit: int, worth_opening: Callable[[Scope], bool] = lambda _: True) -> list[Part]:
    """Cut a tree so that the keys of all parts come to at most `limit`, the largest scopes opened first.

    A part costs as many as it has keys. Scopes of one size are opened together or not at all, so that clones
    that are alike stay alike. `worth_opening` says of a scope whether opening it tells anything.
    """
    parts = [Part(root)]
    waiting: dict[int, list[Part]] = {root.total: [parts[0]]}
    cost = len(root.counts)
    while waiting:
        alike = waiting.pop(max(waiting))
        inside = [(part, opened(part.scope)) for part in alike]
        grown = cost + sum(_cost(new) - len(part.counts) for part, new in inside)
        if grown > limit:
            continue
        cost = grown
        for part, new in inside:
            at = parts.index(part)
            parts[at : at + 1] = new
            for each in new:
                if not each.own and each.scope.children and worth_opening(each.scope):
                    waiting.setdefault(each.scope.total, []).append(each)
    return parts


def _cost(parts: Sequence[Part]) -> int:
    return sum(len(each.counts) for each in parts)


def opened(scope: Scope) -> list[Part]:
    """Return the parts of a scope: its own ops, if any, and the scopes in it."""
    return [Part(scope, own=True)] * bool(scope.own) + [Part(each) for each in scope.children.values()]


def finder(parts: Sequence[Part]) -> Callable[[str], Part | None]:
    """Return a function that finds the part that holds an op, by the op's name in the tree."""
    known: dict[str, Part | None] = {each.scope.path: each for each in parts}

    def holding(path: str) -> Part | None:
        if path not in known:
            outer = holding(path.rpartition("/")[0]) if path else None
            known[path] = outer if outer is not None and not outer.own else None
        return known[path]

    return lambda name: holding(name.rpartition("/")[0])
