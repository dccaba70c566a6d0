"""Adds to MkDocs the pages of codes, the links to files outside of docs/, and the colours of specs.

The pages of codes are those that `tfdeploy explain` prints; there is one copy of them, in `tfdeploy/pages/`.
A page of the docs links to one by its path in the repository, so that the link works there too. In the site
these pages are under `reference/codes/`, and the schemas of `tfdeploy/schemas/` are under
`reference/schemas/`.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files
from pygments.lexers import LEXERS

ROOT = Path(__file__).resolve().parent.parent
PAGES = "tfdeploy/pages"
SITE = "reference/codes"
SCHEMAS = "tfdeploy/schemas"
SCHEMAS_SITE = "reference/schemas"
SCHEMA_LINK = re.compile(r"\]\((?P<up>(?:\.\./)+)tfdeploy/schemas/(?P<name>[\w-]+\.schema\.json)\)")
LINK = re.compile(r"\]\((?P<up>(?:\.\./)+)tfdeploy/pages/(?P<name>TFD\d+)\.md\)")
TITLED = re.compile(r"^```(?P<kind>\w+) (?P<title>[\w./-]+)$", re.MULTILINE)


# The documentation can be built from a source tree whose entry points are not installed: then Pygments finds
# the lexer by this table.
LEXERS["TfdeployLexer"] = ("tfdeploy.pygments_lexer", "tfdeploy", ("tfdeploy",), ("*.tfdeploy",), ())


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of codes, and the schemas."""
    for path in sorted((ROOT / PAGES).glob("TFD*.md")):
        text = TITLED.sub(r'```\g<kind> title="\g<title>"', path.read_text(encoding="utf-8"))
        files.append(File.generated(config, f"{SITE}/{path.name}", content=text))
    for path in sorted((ROOT / SCHEMAS).glob("*.json")):
        files.append(File.generated(config, f"{SCHEMAS_SITE}/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to the pages of codes and to schemas lead to their places in the site."""
    here = PurePosixPath(page.file.src_uri).parent
    up = "/".join([".."] * len(here.parts)) or "."
    markdown = SCHEMA_LINK.sub(lambda found: f"]({up}/{SCHEMAS_SITE}/{found['name']})", markdown)
    return LINK.sub(lambda found: f"]({up}/{SITE}/{found['name']}.md)", markdown)
