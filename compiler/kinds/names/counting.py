"""Names with numbers that count clones: found by comparing the names of two deployments with few clones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from compiler.kinds.names.patterns import Counted

_NUMBERED = re.compile(r"(.+)_(\d+)")


def counted_names(
    fewer: Iterable[str], more: Iterable[str], clones: tuple[int, int]
) -> tuple[dict[str, Counted], dict[str, Counted]]:
    """Return the names of each deployment that have a number for each clone.

    Args:
        fewer: The names of ops of one deployment that say of no clone that they are of it.
        more: Those of a deployment with more clones.
        clones: The numbers of the clones of both.
    """
    few, many = list(fewer), list(more)
    known = set(few)
    grown = {key for name in many if name not in known for key, _ in _keys(name)}
    families = [_families(names, grown) for names in (few, many)]
    found: tuple[dict[str, Counted], dict[str, Counted]] = ({}, {})
    for key in sorted(grown):
        pair = [each.get(key, {}) for each in families]
        first = next((each for each in (0, 1) if _counts(pair, clones, each)), None)
        if first is None:
            continue
        for names, family in zip(found, pair, strict=True):
            bare = "".join(key) in family.values()
            for number, name in family.items():
                names.setdefault(name, Counted(*key, number + first, first, bare))
    return found


def _counts(families: list[dict[int, str]], clones: tuple[int, int], first: int) -> bool:
    """Whether both families have a name for each clone, or for each but the first."""
    wanted = [set(range(each - first)) for each in clones]
    return [set(each) for each in families] == wanted


def _families(names: Iterable[str], keys: set[tuple[str, str]]) -> dict[tuple[str, str], dict[int, str]]:
    found: dict[tuple[str, str], dict[int, str]] = {key: {} for key in keys}
    everything = set(names)
    for name in everything:
        for key, number in _keys(name):
            if key in found:
                found[key][number] = name
    for key, family in found.items():
        if "".join(key) in everything:
            family[0] = "".join(key)
    return found


def _keys(name: str) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield (what is before a number, what is after it) and the number, for each part that ends in one."""
    parts = name.split("/")
    for at, part in enumerate(parts):
        match = _NUMBERED.fullmatch(part)
        if match is not None:
            before = "/".join([*parts[:at], match[1]])
            after = "/".join(["", *parts[at + 1 :]])
            yield (before, after), int(match[2])
