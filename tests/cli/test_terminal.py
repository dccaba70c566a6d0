"""What strangers have written cannot steer the terminal on which it is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsl.formats.lines.cells import printable
from tests.cli.conftest import GOOD
from tests.placement_maps import make_map
from tfdeploy.cli.group import load

TRAP = "\x1b]0;owned\x07\x1b[2J\u202e"


def test_pictures_stand_for_what_steers() -> None:
    """Newlines and tabs stay, and so do colours where they are wanted; all else can be seen."""
    assert printable("a\n\tb é") == "a\n\tb é"
    assert printable("\x1b[1;31mred\x1b[0m\r\x1b[2Jgone\x9b", color=True) == "\x1b[1;31mred\x1b[0m␍␛[2Jgone�"
    assert printable("\x1b[31mred\x1b[0m") == "␛[31mred␛[0m"


@pytest.mark.parametrize("color", ["never", "always"])
def test_maps_of_strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, color: str) -> None:
    """Names of ops, devices, rules and files of a map, in every view of it."""
    monkeypatch.chdir(tmp_path)
    escaped = json.dumps(TRAP)[1:-1]
    text = make_map().to_json()
    text = text.replace("conv1", f"conv1{escaped}").replace("train.tfdeploy", f"train{escaped}.tfdeploy")
    text = text.replace("clones -> gpu", f"clones{escaped} -> gpu")
    Path("stranger.json").write_text(text)
    Path("own.json").write_text(make_map(1).to_json())
    for arguments in (
        ["plan", "stranger.json"],
        ["plan", "stranger.json", "--ops"],
        ["diff", "own.json", "stranger.json"],
    ):
        name, *rest = arguments
        done = CliRunner().invoke(load(name), [*rest, "--color", color], standalone_mode=False)
        assert done.exception is None, done.exception
        assert "owned" in done.stdout, arguments
        _require_tame(done.output)


def test_names_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may be called anything: in what is said of sound ones, of broken ones, and of wrong usage."""
    monkeypatch.chdir(tmp_path)
    good, bad = f"good{TRAP}.tfdeploy", f"bad{TRAP}.tfdeploy"
    Path(good).write_text(GOOD)
    Path(bad).write_text(GOOD.replace("Dense", "Dence"))
    Path(f"{TRAP}.json").write_text("{}")
    for arguments in (
        ["check", good, bad],
        ["fmt", "--check", bad],
        ["plan", f"{TRAP}.json"],
        ["plan", f"no{TRAP}"],
    ):
        name, *rest = arguments
        runner = CliRunner()
        done = runner.invoke(load(name), rest, standalone_mode=False)
        said = done.output + (str(done.exception) if done.exception is not None else "")
        assert done.exception is None, said
        _require_tame(said)


def _require_tame(text: str) -> None:
    """Fail for anything that steers a terminal and is no colour of the tool's."""
    assert printable(text, color=True) == text
