"""The house is in order: what is packaged is what is there."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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
