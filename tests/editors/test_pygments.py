"""The lexer for Pygments: every spec of the project without an error, and words by what they are."""

import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from pygments.lexer import Lexer
from pygments.token import Comment, Error, Keyword, Name, Number, String

from tests.folders import EXAMPLES, ROOT
from tfdeploy.pygments_lexer import TfdeployLexer

SPECS = sorted([*EXAMPLES.rglob("*.tfdeploy"), *(ROOT / "tests/grammar/specs").glob("*.tfdeploy")])


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_specs_are_lexed_without_errors(spec: Path) -> None:
    """No part of a spec is an error token, and nothing is lost."""
    text = spec.read_text()
    found = list(TfdeployLexer(stripnl=False).get_tokens(text))
    assert [value for kind, value in found if kind is Error] == []
    assert "".join(value for _, value in found) == text


def kinds(text: str) -> dict[str, object]:
    """Return the token type of each part of a text."""
    return {value: kind for kind, value in TfdeployLexer().get_tokens(text)}


def test_words_by_what_they_are() -> None:
    """A block, an attribute, a function of the language, a layer, a word for a value, a name, a unit."""
    found = kinds(
        'tfdeploy = 1\nmodel "m" { x = input(int32, [4]) -> Dense(2) }\nupdate { pack = 4 MiB # no\n }'
    )
    expected = {
        "tfdeploy": Keyword.Namespace,
        "model": Keyword.Declaration,
        '"m"': Name.Class,
        "x": Name.Attribute,
        "input": Name.Builtin,
        "int32": Name.Constant,
        "Dense": Name.Function,
        "4 MiB": Number,
        "# no": Comment.Single,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert kinds('a = "b\\"c"')['"b\\"c"'] is String.Double
    assert kinds("a = ?")["?"] is Error


def test_the_entry_point_leads_to_the_lexer() -> None:
    """What the package publishes for Pygments is a lexer with the name and the files of the language."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["pygments.lexers"]["tfdeploy"].partition(":")
    lexer = getattr(import_module(module), name)
    assert issubclass(lexer, Lexer)
    assert (lexer.name, lexer.aliases, lexer.filenames) == ("tfdeploy", ("tfdeploy",), ("*.tfdeploy",))
