"""The reading of a document, with what is made of it for all requests.

This imports all that reads specs, which takes long; the server does it after its first answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grammar import lark_parser
from grammar.cursor import parts_of_line
from grammar.kept.spec import KeptSpec
from tfdeploy.lsp.reading.diagnostics import by_file, examine
from tfdeploy.lsp.reading.names import names_of

if TYPE_CHECKING:
    from tfdeploy.lsp.reading.diagnostics import Findings
    from tfdeploy.lsp.reading.names import Names


def prepare() -> None:
    """Make what every reading needs."""
    lark_parser.parser()


def names(findings: Findings, kept: KeptSpec) -> Names:
    """Return the names in the trees of what was read, after looking at what is needed next.

    Args:
        findings: What reading a document gave.
        kept: What is kept for its next reading.
    """
    kept.prepare()
    for line in findings.document.text.split("\n") if findings.reading.trees else ():
        parts_of_line(line)  # which completion looks at, and which are kept
    return names_of(findings.reading.trees)


__all__ = ["KeptSpec", "by_file", "examine", "names", "prepare"]
