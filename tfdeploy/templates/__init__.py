"""Specs to begin with, which `tfdeploy init` writes: one that explains the language, and those of the zoo."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from attrs import frozen

HERE = Path(__file__).parent
ZOO = HERE / "zoo"
START = "start"
ENDING = ".tfdeploy"

_HEADING = re.compile(r"## (?P<group>.+)")
_ENTRY = re.compile(r"- \[`(?P<name>\w+)`\]\(.*?\): (?P<title>.+)")


@frozen
class Template:
    """A spec to begin with."""

    name: str  # the name by which `init` knows it
    title: str
    group: str  # the heading under which it is listed
    file: Path

    def files(self, spec: Path) -> dict[Path, str]:
        """Return the texts to write, by file.

        Args:
            spec: The file for the spec. Data files are put beside it, where its text looks for them.

        Returns:
            The texts of the data files, if the template reads any, and of the spec, which is the last one.
        """
        own = self.file.with_suffix(".csv")
        data = {spec.with_name(own.name): own.read_text(encoding="utf-8")} if own.is_file() else {}
        if self.name == START:
            data = {
                spec.parent / "data" / "train.csv": table(rows=600, seed=0),
                spec.parent / "data" / "test.csv": table(rows=150, seed=1),
            }
        return {**data, spec: self.file.read_text(encoding="utf-8")}


def templates() -> dict[str, Template]:
    """Return all templates by name: the commented one, then those of the zoo in the order of its list."""
    start = Template(
        START,
        "a classifier for CSV files, with a comment on every block",
        "To learn",
        HERE / f"{START}{ENDING}",
    )
    found, group = {START: start}, ""
    for line in (ZOO / "README.md").read_text(encoding="utf-8").splitlines():
        if heading := _HEADING.fullmatch(line):
            group = heading["group"]
        elif entry := _ENTRY.fullmatch(line):
            name = entry["name"]
            found[name] = Template(name, entry["title"], group, ZOO / f"{name}{ENDING}")
    return found


FEATURES = 4
KINDS = 3
SPREAD = 0.7
"""The standard deviation of a feature around the centre of its kind; centres are within 2 of zero."""


def table(rows: int, seed: int) -> str:
    """Return a CSV table whose rows belong to one of three kinds, each a cloud of points around a centre.

    The centres are the same for every seed, so that what is learnt from one table holds for another. A kind
    cannot always be told from the features, because the clouds overlap.

    Args:
        rows: The number of rows. Each kind has about a third of them.

    Returns:
        The text of the table, with the columns `feature_0` to `feature_3` and `kind` (0, 1 or 2).
    """
    places = Random("centres")  # noqa: S311  # numbers of a table, not secrets
    centres = [[places.uniform(-2, 2) for _ in range(FEATURES)] for _ in range(KINDS)]
    draws = Random(seed)  # noqa: S311  # as above
    lines = [",".join([*(f"feature_{each}" for each in range(FEATURES)), "kind"])]
    for _ in range(rows):
        kind = draws.randrange(KINDS)
        features = (draws.gauss(centre, SPREAD) for centre in centres[kind])
        lines.append(",".join([*(f"{each:.3f}" for each in features), str(kind)]))
    return "".join(f"{line}\n" for line in lines)
