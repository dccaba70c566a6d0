"""Wording that many messages share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.suggest import by_nearness

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LONGEST = 60
MOST_LISTED = 8
MOST_NAMES = 5


def quoted(text: str) -> str:
    """Return a text in backticks, on one line, shortened if it is long."""
    text = " ".join(text.split())
    return f"`{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}`"


def in_full(path: str) -> str:
    """Return a path in backticks without shortening it, because a part of it would name another file."""
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
    """Return a number with a noun, in the plural unless the number is one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def ticked(names: Iterable[str], last: str) -> str:
    """Return names in backticks, none shortened, with a comma or a word between all of them."""
    return (", " if last == "," else f" {last} ").join(f"`{name}`" for name in names)


def some(names: Sequence[str]) -> str:
    """Return at most five names in backticks as a list in a sentence, and how many are left out."""
    left = len(names) - MOST_NAMES
    shown = ", ".join(f"`{name}`" for name in names[:MOST_NAMES])
    return f"{shown} and {left} more" if left > 0 else listed(names)


def roughly(number: int) -> str:
    """Return a large number in two digits: about 12,000."""
    digits = max(0, len(str(number)) - 2)
    return f"about {number // 10**digits * 10**digits:,}"


def countable(number: int) -> str:
    """Return a number, or that it is very large."""
    return f"{number:,}" if number < 10**12 else "more than a million millions"


def sizes(shape: Iterable[int | None]) -> str:
    """Return a shape as the language writes it, with `?` for an axis of unknown size: [28, ?]."""
    return f"[{', '.join('?' if each is None else str(each) for each in shape)}]"


def first_of(notes: Sequence[str], most: int) -> tuple[str, ...]:
    """Return the first of several notes, and in the last place how many are left out, if any."""
    left = len(notes) - most
    return (*notes[:most], f"and {left} more") if left > 0 else tuple(notes)


def alternatives(names: Iterable[str], to: str = "") -> str:
    """Return a list of at most eight names for a sentence, those most similar to `to` first.

    The list ends with the number of the names that are left out.
    """
    known = by_nearness(to, names)
    shown = [quoted(each) for each in known[:MOST_LISTED]]
    left = len(known) - len(shown)
    return joined([*shown, f"{left} more"] if left else shown)


def options(lead: str, names: Iterable[str], to: str = "") -> tuple[str, ...]:
    """Return a note that lists the alternatives to `to` after `lead`, or nothing if there are none."""
    known = tuple(names)
    return (f"{lead} {alternatives(known, to)}",) if known else ()


def similar(kind: str, near: str | None) -> tuple[str, ...]:
    """Return the note that points to a similar name of a kind, such as `attribute`, if there is one."""
    return () if near is None else (f"there is {article(kind)} with a similar name: {quoted(near)}",)
