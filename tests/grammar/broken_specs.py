"""Broken specs made from whole ones: characters and tokens deleted, inserted, swapped, replaced."""

import random
import re
from collections.abc import Iterator

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\w+|->|\.\.|[<>=]=|\s+|.')
EXTRA = [
    '"',
    "'",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    "=",
    "->",
    "+",
    "-",
    "*",
    "/",
    "..",
    ".",
    "<=",
    "\n",
    "#",
]
EXTRA += ["0", "1e", "1.", "16GiB", "name", "@", "$", "é", "\u201c", "true", "none", ":", ";", "%", " "]


def mutants(specs: list[str], count: int, seed: int) -> Iterator[str]:
    """Return `count` texts, each one change away from one of `specs`."""
    chance = random.Random(seed)  # noqa: S311 no secret depends on it
    for _ in range(count):
        text = chance.choice(specs)
        yield chance.choice((_characters, _tokens))(text, chance)


def _characters(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text))
    kind = chance.choice(("delete", "insert", "swap", "replace"))
    if kind == "delete":
        return text[:at] + text[at + 1 :]
    if kind == "insert":
        return text[:at] + chance.choice(EXTRA) + text[at:]
    if kind == "swap":
        return text[:at] + text[at + 1 : at + 2] + text[at] + text[at + 2 :]
    return text[:at] + chance.choice(EXTRA) + text[at + 1 :]


def _tokens(text: str, chance: random.Random) -> str:
    parts = TOKEN.findall(text)
    at = chance.randrange(len(parts))
    kind = chance.choice(("delete", "insert", "swap", "double", "replace", "cut"))
    if kind == "delete":
        del parts[at]
    elif kind == "insert":
        parts.insert(at, f" {chance.choice(EXTRA)} ")
    elif kind == "swap":
        other = chance.randrange(max(at - 6, 0), min(at + 7, len(parts)))
        parts[at], parts[other] = parts[other], parts[at]
    elif kind == "double":
        parts.insert(at, parts[at])
    elif kind == "cut":
        del parts[at : at + chance.randrange(1, 5)]
    else:
        parts[at] = chance.choice(parts)
    return "".join(parts)
