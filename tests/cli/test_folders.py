"""Folders in place of specs: `check` and `fmt` take every spec below them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import GOOD

if TYPE_CHECKING:
    from tests.cli.conftest import Command

WRONG = GOOD.replace("Dense", "Dens")
LOOSE = GOOD.replace("[4])", "[4] )")


@pytest.fixture
def tree(command: Command) -> Command:
    """A directory with specs at several depths, and files that are no specs of the user's."""
    for name, text in {
        "b/z.tfdeploy": WRONG,
        "b/a.tfdeploy": GOOD,
        "a/deep/er/loose.tfdeploy": LOOSE,
        "a/notes.txt": "no spec",
        ".hidden/wrong.tfdeploy": "?",
        ".venv/wrong.tfdeploy": "?",
        "b/build/wrong.tfdeploy": "?",
        "b/.half-written.tfdeploy": "?",
        "empty/notes.txt": "no spec",
    }.items():
        command.write(name, text)
    (command.directory / "b" / "round").symlink_to(command.directory)
    (command.directory / "folder.tfdeploy").mkdir()
    return command


def test_a_folder_stands_for_the_specs_below_it(tree: Command) -> None:
    """Those of all depths in the order of their names; hidden folders, builds and links are left out."""
    done = tree("check", ".")
    assert (done.code, done.out.splitlines()) == (
        1,
        [f"{each}: no errors" for each in ("a/deep/er/loose.tfdeploy", "b/a.tfdeploy", "good.tfdeploy")],
    )
    assert "--> b/z.tfdeploy:5:12" in done.err
    assert "wrong.tfdeploy" not in done.err
    done = tree("check", "b", "good.tfdeploy", "b/a.tfdeploy", "--format", "json")
    assert [each["path"] for each in json.loads(done.out)["diagnostics"]] == ["b/z.tfdeploy"]
    assert tree("check", "a", "good.tfdeploy", "a").out == (
        "a/deep/er/loose.tfdeploy: no errors\ngood.tfdeploy: no errors\n"
    )


def test_a_folder_is_formatted(tree: Command) -> None:
    """`fmt` takes the same files, and changes no others."""
    done = tree("fmt", "--check", ".")
    assert (done.code, done.out) == (1, "a/deep/er/loose.tfdeploy: would be formatted\n")
    done = tree("fmt", ".")
    assert (done.code, done.out) == (0, "a/deep/er/loose.tfdeploy: formatted\n")
    assert tree.read("a/deep/er/loose.tfdeploy") == GOOD
    assert tree.read("b/build/wrong.tfdeploy") == "?"


@pytest.mark.parametrize(
    "arguments", [("check", "empty"), ("fmt", "empty"), ("check", "good.tfdeploy", "empty")]
)
def test_a_folder_without_specs_is_an_error(tree: Command, arguments: tuple[str, ...]) -> None:
    """Nothing found is not the same as nothing wrong: the exit code is 2."""
    done = tree(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error[TFD190]: no file below `empty` ends in `.tfdeploy`\n")
    found = json.loads(tree("check", "empty", "--format", "json").out)["diagnostics"]
    assert [(each["code"], each["path"]) for each in found] == [("TFD190", "empty")]
