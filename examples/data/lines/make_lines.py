"""Write train.csv and test.csv: lines of this project's own files, and which kind of file each is from.

    python examples/data/lines/make_lines.py

Kinds: 0 prose (Markdown), 1 Python, 2 tfdeploy specs. A line is its first 48 characters as numbers (ASCII, 0
for padding and for what is no ASCII). Every fifth line is test. The files written are a snapshot of the day;
running the script again makes new ones from what the project is then.
"""

from __future__ import annotations

import csv
import random
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LENGTH, SHORTEST, PER_KIND = 48, 12, 500
SOURCES = (
    ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/**/*.md", "tfdeploy/pages/*.md"),
    ("dsl/**/*.py", "grammar/**/*.py", "compiler/**/*.py", "tfdeploy/**/*.py"),
    ("examples/*.tfdeploy", "tests/**/*.tfdeploy"),
)


def lines_of(patterns: tuple[str, ...]) -> list[str]:
    """Return the distinct lines of the files that are long enough to tell, outside of code blocks."""
    found: dict[str, None] = {}
    for file in sorted(file for pattern in patterns for file in ROOT.glob(pattern)):
        fenced = False
        for line in file.read_text(encoding="utf-8").splitlines():
            fenced ^= file.suffix == ".md" and line.lstrip().startswith("```")
            if len(line.strip()) >= SHORTEST and not fenced:
                found[line] = None
    return list(found)


def row(line: str, kind: int) -> list[int]:
    """Return the numbers of a line and its kind."""
    codes = [ord(each) if each.isascii() else 0 for each in line[:LENGTH]]
    return [*codes, *[0] * (LENGTH - len(codes)), kind]


def main() -> None:
    """Write both files."""
    generator = random.Random(0)  # noqa: S311  # a sample, no secret
    rows = []
    for kind, patterns in enumerate(SOURCES):
        lines = lines_of(patterns)
        rows += [row(each, kind) for each in generator.sample(lines, min(PER_KIND, len(lines)))]
    generator.shuffle(rows)
    header = [*[f"c_{at}" for at in range(LENGTH)], "kind"]
    for name, chosen in (
        ("train.csv", [each for at, each in enumerate(rows) if at % 5]),
        ("test.csv", rows[::5]),
    ):
        with (HERE / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *chosen])


if __name__ == "__main__":
    main()
