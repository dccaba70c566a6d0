"""Suggestions: the known names that are most similar to an unknown one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

_LONGEST = 40
_MOST = 500  # names are compared; of more, those that come before and after in the alphabet
_PATHS = 3  # so many paths are suggested
_PART = 3  # letters; a word that has another of so many in it is like it
_ALIKE = 0.7  # of the letters; words that differ in more have nothing in common


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` is probably a misspelling of, or None if none is similar enough.

    The distance is the optimal string alignment distance (Boytsov, 2011): insertions, deletions, replacements
    and swaps of neighbouring letters count one each. Up to a third of the letters may differ. Names that
    differ only in case, underscores and hyphens have a distance of one half.

    Args:
        name: The unknown name. A name of more than 40 characters has no suggestion.
    """
    if len(name) > _LONGEST:
        return None
    best: tuple[float, str] | None = None
    ordered = sorted(set(known))
    at = bisect_left(ordered, name) if len(ordered) > _MOST else 0
    first = max(at - _MOST // 2, 0)
    for candidate in ordered[first : first + _MOST]:
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
    """Return the known names sorted by similarity to `name`; equally similar names keep their order."""
    candidates = list(dict.fromkeys(known))
    if not name or len(name) > _LONGEST or len(candidates) > _MOST:
        return candidates
    return sorted(candidates, key=lambda each: _unlikeness(name, each))


def nearest_paths(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return up to three prefixes of known paths that are most similar to a pattern, the most similar first.

    Args:
        pattern: A name or a glob that matches none of `names`; slashes divide it into parts.
        names: The known paths. As many parts of each are compared as the pattern has.

    Returns:
        The prefixes, followed by the stars that the pattern ends with: for `decodr/*` and the known path
        `decoder/MatMul` the result is `decoder/*`. If nothing is similar, the first known prefixes.
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
    """Return how different two names are: 0 if they are equal, 1 if they have nothing in common."""
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
