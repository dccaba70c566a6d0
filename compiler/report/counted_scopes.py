"""The ops of a placement map of any version as a tree of scopes, and their numbers on each device."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field

from compiler.kinds.expanding.counted import Counted
from compiler.kinds.names.templates import SUFFIX, Template
from compiler.kinds.records.kind_map import AnyMap, KindMap
from compiler.kinds.records.sets import Kinds
from compiler.report import refs, scopes
from compiler.report.scopes import Scope
from dsl.gathering import gathered


@define
class CountedScopes:
    """A tree of scopes, in which equal clones are one.

    The scopes of a map by kinds are counted by sets of devices that have equally many ops.

    Attributes:
        root: The tree.
    """

    root: Scope = field(init=False)
    _sets: dict[str, tuple[str, ...]] = field(factory=dict)
    _keys: dict[str | int, tuple[str, tuple[str, ...]]] = field(factory=dict)
    _of: dict[str, tuple[str, ...]] = field(init=False)

    @classmethod
    def of(cls, ops: Iterable[Counted], name: Callable[[Counted], str]) -> CountedScopes:
        """Return the tree of ops.

        Args:
            ops: The ops.
            name: Returns the name by which an op is put into the tree.
        """
        found = cls()
        found.root = scopes.build(ops, name, found._key, lambda each: each.count)
        keys = gathered((ref, key) for key, devices in found._sets.items() for ref in devices)
        found._of = {ref: tuple(each) for ref, each in keys.items()}
        return found

    def _key(self, op: Counted) -> str:
        devices = op.devices
        own = devices[0] if len(devices) == 1 else id(devices)  # to compare hundreds of names takes long
        found = self._keys.get(own)
        if found is None:
            found = self._keys[own] = (refs.label(devices), devices)
            self._sets[found[0]] = devices
        return found[0]

    def sort_of(self, ref: str) -> tuple[str, ...]:
        """Return what devices have in common that have equally many ops in every scope."""
        return self._of.get(ref, ())

    def number(self, scope: Scope, ref: str) -> int:
        """Return how many ops of a scope are on a device.

        Args:
            scope: A scope of the tree.
            ref: The device, such as `worker[0].gpu[1]`.
        """
        return sum(scope.counts[key] // len(self._sets[key]) for key in self.sort_of(ref))


def names_of(placement: AnyMap, *, every_clone: bool = False) -> Callable[[Counted], str]:
    """Return a function that names ops for a tree: those of equal clones have one scope.

    Args:
        placement: The map.
        every_clone: Whether every clone has a scope of its own. A map by kinds has to be expanded for that.
    """
    if isinstance(placement, KindMap):
        return KindNames(placement).of
    named = scopes.op_name if every_clone else scopes.fold(placement)
    return lambda each: named(each.op)


def inner_names(placement: KindMap) -> dict[int, list[str]]:
    """Return the names of ops inside the clones of each kind, by the number of the kind."""
    scopes = {each.of: f"{each.like.scope}/" for each in placement.clone_kinds}
    found: dict[int, list[str]] = {of: [] for of in scopes}
    for of, op in ((each.of, each.like) for each in placement.op_kinds):
        if of in scopes and op.clone is not None and op.name.startswith(scopes[of]):
            found[of].append(op.name.removeprefix(scopes[of]))
    return found


@define
class KindNames:
    """The names of kinds of ops: `clone_0..511/conv1/Conv2D`, `input/1..63/next`.

    Attributes:
        placement: The map.
        kinds: Its kinds.
        labels: The scope of the clones that are like those of a kind, by the number of the kind.
        scopes: The scope of each clone of a kind, as a template with a slash, likewise.
    """

    placement: KindMap
    kinds: Kinds = field(init=False)
    labels: dict[int, str] = field(init=False)
    scopes: dict[int, str] = field(init=False)
    _known: dict[tuple[str, int | None], str] = field(factory=dict)
    _spans: dict[tuple[int, int], str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        placement = self.placement
        self.kinds = Kinds(placement)
        self.scopes = {each.of: f"{each.like.scope}/" for each in placement.clone_kinds}
        alike = gathered((frozenset(names), of) for of, names in inner_names(placement).items())
        self.labels = {of: self.label(group) for group in alike.values() for of in group}

    def label(self, group: list[int]) -> str:
        """Return the name of the scope of clones of several kinds."""
        grid = self.kinds.numbers.grid
        clones = [grid.number(*each) for of in group for each in self.kinds.members(of)]
        return f"clone_{refs.span(clones)}"

    def of(self, op: Counted) -> str:
        """Return the name for an op, or a kind of ops."""
        key = (op.op.name, op.of)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = op.op.name if op.of is None else self._named(op.op.name, op.of)
        return found

    def inner(self, op: Counted) -> str:
        """Return the name for a kind of ops inside the scope of their clones."""
        assert op.of is not None
        return self._ranged(op.op.name.removeprefix(self.scopes[op.of]), op.of)

    def _named(self, name: str, of: int) -> str:
        scope = self.scopes.get(of)
        if scope is not None and name.startswith(scope):
            return f"{self.labels[of]}/{self._ranged(name.removeprefix(scope), of)}"
        return self._ranged(name, of)

    def _ranged(self, text: str, of: int) -> str:
        """Return one name for all of a kind, with ranges for the numbers that differ."""
        parts = self.kinds.template(text).parts
        return "".join([each if isinstance(each, str) else self._span(each, of) for each in parts])

    def _span(self, what: int, of: int) -> str:
        key = (what, of)
        if key not in self._spans:
            template = Template((what,))
            texts = {template.at(self.kinds.numbers, *each) for each in self.kinds.members(of)}
            start = "_" if what == SUFFIX else ""
            self._spans[key] = start + refs.span(int(each.removeprefix("_")) for each in texts if each)
        return self._spans[key]
