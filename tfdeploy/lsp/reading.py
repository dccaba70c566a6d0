"""The reading of a document, with what is made of it for all requests.

This imports all that reads specs, which takes long; the server does it after its first answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grammar import lark_parser
from grammar.cursor import parts_of_line
from tfdeploy.lsp.diagnostics import by_file, examine
from tfdeploy.lsp.names import names_of

if TYPE_CHECKING:
    from tfdeploy.lsp.diagnostics import Findings
    from tfdeploy.lsp.documents import Document
    from tfdeploy.lsp.names import Names
    from tfdeploy.lsp.settings import Settings


def prepare() -> None:
    """Make what every reading needs."""
    lark_parser.parser()


def read(document: Document, texts: dict[str, str], settings: Settings) -> tuple[Findings, Names]:
    """Return what reading a document gives, and the names in its trees.

    Args:
        document: The document.
        texts: The open texts by their absolute paths.
        settings: How it is read.
    """
    found = examine(document, texts, settings)
    for line in document.text.split("\n"):
        parts_of_line(line)  # which completion looks at, and which are kept
    return found, names_of(found.reading.trees)


__all__ = ["by_file", "examine", "prepare", "read"]
