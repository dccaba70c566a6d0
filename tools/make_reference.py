"""Write the generated pages of `docs/reference/` and the schemas of `tfdeploy/schemas/`.

With `--check`, say whether they are up to date.

The pages are made of the tables that the tool itself uses: the schema of the language, the codes, what
can be combined, Keras's names, and the help of the commands. Run it from the root of the project, as
`python -m tools.make_reference`, after one of these has changed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.made_files import write_or_check
from tools.reference import (
    blocks,
    codes,
    combinations,
    commands,
    functions,
    hardware,
    keras_names,
    placement,
    schemas,
)
from tools.schemas import published

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
PAGES = {
    "blocks.md": blocks.page,
    "place-and-expect.md": placement.page,
    "functions.md": functions.page,
    "combinations.md": combinations.page,
    "commands.md": commands.page,
    "codes.md": codes.page,
    "hardware.md": hardware.page,
    "keras.md": keras_names.page,
    "schemas.md": schemas.page,
}
"""The pages by file, each with the function that returns its text."""


def main(arguments: list[str]) -> int:
    """Write the pages, or name those that differ from what would be written and return 1."""
    made = {FOLDER / name: page() for name, page in PAGES.items()} | published.files()
    return write_or_check(made, arguments, "tools.make_reference")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
