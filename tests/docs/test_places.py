"""The files that the glossary and the lists of places to change name are there."""

from __future__ import annotations

import re

import pytest

from tests.folders import ROOT

PARTS = {
    "ARCHITECTURE.md": ("## Glossary", "## The way of a spec, file by file"),
    "CONTRIBUTING.md": ("## What to change for what", "## Commit messages"),
}
PLACE = re.compile(r"`((?:dsl|grammar|compiler|tfdeploy|tests|docs|tools|editors)/[\w./-]*)`")


@pytest.mark.parametrize("page", PARTS)
def test_every_place_is_there(page: str) -> None:
    """Each file and folder in backticks."""
    first, last = PARTS[page]
    text = (ROOT / page).read_text(encoding="utf-8").partition(first)[2].partition(last)[0]
    named = PLACE.findall(text)
    assert len(named) > 20
    assert [each for each in named if not (ROOT / each).exists()] == []
