"""The snippets of VS Code, which are those that the language server offers for blocks."""

from __future__ import annotations

import json

from dsl.schema import BLOCKS
from tfdeploy.lsp.features.completion import SNIPPETS


def snippets() -> str:
    """Return the text of `snippets/tfdeploy.json`."""
    made = {
        name: {
            "prefix": name,
            "body": text.split("\n"),
            "description": BLOCKS[name].doc if name in BLOCKS else f"the attribute `{name}`",
        }
        for name, text in SNIPPETS.items()
    }
    return json.dumps(made, indent=2) + "\n"
