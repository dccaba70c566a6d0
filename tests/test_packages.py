"""The house is in order: what is packaged is what is there."""

from __future__ import annotations

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.folders import ROOT

LAYERS = ("dsl", "grammar", "compiler", "tfdeploy")


def test_every_package_is_listed() -> None:
    """The explicit list of packages names each folder with modules, and no other."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    there = {
        str(file.parent.relative_to(ROOT)).replace("/", ".")
        for layer in LAYERS
        for file in (ROOT / layer).rglob("*.py")
    }
    assert sorted(listed) == sorted(there)


def test_the_lock_has_what_the_project_asks_for() -> None:
    """Every requirement of `pyproject.toml` is pinned in the lock, to a version that it allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in ("dev", "docs") for each in project["optional-dependencies"][extra]),
    ]
    lock = (ROOT / "requirements-dev.lock").read_text()
    pins = {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)==([^ ;\\]+)", lock, re.MULTILINE)
    }
    for requirement in map(Requirement, wanted):
        if requirement.name != "tfdeploy":
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), str(requirement)


def test_the_rooms_that_the_architecture_names_are_there() -> None:
    """Every folder and file of `ARCHITECTURE.md` is in the tree, or in a room that it is named in."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = ("", "compiler/", "compiler/graph/", "tfdeploy/", "tfdeploy/runtime/", "docs/", "tests/")
    named = set(re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", text))
    assert len(named) > 30
    assert [each for each in sorted(named) if not any((ROOT / room / each).exists() for room in rooms)] == []


def test_the_architecture_names_every_room() -> None:
    """Every package stands in the tree of `ARCHITECTURE.md`, those of one subject with their parent."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for layer in LAYERS:
        for package in (ROOT / layer).glob("*/__init__.py"):
            assert f"{package.parent.name}/" in text, package.parent
