"""The ops of a placement map as a tree of scopes, counted by device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from attrs import define, field

from compiler.kinds.expanding.expand import clones_of
from compiler.kinds.records.kind_map import AnyMap
from compiler.mapping.records import MapOp, PlacementMap
from compiler.report import refs
from dsl.gathering import gathered

T = TypeVar("T")

FOLD_FROM = 5
"""If there are so many clones, equal ones are shown as one."""


@define
class Scope:
    """A scope of the tree.

    Attributes:
        name: Its name.
        path: The names of the scopes around it, and its own.
        counts: The number of its ops, with those of inner scopes, by key. The key is the device asked for, or
            another one with which the tree was built.
        own: The number of ops directly in it, by key.
        children: The scopes directly in it.
    """

    name: str
    path: str
    counts: Counter[str] = field(factory=Counter)
    own: Counter[str] = field(factory=Counter)
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
        """Yield the scopes inside this one down to `depth`, outer ones first, with their level from 0.

        Args:
            depth: The level before which it ends; 0 yields nothing.
            level: The level of the scopes directly inside this one.
        """
        if level < depth:
            for child in self.children.values():
                yield level, child
                yield from child.walk(depth, level + 1)


def op_name(op: MapOp) -> str:
    """Return the name of the op."""
    return op.name


def build(
    things: Iterable[T],
    name: Callable[[T], str],
    key: Callable[[T], str],
    number: Callable[[T], int] = lambda _: 1,
) -> Scope:
    """Return the root of a tree of named things.

    Args:
        things: The things.
        name: Returns the name by which a thing is put into the tree.
        key: Returns the key by which it is counted.
        number: Returns how often it is counted.
    """
    root = Scope("", "")
    known: dict[str, Scope] = {"": root}
    for each in things:
        holder, _, _ = name(each).rpartition("/")
        scope = known.get(holder) or _scope(holder, known)
        scope.own[key(each)] += number(each)
    _add_up(root)
    return root


def _scope(path: str, known: dict[str, Scope]) -> Scope:
    if path not in known:
        outer, _, name = path.rpartition("/")
        known[path] = Scope(name, path)
        _scope(outer, known).children[name] = known[path]
    return known[path]


def _add_up(scope: Scope) -> None:
    scope.counts.update(scope.own)
    for child in scope.children.values():
        _add_up(child)
        scope.counts.update(child.counts)


# --- clones -----------------------------------------------------------------------------------------------


def inner_name(op: MapOp, scopes: Mapping[int, str]) -> str:
    """Return the name of an op inside its tower.

    Args:
        op: The op.
        scopes: The name scope of each clone by its number, which is empty if there is one clone only.
    """
    scope = scopes.get(op.clone, "") if op.clone is not None else ""
    return op.name.removeprefix(f"{scope}/") if scope else op.name


def clone_scopes(placement: AnyMap) -> dict[int, str]:
    """Return the scope of each clone by its index."""
    return {each.index: each.scope for each in clones_of(placement)}


def fold(placement: PlacementMap, from_count: int = FOLD_FROM) -> Callable[[MapOp], str]:
    """Return a function that names ops of equal clones under one scope: `clone_1..7/conv1/Conv2D`.

    Clones are equal if the names inside them are. Fewer than `from_count` clones are not combined.

    Args:
        placement: The map.
        from_count: The least number of clones that are combined.
    """
    scopes = clone_scopes(placement)
    if len(scopes) < from_count:
        return op_name
    listed = next((each.clones for each in placement.workers if each.listed), tuple(scopes))
    scopes = {index: scopes[index] for index in listed}  # each worker begins its names with `clone_0`
    inside: dict[int, list[str]] = {index: [] for index in scopes}
    for op in placement.ops:
        if op.clone is not None and op.clone in inside and op.name.startswith(f"{scopes[op.clone]}/"):
            inside[op.clone].append(inner_name(op, scopes))
    named = renaming(scopes, {index: frozenset(names) for index, names in inside.items()})
    return lambda op: named(op.name)


def renaming(scopes: Mapping[int, str], inside: Mapping[int, frozenset[str]]) -> Callable[[str], str]:
    """Return a function that puts the names of equal clones under one scope: `clone_1..7/conv1/Conv2D`.

    Args:
        scopes: The scope of each clone by its number.
        inside: The names inside it, likewise.
    """
    alike = gathered((names, index) for index, names in inside.items())
    labels = {
        index: scopes[index] if len(group) == 1 else f"clone_{refs.span(group)}"
        for group in alike.values()
        for index in group
    }
    owners = {scope: index for index, scope in scopes.items()}

    def name(op: str) -> str:
        outer, _, inner = op.partition("/")
        clone = owners.get(outer)  # what feeds a clone has its scope, and is of no clone
        return op if clone is None else f"{labels[clone]}/{inner}"

    return name
