"""A real Neovim, without a screen, with the files of `editors/vim`: one session, and what it has seen."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.folders import ROOT
from tests.lsp.texts import SMALL

pytestmark = pytest.mark.skipif(shutil.which("nvim") is None, reason="needs Neovim")

WRONG = "# 😀\n" + SMALL.replace("mode = sync", "mode   = snyc")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the session in `session.lua` has seen."""
    folder = tmp_path_factory.mktemp("neovim")
    (folder / "wrong.tfdeploy").write_text(WRONG)
    start = folder / "init.lua"
    command = json.dumps([sys.executable, "-m", "tfdeploy", "lsp"])
    start.write_text(
        f"vim.opt.runtimepath:prepend({json.dumps(str(ROOT / 'editors/vim'))})\n"
        f"vim.g.tfdeploy_command = vim.fn.json_decode({json.dumps(command)})\n"
        "vim.cmd('filetype plugin indent on')\nvim.cmd('syntax on')\n"
    )
    result = folder / "result.json"
    environment = {
        **os.environ,
        "SPEC": str(folder / "wrong.tfdeploy"),
        "RESULT": str(result),
        **{f"XDG_{name}_HOME": str(folder / name) for name in ("CONFIG", "DATA", "STATE")},
    }
    script = Path(__file__).with_name("session.lua")
    subprocess.run(
        ["nvim", "--headless", "-n", "-u", str(start), "-c", f"luafile {script}"],  # noqa: S607 the nvim that is there
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=True,
        timeout=400,
    )
    found: dict[str, Any] = json.loads(result.read_text())
    assert "fault" not in found, found["fault"]
    return found


def test_the_file_is_known(session: dict[str, Any]) -> None:
    """A file that ends in `.tfdeploy` gets its type and its colours."""
    assert (session["filetype"], session["syntax"]) == ("tfdeploy", "tfdeploy")


def test_the_error_is_seen(session: dict[str, Any]) -> None:
    """The wrong word is reported where it is."""
    line = WRONG[: WRONG.index("snyc")].count("\n")
    assert [each[:3] for each in session["errors"]] == [["TFD401", line, 11]]


def test_the_fix_is_applied(session: dict[str, Any]) -> None:
    """Its fix is offered, and after it the text has no errors."""
    assert session["actions"] == ["Write `sync`"]
    assert session["fixed"] == WRONG.replace("snyc", "sync").rstrip("\n")
    assert session["errors_after_fix"] == []


def test_a_name_is_changed(session: dict[str, Any]) -> None:
    """A tensor has another name in its definition and where it is used."""
    assert session["renamed"] == session["fixed"].replace("hidden", "inner")


def test_the_text_is_formatted(session: dict[str, Any]) -> None:
    """The text is in the style of `fmt`."""
    assert session["formatted"] == session["renamed"].replace("mode   =", "mode =")


def test_hover_says_what_a_layer_is(session: dict[str, Any]) -> None:
    """The signature of the layer under the cursor is shown."""
    assert "Dense(units, activation = none" in session["hover"]


def test_colors(session: dict[str, Any]) -> None:
    """The syntax file tells blocks, attributes, functions, words and comments from each other."""
    assert session["colors"] == {
        "#": "tfdeployComment",
        "model": "tfdeployBlock",
        "mode =": "tfdeployAttribute",
        "sync": "tfdeployWord",
        "Dense": "tfdeployFunction",
        "input": "tfdeployBuiltin",
        "synthetic": "tfdeployBuiltin",
    }
