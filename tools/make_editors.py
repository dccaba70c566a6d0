"""Write the files of `editors/` that are made of the words of the language, or check them with `--check`.

Run it from the root of the project, as `python -m tools.make_editors`, after the schema has changed;
`make reference` does so too.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.editors import emacs, snippets, textmate, vim

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
    different = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    if "--check" in arguments:
        for path in different:
            print(f"{path}: out of date; run `python -m tools.make_editors`", file=sys.stderr)
        return 1 if different else 0
    for path in different:
        path.write_text(made[path])
        print(f"{path}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
