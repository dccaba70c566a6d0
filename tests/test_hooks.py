"""What other repositories use: hooks of pre-commit, and the workflow that compares placements."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import GOOD
from tests.folders import ROOT
from tests.specs import CLASSES

SPEC = f"""{CLASSES}
devices {{
  cpu = 2
}}

update {{
  optimizer = SGD(0.1)
}}
"""
WORKFLOW = ROOT / "examples" / "ci" / "placement.yml"


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the programs of this environment, and a git that knows no settings of the user."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    return subprocess.run(
        command, cwd=folder, env=clean | settings | variables, capture_output=True, text=True, check=False
    )


def commit(folder: Path, files: dict[str, str]) -> str:
    """Write and commit files to the repository in `folder`, and return the name of the commit."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "specs")):
        assert run(folder, "git", *command).returncode == 0
    return run(folder, "git", "rev-parse", "HEAD").stdout.strip()


@pytest.mark.full
def test_hooks_format_and_check_specs_of_another_repository(tmp_path: Path) -> None:
    """As pre-commit runs them: each finds what is wrong, and other files are left alone."""
    hooks, specs = tmp_path / "hooks", tmp_path / "specs"
    revision = commit(hooks, {".pre-commit-hooks.yaml": (ROOT / ".pre-commit-hooks.yaml").read_text()})
    known = [each["id"] for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())]
    assert known == ["tfdeploy-fmt", "tfdeploy-check"]
    config = {"repos": [{"repo": str(hooks), "rev": revision, "hooks": [{"id": each} for each in known]}]}
    untidy, wrong = GOOD.replace("  x = input", "      x = input"), GOOD.replace("Dense", "Dens")
    files = {"a/untidy.tfdeploy": untidy, "wrong.tfdeploy": wrong, "notes.txt": "x =1"}
    commit(specs, {".pre-commit-config.yaml": yaml.safe_dump(config), **files})
    home = str(tmp_path / "home")
    first = run(specs, "pre-commit", "run", "--all-files", PRE_COMMIT_HOME=home)
    assert (first.returncode, "untidy.tfdeploy: formatted" in first.stdout) == (1, True), first.stdout
    assert "wrong.tfdeploy:5:12" in first.stdout
    assert (specs / "a" / "untidy.tfdeploy").read_text() == GOOD
    assert (specs / "notes.txt").read_text() == "x =1"
    commit(specs, {"wrong.tfdeploy": GOOD})
    second = run(specs, "pre-commit", "run", "--all-files", PRE_COMMIT_HOME=home)
    assert (second.returncode, second.stdout.count("Passed")) == (0, 2), second.stdout


@pytest.mark.full
def test_the_workflow_writes_what_a_change_does(tmp_path: Path) -> None:
    """Its step of comparison, as the runner of the workflow calls a shell."""
    after = tmp_path / "after"
    base = commit(after, {"s/moved it.tfdeploy": SPEC, "gone.tfdeploy": SPEC, "bad.tfdeploy": SPEC})
    assert run(tmp_path, "git", "clone", "--quiet", "after", "before").returncode == 0
    (after / "gone.tfdeploy").unlink()
    moved = SPEC.replace("update {", "place {\n  variables -> cpu[1]\n}\n\nupdate {")
    commit(
        after,
        {
            "s/moved it.tfdeploy": moved,
            "new.tfdeploy": SPEC,
            "bad.tfdeploy": SPEC.replace("Dense", "Dens"),
            "notes.txt": "",
        },
    )
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["compare"]["steps"]
    (script,) = [each["run"] for each in steps if each.get("id") == "compare"]
    done = run(tmp_path, "bash", "-e", "-o", "pipefail", "-c", script, BASE=base)
    assert done.returncode == 1, done.stderr  # because of the spec with an error
    written = (tmp_path / "comment.md").read_text()
    parts = {part.splitlines()[0]: part for part in written.split("### ")[1:]}
    assert parts.keys() == {f"`{name}.tfdeploy`" for name in ("bad", "gone", "new", "s/moved it")}
    assert "ended with 1" in parts["`bad.tfdeploy`"]
    assert "TFD404" in parts["`bad.tfdeploy`"]
    assert "It is removed." in parts["`gone.tfdeploy`"]
    assert "It is new." in parts["`new.tfdeploy`"]
    assert "variables and slots: " in parts["`s/moved it.tfdeploy`"]
    assert "cpu[0] -> cpu[1]" in parts["`s/moved it.tfdeploy`"]
