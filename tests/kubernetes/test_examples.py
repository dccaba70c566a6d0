"""The folder `deploy/`: its manifests are what the command writes, and say what its text says."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.folders import ROOT
from tests.kubernetes.published import hold
from tfdeploy.cli.group import load

DEPLOY = ROOT / "deploy"
TEXT = (DEPLOY / "README.md").read_text().replace("\\\n", " ")
COMMANDS = [shlex.split(line)[1:] for line in re.findall(r"^\$ tfdeploy( export .*)$", TEXT, re.MULTILINE)]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[-1])
def test_manifests_of_the_folder_are_what_the_command_writes(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The commands of the text write each file of the folder as it is; `--update-golden` renews them."""
    (tmp_path / "deploy").mkdir()
    shutil.copy(DEPLOY / "digits.tfdeploy", tmp_path / "deploy")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(load("export"), arguments, standalone_mode=False)
    folder = arguments[-1]
    assert (done.exception, done.stderr, done.stdout) == (None, "", f"{folder}\n")
    if request.config.getoption("--update-golden"):
        shutil.rmtree(DEPLOY / folder, ignore_errors=True)
        shutil.copytree(tmp_path / folder, DEPLOY / folder)
    written: dict[str, str] = {path.name: path.read_text() for path in (tmp_path / folder).iterdir()}
    there = {path.name: path.read_text() for path in (DEPLOY / folder).iterdir()}
    assert there == written, "after a change that is meant: pytest tests/kubernetes --update-golden"
    for text in written.values():
        manifest: dict[str, Any] = yaml.safe_load(text)
        hold(manifest)


def test_the_text_has_both_commands() -> None:
    """One for each kind; were none found, nothing would be compared."""
    assert [arguments[-1] for arguments in COMMANDS] == ["jobs", "trainjob", "tfjob"]
