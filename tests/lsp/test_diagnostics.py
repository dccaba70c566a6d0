"""Diagnostics: those of `check`, at the same places, of whatever text."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from lsprotocol import types

from dsl.diagnostics import MAX_SHOWN
from tests.cli.conftest import Command, command
from tests.folders import EXAMPLES
from tests.lsp.texts import SMALL, including
from tfdeploy.lsp.diagnostics import by_file, examine
from tfdeploy.lsp.documents import Documents, Positions
from tfdeploy.lsp.settings import Settings

__all__ = ["command"]
SPECS = sorted(EXAMPLES.rglob("*.tfdeploy"))
PIECES = (
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "->",
    "=",
    ",",
    '"',
    "#",
    "\n",
    "cpu[7]",
    "x",
    "1.",
    "é",
    "😀",
    ";",
    "'",
    " ",
)

TINY = """\
tfdeploy = 1
model "m" {
  x = input(float32, [4])
  y = x -> Dens(2, units = 3)
  output = y
}
place { clones -> gpu[0] }
"""


Said = tuple[tuple[int, int, int, int], str, str, str, int]
"""A diagnostic: its lines and columns, code, severity, message, and the number of its related places."""


def of_check(command: Command, text: str) -> list[Said]:
    """Return what `check` says of a text; what has no place counts as at the first character."""
    path = command.write("spec.tfdeploy", text)
    found = json.loads(command("check", str(path), "--format", "json").out)["diagnostics"]
    assert len(found) < MAX_SHOWN, "`check` shows no more, so that nothing can be compared"
    return [
        (_place(each["range"]), each["code"], each["severity"], each["message"], len(each["labels"]))
        for each in found
    ]


def _place(range_: dict[str, dict[str, int]] | None) -> tuple[int, int, int, int]:
    if range_ is None:
        return (1, 1, 1, 1)
    start, end = range_["start"], range_["end"]
    return (start["line"], start["column"], end["line"], end["column"])


def of_server(path: Path, text: str) -> list[Said]:
    """Return what the server says of a text, with places as `check` counts them."""
    documents = Documents()
    document = documents.open(path.as_uri(), 1, text)
    positions = Positions(text)
    shown: list[Said] = []
    for each in by_file(examine(document, documents.texts, Settings()), documents)[document.uri]:
        start = document.source.position(positions.offset(each.range.start))
        end = document.source.position(positions.offset(each.range.end))
        severity = "error" if each.severity == types.DiagnosticSeverity.Error else "warning"
        message = each.message.split("\nnote: ")[0].split("\nhelp: ")[0]
        place = (start.line, start.column, end.line, end.column)
        shown.append((place, str(each.code), severity, message, len(each.related_information or ())))
    return shown


def same(command: Command, text: str) -> None:
    """Compare what the two say of a text."""
    said = of_check(command, text)
    assert of_server(command.directory / "spec.tfdeploy", text) == said, text


def test_every_prefix_of_a_small_spec(command: Command) -> None:
    """Whatever has been typed so far, the server says what `check` says of it."""
    said = set()
    for end in range(0, len(TINY) + 1, 2):
        same(command, TINY[:end])
        said |= {each[1] for each in of_server(command.directory / "spec.tfdeploy", TINY[:end])}
    assert len(said) > 6


def test_a_sequence_of_edits_is_read_as_the_text_that_it_gives(command: Command) -> None:
    """After random changes by place, the server has the edited text and says what `check` says of it."""
    chosen = random.Random(5)  # noqa: S311 edits are no secret
    documents, text = Documents(), f"# 😀é\n{TINY}"
    uri = (command.directory / "spec.tfdeploy").as_uri()
    documents.open(uri, 0, text)
    for version in range(1, 41):
        start = chosen.randrange(len(text) + 1)
        end = min(len(text), start + chosen.choice((0, 0, 1, 4)))
        new = chosen.choice((*PIECES, "", "let {\n  a = 1\n}\n", text[start : start + 9]))
        text = text[:start] + new + text[end:]
        if version % 4 == 0:
            same(command, documents.change(uri, version, text).text)


@pytest.mark.full
def test_every_prefix_of_an_example(command: Command) -> None:
    """As above, with a spec that trains."""
    text = (EXAMPLES / "digits.tfdeploy").read_text()
    for end in range(len(text) + 1):
        same(command, text[:end])


def mutations(text: str, count: int, seed: int) -> Iterator[str]:
    """Yield texts in which a stretch is left out, doubled or replaced by a piece."""
    chosen = random.Random(seed)  # noqa: S311 damage is no secret
    for _ in range(count):
        start = chosen.randrange(len(text))
        end = min(len(text), start + chosen.choice((0, 1, 1, 5, 30)))
        yield text[:start] + chosen.choice(("", *PIECES, text[start:end] * 2)) + text[end:]


@pytest.mark.parametrize(
    ("spec", "count", "seed"),
    [
        *(pytest.param(each, 2, 0, marks=pytest.mark.family(every=4), id=each.stem) for each in SPECS),
        *(
            pytest.param(each, 40, 1000, marks=pytest.mark.full, id=f"{each.stem}-much")
            for each in SPECS[::3]
        ),
    ],
)
def test_mutations_of_the_examples(command: Command, spec: Path, count: int, seed: int) -> None:
    """Damage of any kind gives the same in both."""
    for text in mutations(spec.read_text(), count, seed + len(spec.name)):
        same(command, text)


def test_columns_count_utf16_units() -> None:
    """A character beyond the basic plane counts two, in either direction; other units are as agreed."""
    text = 'a = "😀é" # 😀\r\nb\rc'
    for encoding, column in (("utf-16", 8), ("utf-8", 11), ("utf-32", 7)):
        positions = Positions(text, encoding)
        offset = text.index('" #')
        assert positions.position(offset) == types.Position(0, column), encoding
        for at in range(len(text) + 1):
            if text[at - 1 : at + 1] != "\r\n":
                assert positions.offset(positions.position(at)) == at, (encoding, at)
    assert Positions(text).position(text.index("c")) == types.Position(2, 0)
    assert Positions(text).offset(types.Position(0, 99)) == text.index("\r")
    assert Positions(text).offset(types.Position(9, 0)) == len(text)


def shown(text: str) -> list[types.Diagnostic]:
    """Return the diagnostics of a text that has no file."""
    documents = Documents()
    document = documents.open("untitled:spec", 1, text)
    return by_file(examine(document, documents.texts, Settings()), documents)[document.uri]


def test_what_has_no_use_is_marked() -> None:
    """A constant without use is tagged, so that editors show it in grey; its code leads to its page."""
    found = [each for each in shown(SMALL.replace("units = width", "units = 3")) if each.code == "TFD602"]
    assert [each.tags for each in found] == [[types.DiagnosticTag.Unnecessary]]
    assert found[0].range == types.Range(types.Position(3, 2), types.Position(3, 7))
    page = found[0].code_description
    assert page.href.startswith("file:///")
    assert page.href.endswith("/tfdeploy/pages/TFD602.md")


def test_related_places_are_shown() -> None:
    """The first definition of something that is defined twice is a related place."""
    found = shown(SMALL.replace("  width = 8\n", "  width = 8\n  width = 9\n"))
    twice = next(each for each in found if each.code == "TFD203")
    assert twice.range.start == types.Position(4, 2)
    assert [each.location.range.start for each in twice.related_information or ()] == [types.Position(3, 2)]


def test_errors_in_what_is_set_are_shown_at_the_beginning() -> None:
    """A value that the settings of the editor give is in no text."""
    documents = Documents()
    document = documents.open("untitled:spec", 1, SMALL)
    settings = Settings(overrides=(("update.optimizer", "Nothing()"),))
    (found,) = by_file(examine(document, documents.texts, settings), documents)[document.uri]
    assert (found.code, found.range) == ("TFD404", types.Range(types.Position(0, 0), types.Position(0, 0)))


def test_errors_in_included_files_are_shown_there(tmp_path: Path) -> None:
    """An included text counts as it is in the editor, and its errors have its own address."""
    main = including("part.tfdeploy")
    (tmp_path / "part.tfdeploy").write_text("let { width = 8 }\n")
    (tmp_path / "main.tfdeploy").write_text(main)
    documents = Documents()
    document = documents.open((tmp_path / "main.tfdeploy").as_uri(), 1, main)
    part = (tmp_path / "part.tfdeploy").as_uri()
    assert by_file(examine(document, documents.texts, Settings()), documents) == {document.uri: [], part: []}
    opened = documents.open(part, 1, "let { width = 1 + }\n")
    documents.find_specs_with(opened)
    assert documents.spec_with(opened).uri == document.uri
    found = by_file(examine(document, documents.texts, Settings()), documents)
    assert [each.code for each in found[part]] == ["TFD102"]
    assert found[document.uri] == []
