"""The known names that an unknown one was probably meant to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST = 40
_MOST = 2000
_PATHS = 3  # so many paths are suggested
_PART = 3  # letters; a word that has another of so many in it is like it
_ALIKE = 0.7  # of the letters; words that differ in more have nothing in common


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the name of `known` that `name` was probably meant to be, or None where none is near.

    Case and underscores count little; otherwise a third of the letters may differ, where swapping two
    neighbours is one difference.
    """
    if len(name) > _LONGEST:
        return None
    best: tuple[float, str] | None = None
    for candidate in sorted(set(known))[:_MOST]:
        allowed = max(len(name), len(candidate)) // 3
        if len(candidate) > _LONGEST or abs(len(name) - len(candidate)) > allowed + candidate.count(
            "_"
        ) + name.count("_"):
            continue
        distance = _distance(name, candidate)
        if distance <= allowed and (best is None or distance < best[0]):
            best = (distance, candidate)
    return None if best is None or best[1] == name else best[1]


def by_nearness(name: str, known: Iterable[str]) -> list[str]:
    """Return the names of `known` with those first that are written most like `name`, others as they were."""
    candidates = list(dict.fromkeys(known))
    if not name or len(name) > _LONGEST or len(candidates) > _MOST:
        return candidates
    return sorted(candidates, key=lambda each: _unlikeness(name, each))


def nearest_paths(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return up to three beginnings of `names` that are most like `pattern`, the most alike first.

    Args:
        pattern: A name or a glob that matches none of `names`; slashes divide it into parts.
        names: The known names. Of each, as many parts are compared as the pattern has.

    Returns:
        For a glob without its stars, what is found has them put back: for `decodr/*` among
        `decoder/MatMul` it is `decoder/*`. If nothing is alike, the first of the known names.
    """
    from difflib import get_close_matches

    stem = pattern.rstrip("*?").rstrip("/")
    rest = pattern[len(stem) :] if pattern.endswith("*") else ""
    depth = stem.count("/") + 1
    parts = (name.split("/") for name in names)
    known = sorted({"/".join(each[:depth]) for each in parts if len(each) >= depth})
    plain = stem.replace("*", "").replace("?", "")
    found = get_close_matches(plain, known, _PATHS, 0.5) or known[:_PATHS]
    return tuple(each + rest for each in found)


def _unlikeness(name: str, candidate: str) -> float:
    """Return how much of the longer word differs; of what has nothing in common, all does."""
    if len(candidate) > _LONGEST:
        return 1.0
    plain, other = _plain(name), _plain(candidate)
    part = len(min(plain, other, key=len)) >= _PART and (plain in other or other in plain)
    share = _distance(name, candidate) / max(len(name), len(candidate))
    return min(share, 0.5) if part else share if share < _ALIKE else 1.0


def _distance(left: str, right: str) -> float:
    if _plain(left) == _plain(right):
        return 0.5
    return _edits(left.lower(), right.lower())


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _edits(left: str, right: str) -> int:
    """Count the insertions, deletions, replacements and swaps of neighbours between two words."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, above, row = row, before, [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, above[j - 2] + 1)
            row.append(cost)
    return row[-1]
