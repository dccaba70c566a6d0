"""Programs that people read and write with: a browser for pages, and editors."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tfdeploy.doctor.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BROWSERS = ("xdg-open", "firefox", "chromium", "chromium-browser", "google-chrome")
EDITORS = {
    "code": "Visual Studio Code",
    "codium": "VSCodium",
    "nvim": "Neovim",
    "vim": "Vim",
    "emacs": "Emacs",
}
FILES = {
    "code": (".vscode/extensions/tfdeploy.tfdeploy-*", ".vscode-server/extensions/tfdeploy.tfdeploy-*"),
    "codium": (".vscode-oss/extensions/tfdeploy.tfdeploy-*",),
    "nvim": (
        ".config/nvim/pack/*/*/tfdeploy",
        ".config/nvim/ftdetect/tfdeploy.vim",
        ".local/share/nvim/*/*/ftdetect/tfdeploy.vim",
    ),
    "vim": (".vim/pack/*/*/tfdeploy", ".vim/*/*/ftdetect/tfdeploy.vim", ".vim/ftdetect/tfdeploy.vim"),
}
"""Where each editor keeps the files for specs, below the folder of the user. Emacs can have them anywhere."""

SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


Find: TypeAlias = "Callable[[str], str | None]"


def browser(find: Find = shutil.which, environment: Mapping[str, str] = os.environ) -> Finding:
    """Return the browser that can show the pages of `plan --html`.

    Args:
        find: Returns the file of a program, or None if it is not installed.
        environment: The variables of the environment by name.
    """
    there = next((each for each in BROWSERS if find(each)), None)
    away = "pages of `plan --html` are single files, and can be opened on another machine"
    if there is None:
        return Finding("browser", "fine", f"none; {away}")
    if not any(environment.get(each) for each in SCREENS):
        return Finding("browser", "fine", f"{there}, but no screen; {away}")
    return Finding("browser", "fine", there)


def editor(home: Path, find: Find = shutil.which, environment: Mapping[str, str] = os.environ) -> Finding:
    """Return the editors that are installed, and which of them have the files for specs.

    Args:
        home: The folder of the user, in which editors keep their extensions.
        find: Returns the file of a program, or None if it is not installed.
        environment: The variables of the environment by name.
    """
    there = [
        f"{title} ({'with' if _set_up(program, home) else 'without'} the files for specs)"
        if program in FILES
        else title
        for program, title in EDITORS.items()
        if find(program)
    ]
    chosen = environment.get("VISUAL") or environment.get("EDITOR")
    named = [f"{chosen} (the one that VISUAL or EDITOR names)"] if chosen else []
    if not there and not named:
        return Finding("editor", "fine", "none of those that are known; specs are plain text")
    found = ", ".join([*named, *there])
    if not find("tfdeploy"):
        advice = (
            "editors and hooks of pre-commit start `tfdeploy` by its name, which is not on the path: add its "
            "folder to PATH, or name the program in the settings of the editor"
        )
        return Finding("editor", "warning", found, advice)
    return Finding("editor", "fine", found)


def _set_up(program: str, home: Path) -> bool:
    """Whether an editor has the files of `editors/` at one of the places where they are usually put."""
    return any(next(home.glob(pattern), None) is not None for pattern in FILES[program])
