"""The pages of the documentation, taken apart into what a reader sees: fenced blocks, links and headings.

A comment before a block says what is particular about it, and is not shown: `<!-- reports: TFD401 -->` that
its errors or warnings are meant, `<!-- apart -->` that it is not a part of the page's session,
`<!-- varies -->` that no two runs of it come to the same losses.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from tests.folders import ROOT

DOCS = ROOT / "docs"
OPENING = re.compile(r'^(?P<fence>`{3,})(?P<kind>[\w-]+)?(?: title="(?P<title>[^"]+)")?\s*$')
COMMENT = re.compile(r"^<!-- (?P<text>.*) -->$")

TESTED_ELSEWHERE = {"how-to/data.md"}
"""Pages whose blocks have tests of their own, by their path under docs/."""


@frozen
class Block:
    """A fenced block: `line` is the number of its first line in the page, counted from 1."""

    page: str
    line: int
    kind: str
    title: str | None
    remark: str
    text: str

    @property
    def where(self) -> str:
        """Say where it stands, for the name of a test."""
        return f"{self.page}:{self.line}"

    @property
    def codes(self) -> list[str]:
        """The codes that checking it is meant to report."""
        return self.remark.removeprefix("reports: ").split() if self.remark.startswith("reports: ") else []


def page_files() -> list[Path]:
    """Return the files of all pages that stand under docs/."""
    return sorted(DOCS.rglob("*.md"))


def name_of(path: Path) -> str:
    """Return the path of a page under docs/."""
    return path.relative_to(DOCS).as_posix()


def blocks_of(path: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    found: list[Block] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    remark, at = "", 0
    while at < len(lines):
        opening = OPENING.match(lines[at])
        if opening is None:
            comment = COMMENT.match(lines[at])
            remark = comment["text"] if comment else remark if not lines[at].strip() else ""
            at += 1
            continue
        end = lines.index(opening["fence"], at + 1)
        text = "".join(f"{line}\n" for line in lines[at + 1 : end])
        found.append(Block(name_of(path), at + 2, opening["kind"] or "", opening["title"], remark, text))
        remark, at = "", end + 1
    return found


def blocks(*kinds: str) -> list[Block]:
    """Return the blocks of some kinds of all pages that have no tests of their own."""
    pages = [path for path in page_files() if name_of(path) not in TESTED_ELSEWHERE]
    return [each for path in pages for each in blocks_of(path) if each.kind in kinds]


def replace(path: Path, texts: Mapping[Block, str]) -> None:
    """Write other texts into blocks of a page."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for block in sorted(texts, key=lambda each: each.line, reverse=True):
        lines[block.line - 1 : block.line - 1 + block.text.count("\n")] = [texts[block]]
    path.write_text("".join(lines), encoding="utf-8")


def prose_of(path: Path) -> str:
    """Return the text of a page without its blocks."""
    return re.sub(r"^(`{3,}).*?^\1\s*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
