"""Fragments of specs in the docs, put into a frame: the tutorial's spec, their blocks in place of its."""

import re
from functools import cache

from tests.docs.pages import DOCS, Block, blocks_of


@cache
def tutorial() -> str:
    """Return the spec that the tutorial begins with, without its mistakes."""
    return next(
        each.text
        for each in blocks_of(DOCS / "tutorial.md")
        if each.title == "digits.tfdeploy" and not each.codes
    )


def is_whole(block: Block) -> bool:
    """Whether a block is a spec and not a fragment of one."""
    return block.title is not None or "tfdeploy = 1" in block.text.splitlines()


def framed(fragment: str) -> str:
    """Return a whole spec with a fragment in it.

    A fragment with a model stands without the tutorial's data, which is for another.
    """
    own = {kind for kind, _ in parts(fragment)}
    left_out = own | ({"data", "place"} if "model" in own else set())
    kept = [text for kind, text in parts(tutorial()) if kind not in left_out]
    return "\n".join(["tfdeploy = 1\n", *kept, fragment])


def parts(text: str) -> list[tuple[str, str]]:
    """Return the blocks at the top of a text by their kinds."""
    found: list[tuple[str, str]] = []
    lines = text.splitlines(keepends=True)
    at = 0
    while at < len(lines):
        opening = re.match(r'^([a-z]+)(?: "[^"]+")? \{', lines[at])
        if opening is None:
            at += 1
            continue
        end = (
            at
            if lines[at].rstrip().endswith("}")
            else next(number for number in range(at + 1, len(lines)) if lines[number].startswith("}"))
        )
        found.append((opening[1], "".join(lines[at : end + 1])))
        at = end + 1
    return found
