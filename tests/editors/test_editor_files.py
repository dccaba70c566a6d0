"""The files for editors: their words are those of the schema, and what is made of them is whole."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dsl.schema import vocabulary
from tests.folders import EXAMPLES, ROOT
from tools import make_editors

EDITORS = ROOT / "editors"
GRAMMAR = json.loads((EDITORS / "vscode/syntaxes/tfdeploy.tmLanguage.json").read_text())
WORDS = [
    (kind, word)
    for kind in (vocabulary.blocks, vocabulary.attributes, vocabulary.functions, vocabulary.constants)
    for word in kind()
]


def test_the_files_are_those_that_the_schema_gives() -> None:
    """Nobody has changed the schema without them, or them without the schema."""
    assert make_editors.main(["--check"]) == 0


@pytest.mark.parametrize("name", sorted(make_editors.FILES))
def test_every_word_is_in_every_file(name: str) -> None:
    """Blocks, attributes, functions and words for values, all of them."""
    text = (EDITORS / name).read_text()
    wanted = vocabulary.blocks() if "snippets" in name else tuple(word for _, word in WORDS)
    inner = ("metrics", "output", "job", "optimizer", "weights")
    assert [each for each in wanted if not re.search(rf"\b{each}\b", text) and each not in inner] == []


def scopes(line: str) -> dict[str, str]:
    """Return the scope of each part of a line, as a program with this grammar finds them.

    Only what the grammar uses is done: patterns in their order, the leftmost match first, and one that begins
    and ends. `make editors` colours the examples with the engine of Visual Studio Code itself.
    """
    found: dict[str, str] = {}
    at = 0
    while at < len(line):
        best: tuple[int, int, re.Match[str], dict[str, object]] | None = None
        for number, name in enumerate(GRAMMAR["repository"]):
            rule = GRAMMAR["repository"][name]
            match = re.compile(rule.get("match", rule.get("begin"))).search(line, at)
            if match and match.end() > match.start() and (best is None or (match.start(), number) < best[:2]):
                best = (match.start(), number, match, rule)
        if best is None:
            break
        _, _, match, rule = best
        at = match.end()
        if "end" in rule:
            closing = re.compile(r'(?:\\.|[^"\\])*"?').match(line, at)
            at = closing.end() if closing else len(line)
        for group, capture in dict(rule.get("captures", {})).items():  # type: ignore[call-overload]
            if match[int(group)]:
                found[match[int(group)]] = capture["name"]
        if "name" in rule:
            found[line[match.start() : at]] = str(rule["name"])
    return found


@pytest.mark.parametrize("spec", sorted(EXAMPLES.rglob("*.tfdeploy")), ids=lambda spec: spec.stem)
def test_the_grammar_colours_the_examples(spec: Path) -> None:
    """Every word of a line has a scope; comments and strings are whole."""
    for line in spec.read_text().splitlines():
        found = scopes(line)
        rest = line
        for text in sorted(found, key=len, reverse=True):
            rest = rest.replace(text, " ")
        assert not re.search(r"[\w#\"]", rest), (line, found)


def test_scopes_of_words() -> None:
    """Blocks, attributes, functions and words of the language are told from other names."""
    assert scopes('model "m" {')["model"] == "storage.type.block.tfdeploy"
    assert scopes("  model = 3")["model"] == "variable.other.assignment.tfdeploy"
    assert scopes("  mode = sync") == {
        "  mode": "support.type.property-name.tfdeploy",
        "=": "keyword.operator.tfdeploy",
        "sync": "support.constant.tfdeploy",
    }
    assert scopes("  y = x -> Dense(2)")["Dense"] == "entity.name.function.tfdeploy"
    assert scopes("  pack = 4 MiB # 2")["4 MiB"] == "constant.numeric.tfdeploy"
    assert scopes("  pack = 4 MiB # 2")["# 2"] == "comment.line.number-sign.tfdeploy"


def test_the_extension_names_files_that_are_there() -> None:
    """What its description refers to exists, and its settings start the server of this package."""
    folder = EDITORS / "vscode"
    package = json.loads((folder / "package.json").read_text())
    given = package["contributes"]
    named = [
        package["main"],
        *(each["configuration"] for each in given["languages"]),
        *(each["path"] for each in (*given["grammars"], *given["snippets"])),
    ]
    assert [each for each in named if not (folder / each).is_file()] == []
    defaults = {key: each["default"] for key, each in given["configuration"]["properties"].items()}
    assert defaults == {"tfdeploy.command": "tfdeploy", "tfdeploy.arguments": ["lsp"]}
    for each in ("language-configuration.json", "snippets/tfdeploy.json"):
        assert json.loads((folder / each).read_text())


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_extension_is_javascript() -> None:
    """Its client can be read by node."""
    subprocess.run(["node", "--check", EDITORS / "vscode/extension.js"], check=True)  # noqa: S607 the node that is there


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_the_extension_can_be_packed(tmp_path: Path) -> None:
    """`npm pack` finds what an extension consists of."""
    folder = tmp_path / "vscode"
    shutil.copytree(EDITORS / "vscode", folder, ignore=shutil.ignore_patterns("node_modules"))
    done = subprocess.run(
        ["npm", "pack", "--dry-run", "--json", "--offline"],  # noqa: S607 the npm that is there
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    packed = {each["path"] for each in json.loads(done.stdout)[0]["files"]}
    assert {"package.json", "extension.js", "syntaxes/tfdeploy.tmLanguage.json", "README.md"} <= packed
