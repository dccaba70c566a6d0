"""Programs that people read and write with: a browser for pages, and editors."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

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
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


def browser() -> Finding:
    """Return the browser that can show the pages of `plan --html`."""
    return judge_browser(shutil.which, os.environ)


def judge_browser(find: Callable[[str], str | None], environment: Mapping[str, str]) -> Finding:
    """Judge the browsers.

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


def editor() -> Finding:
    """Return the editors that are installed."""
    return judge_editor(shutil.which, os.environ)


def judge_editor(find: Callable[[str], str | None], environment: Mapping[str, str]) -> Finding:
    """Judge the editors; the arguments are those of `judge_browser`."""
    there = [title for program, title in EDITORS.items() if find(program)]
    chosen = environment.get("VISUAL") or environment.get("EDITOR")
    named = [f"{chosen} (the one that VISUAL or EDITOR names)"] if chosen else []
    if not there and not named:
        return Finding("editor", "fine", "none of those that are known; specs are plain text")
    return Finding("editor", "fine", ", ".join([*named, *there]))
