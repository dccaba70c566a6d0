"""What lowering remembers of the bindings of a model, so that a reading lowers only what has changed.

What a binding becomes depends on its text and on what the names in it mean. So it stays as it is until its
text or the meaning of one of its names changes. A binding with an error is always lowered again, because the
message may name whatever is near.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import NOTHING, define, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dsl import ir
    from dsl.source import Span
    from grammar.lower.notes import Notes


@define(eq=False)
class Remembered:
    """What is remembered of a binding, in `syntax.Attribute.memory`.

    Attributes:
        names: All names in its text.
        needed: The names in its expression that other bindings may have.
        scope: The scope in which it was lowered.
        reading: The number of the reading in which it was lowered.
        binding: What it became.
        notes: What was found in it.
        spans: The places in what it became that are not places in the syntax tree.
    """

    names: frozenset[str]
    needed: tuple[str, ...]
    scope: Scope
    reading: int
    binding: ir.Binding
    notes: Notes
    spans: list[Span]


@define(eq=False)
class Scope:
    """What the names in a block meant in the last reading.

    Attributes:
        reading: The number of the reading.
    """

    reading: int = 0
    _meanings: tuple[Mapping[str, Any], ...] = ()
    _changed: dict[str, int] = field(factory=dict)

    def read(self, *meanings: Mapping[str, Any]) -> None:
        """Note what the names mean now.

        Args:
            meanings: Tables of what names mean, in the same order at each reading.
        """
        self.reading += 1
        for number, now in enumerate(meanings):
            before = self._meanings[number] if self._meanings else {}
            for name in _different(before, now):
                self._changed[name] = self.reading
        self._meanings = tuple(dict(each) for each in meanings)

    def is_as_before(self, names: Iterable[str], reading: int) -> bool:
        """Whether all of some names mean the same as in a reading.

        Args:
            names: The names.
            reading: The number of the reading.
        """
        changed = self._changed
        return all(changed.get(name, 0) <= reading for name in names)


@define(eq=False)
class Memory:
    """What is remembered of a spec from one reading to the next."""

    _scopes: dict[str, Scope] = field(factory=dict)

    def scope(self, block: str) -> Scope:
        """Return the scope of a block, which is empty at first."""
        return self._scopes.setdefault(block, Scope())


def _different(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that do not mean the same in two tables."""
    for name, value in now.items():
        old = before.get(name, NOTHING)
        if old is not value and (old is NOTHING or repr(old) != repr(value)):
            yield name
    for name in before:
        if name not in now:
            yield name
