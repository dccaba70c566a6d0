"""Write the files of `editors/` that are made of the words of the language, or check them with `--check`.

Run it from the root of the project, as `python -m tools.make_editors`, after the schema has changed;
`make reference` does so too.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.editors import emacs, snippets, textmate, vim
from tools.made_files import write_or_check

FOLDER = Path(__file__).resolve().parent.parent / "editors"
FILES = {
    "vscode/syntaxes/tfdeploy.tmLanguage.json": textmate.grammar,
    "vscode/snippets/tfdeploy.json": snippets.snippets,
    "vim/syntax/tfdeploy.vim": vim.syntax,
    "emacs/tfdeploy-mode.el": emacs.mode,
}
"""The files, each with the function that returns its text."""


def main(arguments: list[str]) -> int:
    """Write the files, or name those that differ from what would be written and return 1."""
    made = {FOLDER / name: text() for name, text in FILES.items()}
    return write_or_check(made, arguments, "tools.make_editors")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
