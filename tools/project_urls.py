"""`python -m tools.project_urls SOURCE`: write the addresses of the project into `pyproject.toml`.

Packages have them in their metadata, and package indexes show them as links. The addresses are those of the
repository that makes the release, which only its workflow knows; that is why they are not in `pyproject.toml`
all the time. SOURCE is the address of the repository; `--documentation` that of the published documentation,
which for a repository on GitHub is that of its pages if it is left out.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_ADDRESS = re.compile(r"https://[\w.-]+(?::\d+)?(?:/[\w.~-]+)*/?")
_ON_GITHUB = re.compile(r"https://github\.com/(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)")
_BEFORE = "[project.scripts]\n"
"""The table before which the addresses are written."""


def urls(source: str, documentation: str | None) -> dict[str, str]:
    """Return the addresses of a project by what they are addresses of.

    Args:
        source: The address of the repository.
        documentation: The address of the documentation, or None for that of the repository's pages.

    Raises:
        ValueError: If one is not an address, or that of the documentation is not known.
    """
    source = source.removesuffix("/").removesuffix(".git")
    if documentation is None:
        found = _ON_GITHUB.fullmatch(source)
        if found is None:
            raise ValueError(f"the pages of {source} are not known; say where they are with --documentation")
        documentation = f"https://{found['owner'].lower()}.github.io/{found['name']}/"
    for each in (source, documentation):
        if _ADDRESS.fullmatch(each) is None:
            raise ValueError(f"{each!r} is not an address that begins with https://")
    return {
        "Documentation": documentation,
        "Source": source,
        "Issues": f"{source}/issues",
        "Changelog": f"{source}/blob/HEAD/CHANGELOG.md",
    }


def with_urls(text: str, addresses: dict[str, str]) -> str:
    """Return the text of a `pyproject.toml` with the addresses, which it does not have yet.

    Raises:
        ValueError: If the project has addresses, or has no commands before which they could stand.
    """
    if "urls" in tomllib.loads(text)["project"]:
        raise ValueError("the project has addresses already")
    if text.count(_BEFORE) != 1:
        raise ValueError(f"there is no line {_BEFORE.strip()}, before which the addresses are written")
    table = "\n".join(["[project.urls]", *(f'{name} = "{each}"' for name, each in addresses.items())])
    return text.replace(_BEFORE, f"{table}\n\n{_BEFORE}")


def main(arguments: list[str]) -> int:
    """Write the addresses; a wrong one, or a project that has some, ends with a message and code 2."""
    parser = argparse.ArgumentParser(prog="python -m tools.project_urls", description=__doc__)
    parser.add_argument("source", help="the address of the repository")
    parser.add_argument("--documentation", help="the address of the published documentation")
    parser.add_argument("--project", type=Path, default=ROOT / "pyproject.toml", help="the file to write to")
    given = parser.parse_args(arguments)
    try:
        addresses = urls(given.source, given.documentation)
        text = with_urls(given.project.read_text(encoding="utf-8"), addresses)
    except ValueError as fault:
        parser.error(str(fault))
    given.project.write_text(text, encoding="utf-8")
    for name, each in addresses.items():
        print(f"{name}: {each}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
