"""Python and the packages that tfdeploy needs."""

from __future__ import annotations

import platform
import re
import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING

from tfdeploy.doctor.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

OWN = "tfdeploy"
INNER = ("compiler", "dsl", "grammar")
"""The top-level packages of tfdeploy whose names are common words."""

_NEED = re.compile(r"(?P<name>[\w.-]+)(?:\[[^]]*\])?(?P<bounds>[^;]*)")
_BOUND = re.compile(r"(?P<relation>>=|<)(?P<version>[\d.]+)")


def python() -> Finding:
    """Return the version of Python, and whether it is that of an environment."""
    version = f"{platform.python_implementation()} {platform.python_version()}, {sys.platform}"
    place = f"{version}, in {sys.prefix}"
    if not sys.platform.startswith("linux"):
        return Finding("python", "warning", place, "tfdeploy is made for Linux, and tested only there")
    return Finding("python", "fine", place)


def packages() -> Finding:
    """Return whether every package that tfdeploy requires is there, in a version that it can use."""
    needs = [each for each in metadata.requires(OWN) or () if "extra ==" not in each]
    wrong = [word for each in needs if (word := _what_is_wrong(each))]
    own = f"tfdeploy {metadata.version(OWN)}"
    if wrong:
        advice = f"install tfdeploy again, so that these are right: {'; '.join(wrong)}"
        return Finding("packages", "failure", own, advice)
    return Finding("packages", "fine", f"{own}, with the {len(needs)} packages that it requires")


def _what_is_wrong(need: str) -> str:
    """Return what is wrong with the package that a requirement names; an empty text if nothing is.

    Of the bounds, those that tfdeploy states are understood: `>=` and `<`.
    """
    parts = _NEED.match(need)
    assert parts is not None
    name = parts["name"]
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"{name} is missing"
    for relation, bound in _BOUND.findall(parts["bounds"]):
        if (_numbers(version) >= _numbers(bound)) != (relation == ">="):
            return f"{name} is {version}, not {relation}{bound}"
    return ""


def _numbers(version: str) -> list[int]:
    """Return the numbers with which a version begins, without zeros at the end: [2, 21] for `2.21.0rc1`."""
    release = re.match(r"\d+(?:\.\d+)*", version)
    found = [int(each) for each in release[0].split(".")] if release else []
    while found and not found[-1]:
        found.pop()
    return found


def names() -> Finding:
    """Return whether another package has a top-level name of tfdeploy's inner packages."""
    return judge_names(metadata.packages_distributions(), _folders())


def _folders() -> set[Path]:
    """Return the folders from which the packages of tfdeploy are imported: one, if all is well."""
    files = [import_module(each).__file__ for each in (OWN, *INNER)]
    return {Path(each).resolve().parent.parent for each in files if each is not None}


def judge_names(owners: Mapping[str, Sequence[str]], folders: Iterable[Path]) -> Finding:
    """Judge whether names are shared.

    Args:
        owners: The distributions that bring each top-level package, by its name.
        folders: The folders from which tfdeploy and its inner packages are imported.
    """
    shared = {
        name: sorted({*owners.get(name, ())} - {OWN}) for name in INNER if {*owners.get(name, ())} - {OWN}
    }
    if shared:
        found = "; ".join(f"{name} is also of {', '.join(others)}" for name, others in shared.items())
        return Finding("names", "failure", found, "install tfdeploy into an environment of its own")
    places = sorted(map(str, folders))
    if len(places) > 1:
        found = f"the packages of tfdeploy come from {' and '.join(places)}"
        return Finding("names", "failure", found, "remove one of these folders from PYTHONPATH")
    return Finding("names", "fine", f"{', '.join(INNER)} are those of tfdeploy, in {places[0]}")
