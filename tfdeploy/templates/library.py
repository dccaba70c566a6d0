"""The templates by name, each with what it is in one line and the files that it consists of."""

from __future__ import annotations

import re
from pathlib import Path

from attrs import frozen

from tfdeploy.templates.made_up import table

HERE = Path(__file__).parent
ZOO = HERE / "zoo"
START = "start"
ENDING = ".tfdeploy"

_HEADING = re.compile(r"## (?P<group>.+)")
_ENTRY = re.compile(r"- \[`(?P<name>\w+)`\]\(.*?\): (?P<title>.+)")


@frozen
class Template:
    """A spec to begin with.

    Attributes:
        name: The name by which `init` knows it.
        title: What it is, in one line.
        group: The heading under which it is listed.
        file: The file of its spec in the package.
    """

    name: str
    title: str
    group: str
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
