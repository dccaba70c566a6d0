"""`tfdeploy completion`: what a shell reads to complete command lines."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tfdeploy.cli.common import Common, say, write_result
from tfdeploy.cli.options import common_options, flag, force_option

PROGRAMS = ("tfdeploy", "compile-and-run")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@flag("--install", "Write it to where the shell looks, and say where that is.")
@force_option
@common_options
def command(common: Common, shell: str, *, install: bool, force: bool) -> int:
    """Print what lets SHELL complete the command lines of tfdeploy, or install it for this user."""
    del common
    from tfdeploy.cli.completion import script

    scripts = {program: script(shell, program) for program in PROGRAMS}
    if not install:
        write_result("\n".join(scripts.values()))
        return 0
    from compiler.report import GENERATOR
    from tfdeploy.runtime.records.files import is_own_text, require_free, write_output

    texts = {path: f"# {GENERATOR}\n{text}" for path, text in _files(shell, scripts).items()}
    for path in texts:
        require_free(path, is_own_text, force=force)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, text)
        say(f"{path}: written")
    say(_what_to_do(shell, next(iter(texts))))
    return 0


def _files(shell: str, scripts: dict[str, str]) -> dict[Path, str]:
    """Return the text of each file to install, in the folders that belong to the user."""
    if shell == "fish":
        folder = _folder("XDG_CONFIG_HOME", ".config") / "fish" / "completions"
        return {folder / f"{program}.fish": text for program, text in scripts.items()}
    share = _folder("XDG_DATA_HOME", ".local/share")
    if shell == "bash":
        folder = share / "bash-completion" / "completions"
        return {folder / program: text for program, text in scripts.items()}
    return {share / "tfdeploy" / "completion.zsh": "\n".join(scripts.values())}


def _folder(variable: str, otherwise: str) -> Path:
    """Return a folder of the XDG Base Directory Specification; a relative one is to be ignored."""
    given = Path(os.environ.get(variable, ""))
    return given if given.is_absolute() else Path.home() / otherwise


def _what_to_do(shell: str, file: Path) -> str:
    if shell == "fish":
        return "A new fish reads these files."
    if shell == "bash":
        return (
            "A new bash reads these files if the package bash-completion is installed. Without it, put this\n"
            'line into ~/.bashrc: eval "$(tfdeploy completion bash)"'
        )
    return f"Put this line into ~/.zshrc, below `compinit`: source {file}"
