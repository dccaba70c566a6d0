"""Small pieces of wording that the messages share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 60
FEW = 12


def quoted(text: str) -> str:
    """Return `text` in backticks, cut short where it is long, and on one line."""
    text = " ".join(text.split())
    return f"`{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}`"


def in_full(path: str) -> str:
    """Return a path in backticks, however long: a part of it would name another file."""
    return f"`{' '.join(path.split(chr(10)))}`"


def listed(names: Iterable[str], last: str = "and") -> str:
    """Return names in backticks as a list in a sentence: `a`, `b` and `c`."""
    return joined([quoted(name) for name in names], last)


def joined(words: Iterable[str], last: str = "and") -> str:
    """Return words as a list in a sentence: a, b and c."""
    *start, end = words
    return f"{', '.join(start)} {last} {end}" if start else end


def article(word: str) -> str:
    """Return `word` with `a` or `an` before it."""
    plain = word.strip("`").lower()
    return f"{'an' if plain[:1] in set('aeiou') and plain[:3] not in {'uni', 'use'} else 'a'} {word}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where there are more."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def options(lead: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the note that lists names after `lead`, none where there are none or too many to read."""
    known = tuple(names)
    return (f"{lead} {listed(known)}",) if 0 < len(known) <= FEW else ()
