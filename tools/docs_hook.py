"""What MkDocs does beyond its own: pages of codes, links out of docs/, and colours for specs.

The pages of codes are those that `tfdeploy explain` prints, and stand once, in `tfdeploy/pages/`. A page of
the docs links to one by its path in the repository, which works there too; in the site they are under
`reference/codes/`.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files
from pygments.lexer import RegexLexer, bygroups
from pygments.lexers import LEXERS
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

__all__ = ["TfdeployLexer"]

ROOT = Path(__file__).resolve().parent.parent
PAGES = "tfdeploy/pages"
SITE = "reference/codes"
LINK = re.compile(r"\]\((?P<up>(?:\.\./)+)tfdeploy/pages/(?P<name>TFD\d+)\.md\)")
TITLED = re.compile(r"^```(?P<kind>\w+) (?P<title>[\w./-]+)$", re.MULTILINE)


class TfdeployLexer(RegexLexer):
    """Colours specs."""

    name = "tfdeploy"
    aliases = ["tfdeploy"]  # noqa: RUF012  # as Pygments wants it
    tokens = {  # noqa: RUF012  # as above
        "root": [
            (r"#.*", Comment.Single),
            (r'"(\\.|[^"\\\n])*"', String),
            (r'^(\s*)([a-z_]+)(?=( "[^"]*")? \{)', bygroups(Text, Keyword)),
            (r"\b(true|false|none)\b", Keyword.Constant),
            (r"\d[\d_]*(\.\d+)?(e[-+]?\d+)?( ?([kKMGT]i?B|B|us|ms|s|min|h|d|%))?", Number),
            (r"->|<=|>=|==|\.\.|[-+*/=<>]", Operator),
            (r"[A-Za-z_][\w.]*(?=\()", Name.Function),
            (r"[A-Za-z_]\w*", Name),
            (r"[()\[\]{},.:]", Punctuation),
            (r"\s+", Text),
            (r".", Text),
        ]
    }


# Pygments finds lexers by this table, in modules by their `__all__`.
LEXERS["TfdeployLexer"] = (__name__, TfdeployLexer.name, ("tfdeploy",), ("*.tfdeploy",), ())


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of codes."""
    for path in sorted((ROOT / PAGES).glob("TFD*.md")):
        text = TITLED.sub(r'```\g<kind> title="\g<title>"', path.read_text(encoding="utf-8"))
        files.append(File.generated(config, f"{SITE}/{path.name}", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to the pages of codes lead to where they are in the site."""
    here = PurePosixPath(page.file.src_uri).parent

    def within(match: re.Match[str]) -> str:
        up = "/".join([".."] * len(here.parts))
        return f"]({up or '.'}/{SITE}/{match['name']}.md)"

    return LINK.sub(within, markdown)
