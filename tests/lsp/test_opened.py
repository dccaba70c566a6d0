"""The texts that an editor has open, and to which spec each of them belongs."""

from pathlib import Path

import pytest
from lsprotocol import types

from dsl.source import Source, Span
from tfdeploy.lsp import documents as module
from tfdeploy.lsp.diagnostics import examine
from tfdeploy.lsp.documents import HIGHEST, Document, Documents, Positions, path_of, uri_of
from tfdeploy.lsp.settings import Settings

INCLUDING = 'tfdeploy = 1\ninclude = ["{}"]\n'


def test_a_byte_order_mark_is_a_blank_to_the_reader() -> None:
    """So that all places are the same."""
    marked = Document("file:///a.tfdeploy", "/a.tfdeploy", 1, "\ufefftfdeploy = 1\n")
    assert marked.source.text == " tfdeploy = 1\n"
    assert len(marked.tree.items) == 1
    assert Document("a", "a", 1, "x").source.text == "x"


def test_a_tree_is_parsed_once_and_can_be_given() -> None:
    """One that belongs to another file is not taken; a text of which nothing can be read has no items."""
    document = Document("file:///a.tfdeploy", "/a.tfdeploy", 1, "tfdeploy = 1\n")
    tree = document.tree
    assert document.tree is tree
    other = Document("file:///b.tfdeploy", "/b.tfdeploy", 1, "let {}\n").tree
    again = Document("file:///a.tfdeploy", "/x/../a.tfdeploy", 1, "tfdeploy = 1\n").tree
    document.note_tree([other, again])
    assert document.tree is again
    document.note_tree([other])
    assert document.tree not in {again, other} or document.tree == tree


@pytest.fixture
def documents() -> Documents:
    """Return no documents."""
    return Documents()


def write(folder: Path, name: str, text: str) -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("levels", "is_found"), [(0, True), (1, True), (HIGHEST - 1, True), (HIGHEST, False)]
)
def test_a_spec_is_looked_for_in_the_folders_above(
    tmp_path: Path, documents: Documents, levels: int, *, is_found: bool
) -> None:
    """A few of them; the first that includes the document, also through another file, is its spec."""
    folders = "/".join("abcdefgh"[:levels])
    name = f"{folders}/part.tfdeploy" if folders else "part.tfdeploy"
    part = write(tmp_path, name, "let { a = 1 }\n")
    write(tmp_path, "aa.tfdeploy", "let { include = 2 }\n")
    write(tmp_path, "middle.tfdeploy", INCLUDING.format(name))
    write(tmp_path, "main.tfdeploy", INCLUDING.format("middle.tfdeploy"))
    opened = documents.open(part.as_uri(), 1, "let { a = 2 }\n")
    documents.find_specs_with(opened)
    spec = documents.spec_with(opened)
    assert (spec.path == str(tmp_path / "main.tfdeploy")) is is_found
    assert is_found or spec is opened
    read = examine(spec, documents.texts, Settings())
    assert len(read.paths) == (3 if is_found else 1)


def test_a_spec_is_not_looked_for_if_there_is_one_or_can_be_none(
    tmp_path: Path, documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text without a file has none, and of a folder with very many files the first are looked at."""
    part = write(tmp_path, "part.tfdeploy", "let { a = 1 }\n")
    write(tmp_path, "main.tfdeploy", INCLUDING.format("part.tfdeploy"))
    nowhere = documents.open("untitled:part.tfdeploy", 1, "")
    monkeypatch.chdir(tmp_path)
    documents.find_specs_with(nowhere)
    assert documents.spec_with(nowhere) is nowhere
    monkeypatch.setattr(module, "MOST", 0)
    opened = documents.open(part.as_uri(), 1, "")
    documents.find_specs_with(opened)
    assert documents.spec_with(opened) is opened
    monkeypatch.setattr(module, "MOST", 1)
    documents.find_specs_with(opened)
    main = documents.spec_with(opened)
    assert (main.path, main.version, main.text) == (
        str(tmp_path / "main.tfdeploy"),
        0,
        INCLUDING.format("part.tfdeploy"),
    )
    monkeypatch.setattr(module, "HIGHEST", 0)
    documents.find_specs_with(opened)  # it is known
    assert documents.spec_with(opened).path == main.path


def test_an_open_spec_counts_as_it_is_in_the_editor(tmp_path: Path, documents: Documents) -> None:
    """Until it is closed, when what it includes is forgotten."""
    part = documents.open(write(tmp_path, "part.tfdeploy", "").as_uri(), 1, "let { a = 1 }\n")
    main = documents.open((tmp_path / "main.tfdeploy").as_uri(), 3, INCLUDING.format("part.tfdeploy"))
    documents.note_includes(main, [str(tmp_path / "part.tfdeploy"), main.path])
    assert documents.spec_with(part) is main
    assert documents.spec_with(main) is main
    assert documents.texts == {part.path: part.text, main.path: main.text}
    assert list(documents) == [part, main]
    newer = documents.change(main.uri, 4, main.text)
    assert documents.at(main.uri) is newer is not main
    documents.close(main.uri)
    documents.close(main.uri)
    assert documents.spec_with(part) is part
    with pytest.raises(KeyError):
        documents.at(main.uri)


def test_a_source_belongs_to_a_document(documents: Documents) -> None:
    """To one that is open under the same path, or to one of its own."""
    documents.encoding = "utf-8"
    opened = documents.open("file:///folder/a.tfdeploy", 1, "text")
    assert opened.encoding == "utf-8"
    assert documents.of_source(Source("/folder/x/../a.tfdeploy", "other")) is opened
    made = documents.of_source(Source("/folder/b.tfdeploy", "é"))
    assert (made.uri, made.path, made.version, made.text) == (
        "file:///folder/b.tfdeploy",
        "/folder/b.tfdeploy",
        0,
        "é",
    )
    assert made.positions.position(1) == types.Position(0, 2)


def test_addresses_and_paths() -> None:
    """What is no file is known by its address."""
    assert path_of("file:///a%20b.tfdeploy") == "/a b.tfdeploy"
    assert uri_of("/x/../a b.tfdeploy") == "file:///a%20b.tfdeploy"
    assert path_of("untitled:one") in {"untitled:one", "one"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_a_range_is_a_span(encoding: str) -> None:
    """In either direction, in the units of the editor; what is beyond a line is its end."""
    text = "é😀b\r\nsecond"
    positions, source = Positions(text, encoding), Source("a", text)
    for start in range(len(text)):
        for end in range(start, len(text)):
            if "\n" not in {text[start], text[end]}:
                span = Span(source, start, end)
                range_ = positions.span(span)
                assert (positions.offset(range_.start), positions.offset(range_.end)) == (start, end)
    units = {"utf-8": (2, 6), "utf-16": (1, 3), "utf-32": (1, 2)}[encoding]
    assert (positions.units(0, 1), positions.units(0, 2)) == units
    assert positions.offset(types.Position(0, 99)) == 3
    assert positions.offset(types.Position(0, 0)) == 0
    assert positions.offset(types.Position(2, 0)) == len(text)
    assert positions.position(-5) == types.Position(0, 0)
    assert positions.position(999) == types.Position(1, 6)
