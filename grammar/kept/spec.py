"""What is kept of a spec: the texts of its files, and what its bindings became."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from dsl.source import Source
from grammar.kept.text import KeptText
from grammar.lower.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsl import syntax
    from grammar.reports import Reports


@define(eq=False)
class KeptSpec:
    """What is kept of a spec between two readings.

    The places in what the last reading gave move when a text changes, so nobody may use it meanwhile.
    """

    _texts: dict[str, KeptText] = field(factory=dict)
    _memory: Memory = field(factory=Memory)

    def move(self, texts: Mapping[str, str]) -> None:
        """Take new texts, and move the places in what stays of the last reading.

        Args:
            texts: Texts by their absolute paths; those of other specs may be among them.
        """
        for path, kept in self._texts.items():
            if path in texts:
                kept.move(kept.source_of(kept.name, texts[path]))

    def prepare(self) -> None:
        """Do what the next reading needs and can be done before it."""
        for kept in self._texts.values():
            kept.prepare()

    def source(self, path: str, name: str, text: str) -> Source:
        """Return the source of a text, which is that of the last reading if it has not changed.

        Args:
            path: The absolute path of the file.
            name: The name of the source.
            text: The text.
        """
        kept = self._texts.get(path)
        return Source(name, text) if kept is None else kept.source_of(name, text)

    def parse(self, path: str, source: Source, reports: Reports) -> syntax.File | None:
        """Return the syntax tree of a file.

        Args:
            path: Its absolute path.
            source: Its text.
            reports: Collects the diagnostics.
        """
        return self._texts.setdefault(path, KeptText()).parse(source, reports)

    @property
    def memory(self) -> Memory | None:
        """What is remembered of the bindings, or None if their trees are not kept."""
        return self._memory if all(each.is_kept for each in self._texts.values()) else None
