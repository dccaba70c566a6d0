"""The ops of a placement map as a tree of scopes, in which equal clones are one, and its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from attrs import define, field, frozen

from compiler.figures import gathered, ranges
from compiler.kinds.kind_map import AnyMap
from compiler.mapping.records import Counted
from compiler.report.devices import device_label

T = TypeVar("T")

FOLD_FROM = 5
"""If there are so many clones, equal ones are shown as one."""


def _nothing() -> Counter[str]:
    """Return an empty counter, which a large map needs very many of, faster than `Counter()` does."""
    return Counter.__new__(Counter)


@define
class Scope:
    """A scope of the tree.

    Attributes:
        path: The names of the scopes around it, and its own.
        counts: The number of its ops, with those of inner scopes, by key. The key is the device asked for, or
            another one with which the tree was built.
        own: The number of ops directly in it, by key.
        children: The scopes directly in it.
    """

    name: str
    path: str
    counts: Counter[str] = field(factory=_nothing)
    own: Counter[str] = field(factory=_nothing)
    children: dict[str, Scope] = field(factory=dict)

    @property
    def total(self) -> int:
        """The number of ops, of all keys."""
        return self.counts.total()

    @property
    def depth(self) -> int:
        """The number of levels of scopes inside this one."""
        return 1 + max(each.depth for each in self.children.values()) if self.children else 0

    def walk(self, depth: int, level: int = 0) -> Iterator[tuple[int, Scope]]:
        """Yield the scopes inside this one down to `depth`, outer ones first, with their level from 0."""
        if level < depth:
            for child in self.children.values():
                yield level, child
                yield from child.walk(depth, level + 1)


def build(
    things: Iterable[T],
    name: Callable[[T], str],
    key: Callable[[T], str],
    number: Callable[[T], int] = lambda _: 1,
) -> Scope:
    """Return the root of a tree of named things."""
    root = Scope("", "")
    known: dict[str, Scope] = {"": root}
    for each in things:
        holder = name(each).rpartition("/")[0]
        own, sort = (known.get(holder) or _scope(holder, known)).own, key(each)
        own[sort] = own.get(sort, 0) + number(each)
    _add_up(root)
    return root


def _scope(path: str, known: dict[str, Scope]) -> Scope:
    if path not in known:
        outer, _, name = path.rpartition("/")
        known[path] = Scope(name, path)
        _scope(outer, known).children[name] = known[path]
    return known[path]


def _add_up(scope: Scope) -> None:
    if not scope.children:
        scope.counts = scope.own
        return
    counts = scope.counts
    counts.update(scope.own)
    for child in scope.children.values():
        _add_up(child)
        for sort, number in child.counts.items():
            counts[sort] = counts.get(sort, 0) + number


@define
class CountedScopes:
    """A tree of ops, of which those that are alike are counted together, by the sets of their devices.

    Attributes:
        depth: The levels of scopes that the ops have.
    """

    root: Scope = field(init=False)
    depth: int = 0
    _sets: dict[str, tuple[str, ...]] = field(factory=dict)
    _keys: dict[str | int, tuple[str, tuple[str, ...]]] = field(factory=dict)
    _of: dict[str, tuple[str, ...]] = field(init=False)

    @classmethod
    def of(
        cls, ops: Iterable[Counted], name: Callable[[Counted], str], levels: int | None = None
    ) -> CountedScopes:
        """Return the tree of ops; of scopes below some levels, if these are given, it has the ops alone."""
        found = cls()

        def shown(op: Counted) -> str:
            whole = name(op)
            scopes = whole.split("/", levels) if levels is not None else ()
            if levels is None or len(scopes) <= levels:
                found.depth = max(found.depth, whole.count("/"))
                return whole
            found.depth = max(found.depth, levels + scopes[levels].count("/"))
            return whole[: -len(scopes[levels])]

        found.root = build(ops, shown, found._key, lambda each: each.count)
        keys = gathered((ref, key) for key, devices in found._sets.items() for ref in devices)
        found._of = {ref: tuple(each) for ref, each in keys.items()}
        return found

    def _key(self, op: Counted) -> str:
        devices = op.devices
        own = devices[0] if len(devices) == 1 else id(devices)  # to compare hundreds of names takes long
        found = self._keys.get(own)
        if found is None:
            found = self._keys[own] = (device_label(devices), devices)
            self._sets[found[0]] = devices
        return found[0]

    def sort_of(self, ref: str) -> tuple[str, ...]:
        """Return what devices have in common that have equally many ops in every scope."""
        return self._of.get(ref, ())

    def number(self, scope: Scope, ref: str) -> int:
        """Return how many ops of a scope are on a device."""
        return sum(scope.counts[key] // len(self._sets[key]) for key in self.sort_of(ref))


# --- clones -----------------------------------------------------------------------------------------------


def clones_label(clones: Iterable[int]) -> str:
    """Return one name for the scopes of several clones: `clone_1..7`."""
    return f"clone_{ranges(clones)}"


def labels_of_clones(placement: AnyMap, from_count: int = FOLD_FROM) -> dict[int, str]:
    """Return one name for the scopes of equal clones, by their towers; none if there are few clones.

    Clones are equal if the names inside them are.
    """
    if len(placement.clones) < from_count:
        return {}
    inside, labels = placement.names_in_towers(), dict[int, str]()
    for group in gathered((frozenset(names), tower) for tower, names in inside.items()).values():
        clones = [clone for tower in group for clone in placement.clones_of_tower(tower)]
        labels |= dict.fromkeys(group, clones_label(clones))
    return labels


def folded(placement: AnyMap, from_count: int = FOLD_FROM) -> Callable[[Counted], str]:
    """Return a function that names ops for a tree: those of equal clones have one scope.

    What differs in numbers elsewhere has ranges for them: `clone_0..511/conv1/Conv2D`, `input/1..63/next`.
    """
    labels = labels_of_clones(placement, from_count)

    def name(op: Counted) -> str:
        if op.tower not in labels:
            return placement.ranged(op, op.op.name)
        return f"{labels[op.tower]}/{placement.ranged(op, op.inner)}"

    return name


# --- parts of a tree --------------------------------------------------------------------------------------

LITTLE = 0.05
"""The small parts of a scope that are combined have at most this share of its ops."""


@frozen(eq=False)
class Part:
    """A part of a tree.

    Attributes:
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
