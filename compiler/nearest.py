"""The names that were probably meant by one that matches nothing; names have parts between slashes."""

from __future__ import annotations

from collections.abc import Iterable

WANTED = 3


def nearest_names(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return up to three beginnings of `names` with as many parts as `pattern`, the most alike first.

    A glob's stars are left out of the comparison and put back behind what is found: for `decodr/*` among
    `decoder/MatMul` it is `decoder/*`. Where nothing is alike, the first names there are.
    """
    from difflib import get_close_matches

    stem = pattern.rstrip("*?").rstrip("/")
    rest = pattern[len(stem) :] if pattern.endswith("*") else ""
    depth = stem.count("/") + 1
    parts = (name.split("/") for name in names)
    known = sorted({"/".join(each[:depth]) for each in parts if len(each) >= depth})
    plain = stem.replace("*", "").replace("?", "")
    found = get_close_matches(plain, known, WANTED, 0.5) or known[:WANTED]
    return tuple(each + rest for each in found)
